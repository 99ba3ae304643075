"""Taps hand out what steps make, and leave everything else as it is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plan.nets import Net
from weft.kernels.selection import implementer
from weft.ops.evaluate import evaluate
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.instrument import tap
from weft.plan.make import make
from weft.plan.to_program import lower
from weft.runtime.build import build
from weft.targets.find import target


def skips() -> tuple[Net, tuple[str, ...]]:
    """Convolutions that share memory, with parts of a concatenation written in place."""
    net = Net()
    x = net.input(1, 3, 6, 6)
    first = net.op("Relu", net.conv(x, 4))
    second = net.op("Relu", net.conv(first, 4))
    both = net.op("Concat", net.conv(second, 3), net.conv(first, 5), axis=1)
    return net, (net.conv(both, 2, 1),)


def sorts() -> tuple[Net, tuple[str, ...]]:
    """An extern body between two kernels."""
    net = Net()
    x = net.op("Exp", net.input(4, 6))
    values, places = net.several("TopK", [x], 2, k=3)
    return net, (net.op("Neg", values), net.op("Abs", places))


def scans() -> tuple[Net, tuple[str, ...]]:
    """A recurrent layer, whose loop is one step of the plan and several of the program."""
    net = Net()
    x = net.input(5, 1, 3)
    weights = [net.constant(1, 16, 3), net.constant(1, 16, 4), net.constant(1, 32)]
    made = net.several("LSTM", [net.op("Exp", x), *weights], 3)
    return net, (net.op("Neg", made[0]),)


@pytest.mark.parametrize("network", [skips, sorts, scans])
def test_taps_are_what_the_references_say(network):
    net, outputs = network()
    graph = expand(net.graph(*outputs), OPS)
    plan = make(graph, OPS, implementer(target("generic")))
    program = lower(plan)
    written = [value for step in plan.steps for value in step.writes]
    expected = evaluate(plan.graph, net.arrays, OPS, keep=True)
    wanted = [value for value in written if value in expected]
    tapped = tap(plan, program, wanted)
    arrays = [net.arrays[port.name] for port in program.inputs]
    found = tapped.named(build(tapped.program, "c99")(*arrays))
    names = list(found)
    assert names[: len(outputs)] == [port.name for port in program.outputs]
    assert set(names) == {*names[: len(outputs)], *wanted}
    assert len(names) > len(outputs)
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5)


def test_more_taps_than_a_call_can_have_arguments():
    net = Net()
    turn = net.builder.constant(np.array([[0, 1], [-1, 0]], np.float32), "turn")
    values = [net.input(1, 2)]
    for _ in range(1100):
        values.append(net.op("MatMul", values[-1], turn))
    plan = make(net.graph(values[-1]), OPS, implementer(target("generic")))
    tapped = tap(plan, lower(plan), values)
    found = tapped.named(build(tapped.program, "c99")(net.arrays[values[0]]))
    assert len(found) == 1100
    x, y = net.arrays[values[0]][0]
    turned = [[x, y], [-y, x], [-x, -y], [y, -x]]
    for place, value in enumerate(values[1:], 1):
        np.testing.assert_array_equal(found[value][0], turned[place % 4])


def test_untapped_programs_stay_as_they_are():
    net, outputs = skips()
    plan = make(net.graph(*outputs), OPS, implementer(target("generic")))
    program = lower(plan)
    assert tap(plan, program, []).program == program
    assert tap(plan, program, [*plan.graph.outputs, "nobody makes this"]).program == program
