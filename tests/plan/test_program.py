"""Programs of whole networks agree with the references, on machines of every width."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plan.nets import Net, nets
from tests.plan.planned import assert_planned, plan_of, program_of
from tests.turns import examples
from weft.errors import InternalError
from weft.ir.graph import Graph
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.plan.interpret import run
from weft.plan.to_program import lower

MACHINES = ("generic", "x86-sse2", "x86-avx2", "x86-avx512")


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nets(), st.sampled_from(MACHINES))
def test_random_networks(net, machine):
    graph, inputs = net
    assert_planned(graph, inputs, machine, 1e-4)


def chain() -> tuple[Graph, dict[str, np.ndarray]]:
    net = Net()
    x = net.input(1, 4, 5, 5)
    for _ in range(4):
        x = net.op("Relu", net.op("Add", net.conv(net.conv(x, 4), 4), x))
    return net.graph(net.op("GlobalAveragePool", x)), net.arrays


def wanted(graph: Graph, inputs: dict[str, np.ndarray]) -> np.ndarray:
    return evaluate(graph, inputs, OPS)[graph.outputs[0]]


def test_memory_that_overlaps_gives_wrong_results():
    graph, inputs = chain()
    plan = plan_of(graph)
    assert plan.lower_bound > max(each.bytes for each in plan.intervals)
    overlapping = replace(plan, offsets=dict.fromkeys(plan.offsets, 0))
    (found,) = run(lower(overlapping), inputs).values()
    assert not np.allclose(found, wanted(graph, inputs))


def test_memory_that_nothing_wrote_is_poisoned():
    graph, inputs = chain()
    program = program_of(graph)
    (found,) = run(replace(program, steps=program.steps[1:]), inputs).values()
    assert not np.allclose(found, wanted(graph, inputs))


def test_addresses_outside_the_arena_are_found():
    graph, inputs = chain()
    program = program_of(graph)
    with pytest.raises(InternalError, match=r"at \d+ leaves arena  of \d+ bytes"):
        run(replace(program, arena_bytes=program.arena_bytes - 64), inputs)


def test_programs_with_c_bodies_are_not_interpreted():
    net = Net()
    program = lower(plan_of(net.graph(net.op("CumSum", net.input(3), axis=0))))
    with pytest.raises(InternalError, match="cum_sum is C, which cannot be interpreted"):
        run(program, net.arrays)
