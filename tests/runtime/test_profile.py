"""Profiles: every step has its time and its work, and what runs is what runs without."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.plan.nets import Net
from weft.errors import UserError
from weft.kernels.selection import implementer
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.clock import TICKS, clocked
from weft.plan.make import make
from weft.plan.plan import Plan
from weft.plan.stats import stats
from weft.plan.to_program import lower
from weft.runtime.build import build
from weft.runtime.limits import Level, Limits, Meter
from weft.runtime.profile import node_times, profile
from weft.targets.find import target

LIMITS = Limits("a processor", 16, 1, 10.0, (Level("L1", 1 << 15, 100.0), Level("DRAM", 0, 1.0)))


def convolutions() -> tuple[Net, tuple[str, ...]]:
    net = Net()
    first = net.op("Relu", net.conv(net.input(1, 8, 16, 16), 16))
    return net, (net.dense(net.op("GlobalAveragePool", net.conv(first, 32, 1)), 4),)


def scans() -> tuple[Net, tuple[str, ...]]:
    """A loop is one step of the plan and several of the program."""
    net = Net()
    x = net.op("Exp", net.input(5, 1, 4))
    w, r = net.constant(1, 16, 4), net.constant(1, 16, 4)
    final, _, _ = net.several("LSTM", [x, w, r], 3, hidden_size=4)
    return net, (net.op("Neg", final),)


def planned(made: tuple[Net, tuple[str, ...]]) -> tuple[Plan, list[np.ndarray]]:
    net, outputs = made
    plan = make(expand(net.graph(*outputs), OPS), OPS, implementer(target("host")))
    return plan, [net.arrays[name] for name in plan.graph.inputs]


@pytest.mark.parametrize("made", [convolutions, scans])
def test_every_step_has_its_time_and_its_work(made):
    plan, inputs = planned(made())
    found = profile(plan, lower(plan), inputs, OPS, seconds=0.01, limits=LIMITS)
    figures = stats(plan.graph, OPS)
    assert len(found.layers) == len(plan.steps)
    assert (found.macs, found.operations) == (figures.macs, figures.operations)
    assert sum(layer.macs for layer in found.layers) == figures.macs
    assert sum(layer.operations for layer in found.layers) >= figures.operations
    assert found.runs >= 5
    assert found.threads == 1
    assert found.gflops == 0
    for number, layer in enumerate(found.layers):
        assert layer.step == number
        assert 0 < layer.least <= layer.median
        assert layer.gflops == pytest.approx(layer.flops / layer.median / 1000)
        assert layer.bytes > 0
        assert layer.limit > 0
        assert layer.bound in ("compute", "L1", "DRAM")
        assert layer.sources
        assert layer.scheme
    assert sum(layer.least for layer in found.layers) <= found.least * 1.001
    multiplied = [layer for layer in found.layers if layer.macs]
    rates = [layer.own_gflops / LIMITS.gflops for layer in multiplied]
    assert min(rates) <= found.peak_fraction <= max(rates)
    json.dumps(found.record())


def test_what_the_machine_gives_is_measured_between_runs():
    plan, inputs = planned(convolutions())
    meter = Meter(target("host"), 1)
    found = profile(plan, lower(plan), inputs, OPS, seconds=0.01, meter=meter)
    # A shared machine may be much slower now than at another moment, but not a thousand times.
    assert max(meter.gflops()) / 1000 < found.gflops < max(meter.gflops()) * 1000


@pytest.mark.parametrize("made", [convolutions, scans])
def test_the_time_of_steps_is_that_of_their_nodes(made):
    plan, inputs = planned(made())
    found = profile(plan, lower(plan), inputs, OPS, seconds=0.01)
    times = node_times(found, plan.graph, OPS)
    # What only looks at memory in another shape is no step.
    computing = {name for step in plan.steps for name in (node.name for node in step.nodes)}
    assert times.keys() == computing
    assert sum(times.values()) == pytest.approx(sum(each.median for each in found.layers))


@pytest.mark.parametrize("made", [convolutions, scans])
def test_the_clock_changes_nothing(made):
    plan, inputs = planned(made())
    program = lower(plan)
    expected = build(program)(*inputs)
    *found, ticks = build(clocked(plan, program, "x86_64"))(*inputs)
    for have, want in zip(found, expected, strict=True):
        assert have.tobytes() == want.tobytes()
    assert ticks.shape == (len(plan.steps) + 1,)
    assert (np.diff(ticks) > 0).all()


def test_names_of_outputs_stay_apart():
    net = Net()
    x = net.builder.input(TICKS, net.builder.types[net.input(2)])
    plan = make(net.graph(net.op("Neg", x)), OPS, implementer(target("generic")))
    program = clocked(plan, lower(plan), "aarch64")
    names = [port.name for port in (*program.inputs, *program.outputs)]
    assert len(names) == len(set(names))


def test_machines_without_a_known_counter_are_refused():
    plan, _ = planned(convolutions())
    with pytest.raises(UserError, match="profiling is supported on x86 and aarch64; got pdp11"):
        clocked(plan, lower(plan), "pdp11")
