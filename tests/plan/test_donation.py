"""Outputs in the memory of inputs: every run hands its state to the next as the reference does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plan.nets import Net, RandomNet
from tests.plan.planned import assert_apart
from tests.turns import examples
from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.kernels.depth_first.fusion_depth import fuser
from weft.kernels.selection import implementer
from weft.loops.nodes import Kernel, Store
from weft.loops.statements import walk_stmts
from weft.loops.verify import verify
from weft.loops.walk import loads
from weft.ops.evaluate import evaluate
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.interpret import run
from weft.plan.make import make
from weft.plan.plan import Plan
from weft.plan.program import Region
from weft.plan.storage import REORDER
from weft.plan.to_program import lower
from weft.targets.find import target

CALLS = 3


def planned(graph: Graph, states: Mapping[str, str], machine: str = "x86-avx512") -> Plan:
    found = target(machine)
    places = {value: graph.outputs.index(output) for value, output in states.items()}
    return make(expand(graph, OPS), OPS, implementer(found), fuse=fuser(found), states=places)


def copies(plan: Plan) -> list[str]:
    """States that are computed elsewhere and then copied."""
    return [
        step.writes[0]
        for step in plan.steps
        if step.nodes[0].op == REORDER
        and plan.roots[plan.views[step.writes[0]].root].region is Region.STATE
    ]


def assert_handed(
    graph: Graph,
    states: Mapping[str, str],
    arrays: Mapping[str, np.ndarray],
    machine: str = "x86-avx512",
) -> Plan:
    """Several runs of the program agree with the references, which are given the states."""
    plan = planned(graph, states, machine)
    program = lower(plan)
    for function in program.functions:
        if isinstance(function, Kernel):
            verify(function)
    assert_apart(program, program.steps)
    memory = np.zeros(program.state_bytes, np.uint8)
    held = dict(arrays)
    for state in program.states:
        array = arrays[state.port.name]
        memory[state.offset :][: array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    for call in range(CALLS):
        given = {name: held[name] + call for name in held if name not in states}
        with np.errstate(all="ignore"):
            wanted = evaluate(graph, {**held, **given}, OPS)
        ports = run(program, given, memory)
        free = [each for each in graph.outputs if each not in states.values()]
        found = {name: ports[port.name] for name, port in zip(free, program.outputs, strict=True)}
        for state in program.states:
            part = memory[state.offset :][: state.bytes]
            found[states[state.port.name]] = part.view(state.port.dtype.numpy).reshape(
                state.port.shape
            )
        for name in graph.outputs:
            finite = np.abs(wanted[name][np.isfinite(wanted[name])])
            scale = max(1.0, float(finite.max(initial=0)))
            np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=1e-4 * scale)
        # Small differences must not add up.
        for state in program.states:
            array = wanted[states[state.port.name]]
            held[state.port.name] = array
            memory[state.offset :][: array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    return plan


@st.composite
def stateful(draw: st.DrawFn) -> tuple[Graph, dict[str, str], dict[str, np.ndarray]]:
    """Random networks some of whose inputs are states, whose next values are any of that type."""
    random = RandomNet(draw)
    for _ in range(random.number(1, 3)):
        random.grow(random.number(1, 5))
    net, states = random.net, dict[str, str]()
    for value in list(net.arrays):
        like = [
            each
            for each in random.values
            if net.builder.types[each] == net.builder.types[value] and each not in states.values()
        ]
        way = random.one(["any", "any", "sum", "product", "none"])
        if way == "any" and like:
            states[value] = random.one(like)
        elif way == "sum":
            states[value] = net.op("Add", value, random.one(like or [value]))
        elif way == "product" and len(net.shape(value)) == 2:
            states[value] = net.op("MatMul", net.constant(*net.shape(value)[:1] * 2), value)
    outputs = [value for value in (random.values[-1],) if value not in states.values()]
    extra = draw(st.lists(st.sampled_from(random.values), max_size=2, unique=True))
    outputs += [each for each in extra if each not in (*outputs, *states.values())]
    arrays = dict(net.arrays)
    return net.graph(*states.values(), *outputs), states, arrays


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stateful(), st.sampled_from(["generic", "x86-avx2", "x86-avx512"]))
def test_random_networks(
    net: tuple[Graph, dict[str, str], dict[str, np.ndarray]], machine: str
) -> None:
    graph, states, arrays = net
    assert_handed(graph, states, arrays, machine)


def test_a_sum_over_runs_is_made_in_place() -> None:
    net = Net()
    total, x = net.input(4, 8), net.input(4, 8)
    plan = assert_handed(net.graph(after := net.op("Add", total, x)), {total: after}, net.arrays)
    (step,) = plan.steps
    assert step.in_place == total
    assert plan.arena_bytes == 0
    assert plan.state_bytes == 128


def test_the_old_value_is_read_before_it_is_overwritten() -> None:
    net = Net()
    held, x = net.input(8, 8), net.input(8, 8)
    after = net.op("Add", held, x)
    product = net.op("MatMul", net.op("Relu", after), held)
    # What reads the old value needs the new one: it cannot run first.
    plan = assert_handed(net.graph(after, product), {held: after}, net.arrays)
    assert copies(plan) == [f"{after}_next"]
    net = Net()
    held, x = net.input(8, 8), net.input(8, 8)
    after = net.op("Add", held, x)
    # Planned after the sum, it runs before it.
    product = net.op("MatMul", x, held)
    plan = assert_handed(net.graph(after, product), {held: after}, net.arrays)
    assert not copies(plan)
    assert [step.writes for step in plan.steps] == [(product,), (after,)]


@pytest.mark.parametrize("machine", ["generic", "x86-avx512"])
def test_a_window_that_moves_is_copied(machine: str) -> None:
    net = Net()
    window, new = net.input(1, 12), net.input(1, 4)
    rest = net.op("Slice", window, starts=(4,), ends=(12,), axes=(1,))
    after = net.op("Concat", rest, new, axis=1)
    y = net.dense(after, 5)
    plan = assert_handed(net.graph(y, after), {window: after}, net.arrays, machine)
    assert len(copies(plan)) == 1


def test_values_that_change_places_take_one_copy() -> None:
    net = Net()
    left, right = net.input(2, 3), net.input(2, 3)
    to_right, to_left = net.op("Relu", left), net.op("Neg", right)
    plan = assert_handed(net.graph(to_left, to_right), {left: to_left, right: to_right}, net.arrays)
    assert len(copies(plan)) == 1


def test_a_delay_keeps_the_input_of_the_run_before() -> None:
    net = Net()
    before, x = net.input(2, 3), net.input(2, 3)
    plan = assert_handed(net.graph(net.op("Sub", x, before), x), {before: x}, net.arrays)
    assert not copies(plan)


def test_a_product_with_its_own_state_is_copied() -> None:
    net = Net()
    held = net.input(4, 4)
    after = net.op("MatMul", net.constant(4, 4), held)
    plan = assert_handed(net.graph(after), {held: after}, net.arrays)
    assert copies(plan) == [f"{after}_next"]


def test_a_turned_state_is_copied() -> None:
    net = Net()
    held = net.input(4, 4)
    after = net.op("Transpose", held, perm=(1, 0))
    plan = assert_handed(net.graph(after), {held: after}, net.arrays)
    assert len(copies(plan)) == 1


def test_states_lie_side_by_side() -> None:
    net = Net()
    a, b, c = net.input(3), net.input(20), net.input(5)
    after = [net.op("Relu", each) for each in (a, b, c)]
    states = dict(zip((c, a, b), (after[2], after[0], after[1]), strict=True))
    program = lower(assert_handed(net.graph(*after), states, net.arrays))
    assert [(each.port.name, each.offset) for each in program.states] == [(c, 0), (a, 64), (b, 128)]
    assert program.state_bytes == 128 + 80
    assert program.inputs == program.outputs == ()


@pytest.mark.parametrize("machine", ["generic", "x86-avx512"])
@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_of_a_cache_only_the_update_is_written(machine: str, mode: str) -> None:
    net = Net()
    cache, new = net.input(2, 3, 7, 16), net.input(2, 3, 2, 16)
    place = net.input(2, dtype=DType.I64)
    after = net.op("TensorScatter", cache, new, place, axis=2, mode=mode)
    y = net.op("ReduceSum", after, axes=(2,))
    plan = assert_handed(net.graph(y, after), {cache: after}, net.arrays, machine)
    assert not copies(plan)
    (function,) = (each for each in lower(plan).functions if "scatter" in each.name)
    assert isinstance(function, Kernel)
    stores = [each for each in walk_stmts(function.body) if isinstance(each, Store)]
    assert stores
    assert not any("out" in {load.buffer for load in loads(each.value)} for each in stores)
