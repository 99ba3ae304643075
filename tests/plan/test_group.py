"""Groups: what is computed together, and what must not be."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plan.nets import Net
from weft.dtypes import DType
from weft.loops.nodes import Const, Load, Reduce
from weft.loops.walk import walk
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.fusion import Group, form
from weft.plan.tensors import only_used, own_outputs, tensor_program


def groups_of(net: Net, *outputs: str) -> dict[str, Group]:
    graph = own_outputs(only_used(expand(net.graph(*outputs), OPS)))
    return dict(form(tensor_program(graph, OPS)))


def ops_of(net: Net, *outputs: str) -> list[str]:
    """The ops of every group: ``Conv+Relu``."""
    groups = groups_of(net, *outputs).values()
    return ["+".join(node.op for node in group.nodes) for group in groups]


# --- what fuses -----------------------------------------------------------------------------


def test_elementwise_chains_are_one_group():
    net = Net()
    x = net.input(2, 3)
    assert ops_of(net, net.op("Neg", net.op("Add", net.op("Tanh", x), x))) == ["Tanh+Add+Neg"]


def test_what_follows_a_convolution_rides_on_it():
    net = Net()
    x = net.input(1, 3, 5, 5)
    made = net.op("Relu", net.op("Mul", net.conv(x, 4), net.constant(4, 1, 1)))
    assert ops_of(net, made) == ["Conv+Mul+Relu"]


def test_a_residual_addition_rides_on_the_later_convolution():
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 4, 5, 5), 4))
    made = net.op("Relu", net.op("Add", x, net.conv(net.conv(x, 4), 4)))
    assert ops_of(net, made) == ["Conv+Relu", "Conv", "Conv+Add+Relu"]


def test_an_addition_of_two_convolutions_rides_on_one():
    net = Net()
    x = net.input(1, 4, 5, 5)
    groups = groups_of(net, net.op("Add", net.conv(x, 4), net.conv(x, 4)))
    assert [len(group.nodes) for group in groups.values()] == [1, 2]
    last = [*groups.values()][-1]
    assert len([node for node in set(walk(last.compute.value)) if isinstance(node, Reduce)]) == 1


def test_a_sum_of_many_convolutions_runs():
    """Each adds to what those before it gave: one array, not as many as there are."""
    net = Net()
    x = net.input(1, 4, 9)
    total = net.conv(x, 4)
    for _ in range(3):
        total = net.op("Add", total, net.conv(x, 4))
    made = net.op("Relu", total)
    assert ops_of(net, made) == ["Conv", "Conv+Add", "Conv+Add", "Conv+Add+Relu"]


def test_sums_of_bytes_are_narrowed_where_they_are_made():
    net = Net()
    x = net.input(1, 4, 5, 5, dtype=DType.I8)

    def layer() -> str:
        w = net.builder.constant(np.ones((4, 4, 1, 1), np.int8), "w")
        factors = [net.builder.constant(np.array(e, np.int32), "f") for e in (1 << 30, -3)]
        zero = net.builder.constant(np.array(0, np.int8), "z")
        return net.op("Requantize", net.op("ConvInteger", x, w), *factors, zero)

    sizes = {"zeros": (0, 0, 0), "multipliers": (1 << 30,) * 3, "shifts": (0, 0, -19)}
    made = net.op("FixedPointAdd", layer(), layer(), **sizes)
    layers = ["ConvInteger+Requantize", "ConvInteger+Requantize+FixedPointAdd"]
    assert ops_of(net, made) == layers


def test_what_could_ride_on_a_convolution_does_not_join_a_pool():
    net = Net()
    x = net.input(1, 4, 6, 6)
    sum = net.op("Relu", net.op("Add", net.conv(x, 4), x))
    assert ops_of(net, net.op("GlobalAveragePool", sum)) == ["Conv+Add+Relu", "GlobalAveragePool"]
    scores = net.op("Mul", net.dense(net.input(5, 6), 7), net.constant(7))
    assert ops_of(net, net.op("Softmax", scores, axis=-1))[0] == "MatMul+Mul"
    # Here it cannot: it would be computed for a transposed product.
    turned = net.op("Relu", net.op("Transpose", net.dense(net.input(5, 6), 7), perm=(1, 0)))
    made = net.op("ReduceMax", turned, axes=(0,), keepdims=0)
    assert ops_of(net, made) == ["MatMul", "Transpose+Relu+ReduceMax"]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_is_one_group(axis):
    net = Net()
    assert len(ops_of(net, net.op("Softmax", net.input(3, 4, 5), axis=axis))) == 1


def test_layer_norm_is_one_group():
    net = Net()
    made = net.op("LayerNormalization", net.input(6, 8), net.constant(8), net.constant(8), axis=-1)
    assert len(ops_of(net, made)) == 1


def test_movement_joins_who_reads_it():
    net = Net()
    x = net.input(4, 6)
    turned = net.op("Transpose", net.op("Slice", x, starts=(1,), ends=(3,), axes=(0,)), perm=(1, 0))
    assert ops_of(net, net.op("Exp", turned)) == ["Slice+Transpose+Exp"]


def test_padding_joins_a_pool():
    net = Net()
    padded = net.op("Pad", net.input(1, 2, 5, 5), pads=(0, 0, 1, 1, 0, 0, 1, 1))
    assert ops_of(net, net.op("MaxPool", padded, kernel=(3, 3), strides=(2, 2))) == ["Pad+MaxPool"]


def test_several_users_in_one_group():
    net = Net()
    x = net.op("Tanh", net.input(7))
    made = net.op("Mul", net.op("Add", x, x), net.op("Neg", x))
    assert ops_of(net, made) == ["Tanh+Add+Neg+Mul"]


# --- what does not --------------------------------------------------------------------------


def test_a_value_with_users_in_two_groups_stands_alone():
    net = Net()
    x = net.op("Tanh", net.input(4, 6))
    assert ops_of(net, net.dense(x, 3), net.op("Neg", x)) == ["Tanh", "MatMul", "Neg"]


def test_graph_outputs_stand_alone():
    net = Net()
    inner = net.op("Tanh", net.input(5))
    assert ops_of(net, net.op("Neg", inner), inner) == ["Tanh", "Neg"]


def test_nothing_joins_the_operands_of_a_contraction():
    net = Net()
    x = net.input(1, 3, 5, 5)
    assert ops_of(net, net.conv(net.op("Relu", x), 4)) == ["Relu", "Conv"]
    net = Net()
    assert ops_of(net, net.dense(net.op("Softmax", net.input(4, 6), axis=-1), 3))[-1] == "MatMul"


def test_no_two_contractions_in_one_group():
    net = Net()
    x = net.input(4, 6)
    assert ops_of(net, net.dense(net.dense(x, 5), 3)) == ["MatMul", "MatMul"]


def test_a_contraction_does_not_ride_across_a_transposition():
    net = Net()
    turned = net.op("Transpose", net.dense(net.input(4, 6), 5), perm=(1, 0))
    assert ops_of(net, net.op("Relu", turned)) == ["MatMul", "Transpose+Relu"]


def test_a_contraction_is_not_repeated_by_a_broadcast():
    net = Net()
    scale = net.dense(net.input(4, 6), 1)
    assert ops_of(net, net.op("Mul", scale, net.input(4, 7))) == ["MatMul", "Mul"]


def test_a_costly_map_is_not_repeated_by_overlapping_windows():
    net = Net()
    x = net.input(1, 2, 8, 8)
    costly = net.op("MaxPool", net.op("Tanh", x), kernel=(3, 3))
    assert ops_of(net, costly) == ["Tanh", "MaxPool"]
    apart = net.op("MaxPool", net.op("Tanh", x), kernel=(2, 2), strides=(2, 2))
    assert ops_of(net, apart) == ["Tanh+MaxPool"]


def test_a_reduction_is_not_repeated():
    net = Net()
    x = net.input(6, 8)
    mean = net.op("ReduceMean", x, axes=(1,), keepdims=1)
    assert len(ops_of(net, net.op("Sub", x, mean))) == 1
    pooled = net.op(
        "MaxPool",
        net.op("ReduceMax", net.input(1, 2, 8, 8, 3), axes=(4,), keepdims=0),
        kernel=(3, 3),
    )
    assert ops_of(net, pooled) == ["ReduceMax", "MaxPool"]


@pytest.mark.parametrize("op", ["Reshape", "Flatten", "Squeeze", "Unsqueeze"])
def test_reshapes_stay_apart_so_that_they_may_be_views(op):
    net = Net()
    attributes = {
        "Reshape": {"shape": (6,)},
        "Flatten": {},
        "Squeeze": {"axes": (0,)},
        "Unsqueeze": {"axes": (0,)},
    }
    x = net.op("Neg", net.input(1, 6))
    made = net.op("Tanh", net.op(op, x, **attributes[op]))
    assert ops_of(net, made) == ["Neg", op, "Tanh"]


def test_parts_of_a_concatenation_stand_alone():
    net = Net()
    left, right = net.op("Neg", net.input(3)), net.op("Tanh", net.input(4))
    made = net.op("Exp", net.op("Concat", left, right, axis=0))
    assert ops_of(net, made) == ["Neg", "Tanh", "Exp"]


def test_groups_stay_small():
    net = Net()
    value = net.input(5)
    for _ in range(20):
        value = net.op("Add", value, net.input(5))
    groups = groups_of(net, value).values()
    assert len(groups) > 1
    assert max(len(group.reads) for group in groups) <= 16


# --- what a group says of itself -----------------------------------------------------------


def test_a_group_knows_its_nodes_members_and_reads():
    net = Net()
    x = net.input(1, 3, 5, 5)
    conv = net.conv(x, 4)
    made = net.op("Relu", conv)
    group = groups_of(net, made)[made]
    assert group.members == (made, conv)
    assert [node.op for node in group.nodes] == ["Conv", "Relu"]
    assert group.reads == (x, "w", "w_1")
    loads = {node.buffer for node in walk(group.compute.value) if isinstance(node, Load)}
    assert loads == {x, "w", "w_1"}
    assert Const(0.0, group.type.dtype) in set(walk(group.compute.value))


# --- factors of the steps of a contraction ----------------------------------------------------


def excited(net: Net, *factor: int, kernel: int = 1, batch: int = 1) -> str:
    """A convolution of an image that is scaled before."""
    x = net.op("Relu", net.input(batch, 24, 9, 9))
    scale = net.op("Sigmoid", net.input(*factor))
    return net.conv(net.op("Mul", x, scale), 16, kernel)


def test_a_factor_of_each_channel_joins_a_pointwise_convolution():
    net = Net()
    assert ops_of(net, excited(net, 1, 24, 1, 1)) == ["Relu", "Sigmoid", "Mul+Conv"]


def test_its_sides_may_be_swapped():
    net = Net()
    scale = net.op("Sigmoid", net.input(1, 24, 1, 1))
    y = net.conv(net.op("Mul", scale, net.op("Relu", net.input(1, 24, 9, 9))), 16, 1)
    assert "Mul+Conv" in ops_of(net, y)


@pytest.mark.parametrize(
    ("factor", "kernel", "batch"),
    [
        ((1, 1, 9, 9), 1, 1),  # Of each pixel: one for every sum.
        ((1, 24, 9, 9), 1, 1),
        ((2, 24, 1, 1), 1, 2),  # Of each image, too: weights would be another's.
        ((1, 24, 1, 1), 3, 1),  # Guards of a window's border stand between.
    ],
)
def test_other_factors_stand_before_the_convolution(
    factor: tuple[int, ...], kernel: int, batch: int
):
    net = Net()
    found = ops_of(net, excited(net, *factor, kernel=kernel, batch=batch))
    assert found[-1] == "Conv"


def test_factors_of_few_sums_are_not_worth_it():
    net = Net()
    x = net.op("Relu", net.input(1, 24, 3, 3))
    y = net.conv(net.op("Mul", x, net.input(1, 24, 1, 1)), 16, 1)
    assert ops_of(net, y)[-1] == "Conv"


# --- attention --------------------------------------------------------------------------------


def attention(net: Net, **sizes: int) -> tuple[str, str]:
    """The weights of attention, and the means of values."""
    queries, keys, width = (sizes.get(name, 6) for name in ("queries", "keys", "width"))
    scores = net.op("MatMul", net.input(2, queries, width), net.input(2, width, keys))
    weights = net.op("Softmax", net.op("Add", scores, net.input(queries, keys)))
    return weights, net.op("MatMul", weights, net.input(2, keys, sizes.get("columns", 5)))


@pytest.mark.parametrize("queries", [1, 6])
def test_attention_is_one_group_with_its_epilogue(queries: int):
    net = Net()
    _, mixed = attention(net, queries=queries)
    (group,) = groups_of(net, net.op("Relu", mixed)).values()
    assert [node.op for node in group.nodes][::7] == ["MatMul", "MatMul"]
    assert group.nodes[-1].op == "Relu"


def test_attention_whose_weights_are_wanted_is_three_groups():
    net = Net()
    weights, mixed = attention(net)
    assert len(ops_of(net, weights, mixed)) == 3
    net = Net()
    weights, mixed = attention(net)
    assert len(ops_of(net, net.op("ReduceSum", weights, axes=(0,)), mixed)) == 4


@pytest.mark.parametrize("name", ["keys", "width", "columns"])
def test_attention_of_one_key_or_element_is_none(name: str):
    net = Net()
    _, mixed = attention(net, **{name: 1})
    assert len(ops_of(net, mixed)) > 1


def test_a_softmax_along_another_axis_is_no_attention():
    net = Net()
    scores = net.op("MatMul", net.input(2, 6, 4), net.input(2, 4, 6))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=1), net.input(2, 6, 5))
    assert len(ops_of(net, mixed)) == 3
