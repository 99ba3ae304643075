"""Chains in plans: which values are links, and what fusing them makes of a plan."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plan.nets import Net
from tests.targets.made import cached
from tests.turns import a_few
from weft.codegen.calls import walk_calls
from weft.codegen.flavours import flavour_named
from weft.ir.graph import Graph
from weft.kernels.depth_first.fusion_depth import fuser
from weft.kernels.selection import implementer
from weft.loops.nodes import Kernel
from weft.loops.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.fusion import Group
from weft.plan.interpret import run
from weft.plan.make import make
from weft.plan.plan import Plan
from weft.plan.to_program import lower
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.targets.find import target
from weft.targets.target import Target

SMALL = cached(target("x86-avx2"), (1024, 8192), name="small")
"""A machine whose caches are too small for the links of small networks."""


def planned(graph: Graph, machine: Target = SMALL, threads: int = 1) -> Plan:
    implement = implementer(machine, threads=threads)
    fuse = fuser(machine, threads=threads)
    return make(expand(graph, OPS), OPS, implement, threads, spread=True, fuse=fuse)


def chains_of(plan: Plan) -> list[tuple[str, ...]]:
    """The ops of the stages of every chain of a plan."""
    return [
        tuple(" ".join(node.op for node in each.nodes) for each in step.work.stages)
        for step in plan.steps
        if isinstance(step.work, Group) and step.work.stages
    ]


def inverted(net: Net, x: str, stride: int = 1) -> str:
    """Expand, depthwise, project."""
    channels = net.shape(x)[1]
    y = net.op("Relu", net.conv(x, 12 * channels, 1))
    y = net.op("Relu", net.conv(y, 12 * channels, 3, stride=stride, groups=12 * channels))
    return net.conv(y, channels, 1)


def test_an_inverted_residual_is_one_step() -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 96, 5), 4, 3))
    graph = net.graph(net.op("Add", x, inverted(net, x)))
    plan = planned(graph)
    assert chains_of(plan) == [("Conv Relu", "Conv Relu", "Conv Add")]
    (step,) = [each for each in plan.steps if isinstance(each.work, Group) and each.work.stages]
    assert step.implementation is not None
    assert step.implementation.scheme.startswith("bands-")
    apart = make(expand(graph, OPS), OPS, implementer(SMALL), spread=True)
    assert len(plan.steps) == len(apart.steps) - 2
    assert plan.arena_bytes < apart.arena_bytes / 2
    assert len(plan.roots) == len(apart.roots) - 2


@pytest.mark.parametrize("size", [(96, 5), (95, 4)])
@pytest.mark.parametrize("stride", a_few([1, 2], 1))
@pytest.mark.parametrize("threads", a_few([1, 2], 1))
def test_outputs(size: tuple[int, int], stride: int, threads: int) -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, *size), 4, 3))
    x = inverted(net, x, stride)
    x = net.op("MaxPool", inverted(net, x), kernel=(1, 1), strides=(1, 1))
    graph = net.graph(x)
    plan = planned(graph, threads=threads)
    assert chains_of(plan)
    program = lower(plan)
    for function in program.functions:
        if isinstance(function, Kernel):
            verify(function)
    (found,) = run(program, net.arrays).values()
    wanted = evaluate(graph, net.arrays, OPS)[graph.outputs[0]]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_pooling_behind_a_convolution() -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 48, 24), 16, 1))
    x = net.op("MaxPool", x, kernel=(3, 3), strides=(2, 2))
    plan = planned(net.graph(net.op("Relu", net.conv(x, 4, 3))))
    assert chains_of(plan)[0][:2] == ("Conv Relu", "MaxPool")


def test_what_others_read_is_no_link() -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 48, 9), 32, 1))
    y = net.conv(x, 32, 3, groups=32)
    mean = net.op("GlobalAveragePool", x)
    plan = planned(net.graph(net.op("Relu", y), mean))
    assert chains_of(plan) == []


def test_statistics_of_an_image_do_not_run_by_bands() -> None:
    net = Net()
    x = net.input(1, 16, 8, 8)
    x = net.op("GroupNormalization", x, net.constant(16), net.constant(16), num_groups=1)
    y = net.op("AveragePool", x, kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1))
    graph = net.graph(net.op("Sub", y, x))
    plan = planned(graph, cached(target("x86-avx512"), (1024, 8192), name="small"))
    (found,) = run(lower(plan), net.arrays).values()
    wanted = evaluate(graph, net.arrays, OPS)[graph.outputs[0]]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert chains_of(plan) == []


def test_an_output_is_no_link() -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 48, 9), 32, 1))
    plan = planned(net.graph(x, net.op("Relu", net.conv(x, 32, 3, groups=32))))
    assert all("Conv Relu" not in stages[:-1] for stages in chains_of(plan))


def test_what_fits_the_caches_stays_apart() -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 96, 5), 4, 3))
    graph = net.graph(net.op("Add", x, inverted(net, x)))
    assert chains_of(planned(graph, target("x86-avx2"))) == []
    assert chains_of(planned(graph, target("generic"))) == []


def test_two_threads_give_the_bits_of_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 112, 56), 4, 3))
    graph = net.graph(net.op("Relu", inverted(net, x, 2)))
    cache = Cache(tmp_path_factory.mktemp("cache"))
    machine = cached(SMALL, (4096, 65536))
    found: list[np.ndarray] = []
    for threads in (1, 2):
        plan = planned(graph, machine, threads)
        assert chains_of(plan)
        program = lower(plan)
        parts = [call.parts[0] for call, _ in walk_calls(program.steps)]
        assert (max(parts) > 1) == (threads > 1)
        library = build(program, flavour_named("gnu"), cache=cache)
        found.append(library(*net.arrays.values())[0])
    assert np.array_equal(found[0], found[1])
