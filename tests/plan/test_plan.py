"""Plans: what takes the memory of an operand, and how much memory there is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.plan.nets import Net
from tests.plan.planned import plan_of
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.types import Symbol, TensorType
from weft.kernels.selection import implementer
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS
from weft.plan.make import make, words
from weft.plan.plan import Plan
from weft.plan.program import Region
from weft.targets.find import target


def in_place(plan: Plan) -> dict[str, str]:
    """What takes whose memory."""
    return {step.writes[0]: step.in_place for step in plan.steps if step.in_place}


# --- in place -------------------------------------------------------------------------------


def test_a_residual_addition_takes_the_memory_of_what_it_adds():
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 4, 5, 5), 4))
    inner = net.conv(x, 4)
    made = net.op("Relu", net.op("Add", net.conv(inner, 4), x))
    plan = plan_of(net.graph(net.op("GlobalAveragePool", made)))
    assert in_place(plan) == {made: x}
    assert plan.offsets[made] == plan.offsets[x]
    assert plan.arena_bytes == plan.lower_bound == 2 * 448


def test_what_is_needed_later_is_kept():
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 4, 5, 5), 4))
    first = net.op("Add", net.conv(net.conv(x, 4), 4), x)
    second = net.op("Add", net.conv(net.conv(first, 4), 4), x)
    plan = plan_of(net.graph(net.op("GlobalAveragePool", second)))
    assert in_place(plan) == {second: x}


def test_memory_of_another_order_of_dimensions_is_taken_if_it_is_walked_alike():
    net = Net()
    x = net.dense(net.input(4, 6), 6)
    turned = net.op("Transpose", x, perm=(1, 0))
    other = net.op("Transpose", net.dense(net.input(3, 6), 6), perm=(1, 0))
    made = net.op("Mul", turned, net.dense(other, 4))
    plan = plan_of(net.graph(net.op("Exp", turned), net.dense(made, 2)))
    assert plan.views[turned].strides == plan.views[made].strides == (1, 6)
    assert in_place(plan) == {made: x}


def after_c(build: Callable[[Net, str], str]) -> tuple[Plan, str]:
    """The plan of something between two C bodies, which fuse with nothing."""
    net = Net()
    made = build(net, net.op("CumSum", net.input(4, 6), axis=0))
    return plan_of(net.graph(net.op("CumSum", made, axis=0))), made


def rows(net: Net, x: str, start: int, stop: int) -> str:
    return net.op("Slice", x, starts=(start,), ends=(stop,), axes=(0,))


def test_what_is_read_point_by_point_is_taken():
    plan, made = after_c(lambda net, x: net.op("Add", net.op("Neg", x), net.input(6)))
    assert in_place(plan) == {made: "cumsum_out"}


REFUSED: dict[str, Callable[[Net, str], str]] = {
    "an input": lambda net, x: net.op("Neg", net.input(4, 6)),
    "a window": lambda net, x: net.op("Pad", rows(net, x, 1, 4), pads=(1, 0, 0, 0)),
    "a factor": lambda net, x: net.op("MatMul", x, net.input(6, 6)),
    "a reduced value": lambda net, x: net.op("Softmax", x, axis=0),
    "another type": lambda net, x: net.op("Cast", x, to=DType.I32),
    "another size": lambda net, x: net.op("Add", x, net.input(2, 4, 6)),
    "transposed elements": lambda net, x: net.op(
        "Add", net.op("Transpose", net.op("Reshape", x, shape=(6, 4)), perm=(1, 0)), net.input(4, 6)
    ),
    "two windows of one": lambda net, x: net.op("Add", rows(net, x, 0, 2), rows(net, x, 2, 4)),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused_in_place(why):
    plan, made = after_c(REFUSED[why])
    assert plan.roots[made].region is Region.ARENA
    assert in_place(plan) == {}


def test_the_same_elements_read_twice_are_one_operand():
    net = Net()
    x = net.dense(net.input(4, 6), 6)
    made = net.op("Add", net.op("Mul", x, x), net.dense(net.dense(x, 3), 6))
    plan = plan_of(net.graph(net.dense(made, 2)))
    assert in_place(plan) == {made: x}


# --- memory ---------------------------------------------------------------------------------


def chain(net: Net) -> str:
    x = net.input(1, 8, 6, 6)
    for _ in range(5):
        x = net.op("Relu", net.conv(x, 8))
    return net.op("GlobalAveragePool", x)


def dense_block(net: Net) -> str:
    parts = [net.conv(net.input(1, 3, 6, 6), 8)]
    for _ in range(4):
        whole = net.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
        parts.append(net.conv(net.op("Relu", net.conv(whole, 16, 1)), 4))
    return net.op("GlobalAveragePool", net.op("Concat", *parts, axis=1))


def branches(net: Net) -> str:
    x = net.op("Relu", net.conv(net.input(1, 3, 6, 6), 8))
    made = [net.conv(net.conv(x, 4, 1), 6, size) for size in (1, 3, 5)]
    return net.op("GlobalAveragePool", net.op("Concat", *made, axis=1))


@pytest.mark.parametrize("build", [chain, dense_block, branches], ids=lambda f: f.__name__)
def test_the_arena_is_as_small_as_can_be(build):
    net = Net()
    plan = plan_of(net.graph(build(net)))
    assert 0 < plan.arena_bytes == plan.lower_bound


def test_a_dense_block_copies_nothing():
    net = Net()
    plan = plan_of(net.graph(dense_block(net)))
    ops = [step.work.nodes[0].op for step in plan.steps]
    assert ops == ["Conv"] * 9 + ["GlobalAveragePool"]


def test_nothing_that_is_alive_overlaps():
    net = Net()
    plan = plan_of(net.graph(dense_block(net)))
    spans = {each.name: each for each in plan.intervals}
    assert set(spans) <= set(plan.offsets)
    for one in spans.values():
        for other in spans.values():
            if one.name < other.name and one.first <= other.last and other.first <= one.last:
                start, stop = plan.offsets[one.name], plan.offsets[other.name]
                assert start + one.bytes <= stop or stop + other.bytes <= start


def test_scratch_of_c_bodies_and_scans_lies_in_the_arena():
    net = Net()
    made = net.several(
        "GRU",
        [net.input(5, 2, 3), net.constant(1, 12, 3), net.constant(1, 12, 4)],
        2,
        hidden_size=4,
    )
    plan = plan_of(net.graph(*made))
    ((place, offset),) = plan.scratch.items()
    step = plan.steps[place]
    assert step.nested is not None
    assert step.scratch >= step.nested.arena_bytes
    assert offset + step.scratch <= plan.arena_bytes


def test_equal_graphs_give_equal_plans():
    plans = []
    for _ in range(2):
        net = Net()
        plans.append(plan_of(net.graph(branches(net))))
    assert plans[0].offsets == plans[1].offsets
    assert [step.writes for step in plans[0].steps] == [step.writes for step in plans[1].steps]


# --- refusals and names ---------------------------------------------------------------------


def test_symbolic_dimensions_are_refused():
    builder = GraphBuilder(OPS)
    x = builder.input("x", TensorType(DType.F32, (Symbol("N"), 3)))
    y = builder.input("y", TensorType(DType.F32, (2, 3)))
    graph = builder.graph([builder.op("Relu", x), builder.op("Relu", y)])
    with pytest.raises(UserError) as caught:
        make(graph, OPS, implementer(target("generic")))
    assert str(caught.value) == (
        "every dimension must be known before planning; got x f32[N,3]. "
        "Give it with --input x=SHAPE"
    )


def test_ops_are_named_in_words():
    assert [words(op) for op in ("Conv", "MaxPool", "GRU", "ReduceL2", "QLinearConv")] == [
        "conv",
        "max_pool",
        "gru",
        "reduce_l2",
        "qlinear_conv",
    ]
