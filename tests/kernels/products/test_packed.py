"""Products of a matrix and a vector with weights in fewer bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from tests.kernels.tasks import all_tasks_of, assert_as_nest, computed, memory_of, offers, refusal
from tests.kernels.test_grid import check, machines
from tests.plan.nets import Net
from tests.targets.made import with_one_cache
from tests.turns import a_few, thorough
from weft.codegen.emit import emit
from weft.codegen.flavours import FLAVOURS
from weft.kernels.key import layer_key
from weft.kernels.nest import Everywhere
from weft.kernels.products import packed
from weft.kernels.selection import alternatives, generate, implementer, usual
from weft.kernels.task import Task
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.make import make
from weft.plan.stats import stats
from weft.plan.to_program import lower
from weft.plan.traffic import traffic
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.targets.find import target


def dense(rows: int, lanes: int, small: int = 0, across: bool = False) -> tuple[Net, str]:
    """A dense layer with ReLU; some weights are zero, subnormal or tiny, few in each lane."""
    net = Net()
    random = np.random.default_rng(rows + lanes)
    weights = random.uniform(0.01, 1, (rows, lanes)) * random.choice([-1, 1], (rows, lanes))
    for turn in range(small):
        weights[random.integers(rows), turn % lanes] = random.choice([0, 1e-9, -1e-6, 1e-40])
    array = np.ascontiguousarray((weights.T if across else weights).astype(np.float32))
    held = net.builder.constant(array, "w")
    y = net.op("Gemm", net.input(1, rows), held, net.constant(lanes), transB=int(across))
    return net, net.op("Relu", y)


def task_of(made: tuple[Net, str], machine: str = "x86-avx512") -> Task:
    net, value = made
    return all_tasks_of(net, value, machine=machine)[-1]


SHAPES = [
    (8, 2, 0, False),
    (16, 16, 0, False),
    (29, 70, 0, True),
    (257, 21, 0, False),
    (512, 37, 70, False),
    (1031, 45, 90, True),
]


def offering() -> list[ParameterSet]:
    """The machines; where nothing is packed, the other alternatives are those of the grid."""
    return [
        pytest.param(each, marks=() if "avx" in each else pytest.mark.thorough)
        for each in machines()
    ]


@pytest.mark.parametrize("machine", offering())
def test_kernels_are_right_at_the_edges(machine: str, tmp_path: Path) -> None:
    """As C under sanitizers, beside all other alternatives."""
    # `make test` shares the shapes out among the machines.
    turn = machines().index(machine) % 2
    cases = [dense(*shape) for shape in (SHAPES if thorough(__name__) else SHAPES[turn::2])]
    assert check(cases, machine, tmp_path) >= len(cases)


@pytest.mark.parametrize("machine", a_few(["x86-avx2", "x86-avx512", "aarch64-neon"], 1))
@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_compute_what_plain_loops_do(shape, machine: str) -> None:
    task = task_of(dense(*shape), machine)
    offered = offers(packed.propose, task)
    assert offered
    for each in offered:
        made = each.make()
        assert made is not None
        assert made.scheme == each.name
        assert_as_nest(task, made)


def test_without_small_weights_the_bits_are_those_of_other_loops() -> None:
    task = task_of(dense(67, 50))
    memory = memory_of(task)
    tiled = next(each for each in alternatives(task) if each.name.startswith("tiled-1x"))
    for each in offers(packed.propose, task):
        assert each.sums == tiled.sums
        made, other = each.make(), tiled.make()
        assert made is not None
        assert other is not None
        wanted = computed(task, other, memory)
        np.testing.assert_array_equal(computed(task, made, memory), wanted)
    assert {each.sums.loops for each in offers(packed.propose, task_of(dense(512, 50, 9)))} == {
        "packed"
    }


def test_what_comes_from_memory_is_packed() -> None:
    made = dense(512, 96, 90)
    task = task_of(made)
    assert usual(task).name.startswith("tiled-")
    task = replace(task, target=with_one_cache(task.target, 7 * 512 * 96 // 2))
    assert usual(task).name == generate(task).scheme == "packed-1x6"
    assert usual(replace(task, threads=2)).name == "packed-1x6"
    task = replace(task, target=with_one_cache(task.target, 7 * 512 * 96 // 2 + 1))
    assert usual(task).name.startswith("tiled-")


def products(net: Net) -> list[Task]:
    """Tasks that are nearly what packed kernels compute."""
    several = net.op("MatMul", net.input(3, 64), net.constant(64, 32))
    unknown = net.op("MatMul", net.input(1, 64), net.input(64, 32))
    window = net.conv(net.input(1, 64, 3, 3), 32, 3, pad=0)
    wide = net.op("MatMul", net.input(4, 1, 16), net.constant(4, 16, 32))
    return [
        task
        for value in (several, unknown, window, wide)
        for task in all_tasks_of(net, value, machine="x86-avx512")
        if task.compute.axes
    ]


def test_reasons() -> None:
    for task in products(Net()):
        assert (
            refusal(packed.propose, task)
            == "it is no product of a constant f32 matrix and one vector"
        )
    task = task_of(dense(512, 96, 90))
    assert refusal(packed.propose, task) == ""
    assert refusal(packed.propose, replace(task, exact=True)).startswith(
        "float28 changes the rounding"
    )
    assert refusal(packed.propose, replace(task_of(dense(512, 96)), exact=True)) == ""
    assert refusal(packed.propose, replace(task, arrays={})) == "the weights are not known yet"
    assert refusal(packed.propose, task_of(dense(7, 9))) == "the sums have fewer than 8 terms"
    assert refusal(packed.propose, task_of(dense(512, 96, 200))) == (
        "up to 3 of 512 weights of a sum are too small beside the largest of all"
    )
    for machine in ("generic", "x86-sse2"):
        assert refusal(packed.propose, task_of(dense(16, 16), machine)).startswith(
            "the target lacks"
        )
    net = Net()
    zeros = net.builder.constant(np.zeros((16, 16), np.float32), "w")
    (empty,) = all_tasks_of(net, net.op("MatMul", net.input(1, 16), zeros), machine="x86-avx2")
    offered = [each.name for each in offers(packed.propose, empty)]
    assert offered == ["packed-palette-1x2", "packed-quantized-1x2"]
    asked = replace(empty, encoding="float28")
    assert refusal(packed.propose, asked) == "the weights are all zero, or some are not finite"


def test_layers_of_other_weights_have_other_keys() -> None:
    keys = [layer_key(task_of(dense(512, 96, small))) for small in (0, 90, 200)]
    assert len(set(keys)) == 3
    assert layer_key(task_of(dense(512, 96))) == keys[0]


class Packed(Everywhere):
    """Choices that name a packed kernel for every layer."""

    def __getitem__(self, key: str) -> str:
        return "packed-1x2"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_in_every_flavour_and_in_threads(flavour: str, threads: int, tmp_path: Path) -> None:
    net, value = dense(520, 230, 200, across=True)
    machine = target("x86-avx2")
    graph = expand(net.graph(value), OPS)
    plan = make(graph, OPS, implementer(machine, threads=threads, choices=Packed()), threads)
    assert [step.implementation.scheme for step in plan.steps if step.implementation] == [
        "packed-1x2"
    ]
    (work,) = traffic(plan, stats(graph, OPS))
    assert work.reads["w"] < 520 * 230 * 4 * 0.95
    program = lower(plan, "dense")
    x = np.random.default_rng(0).standard_normal((1, 520)).astype(np.float32)
    weights, bias = (array.astype(np.float64) for array in graph.constants.values())
    wanted = np.maximum(x @ weights.T + bias, 0)
    library = build(program, flavour, cache=Cache(tmp_path))
    found = library(x)
    np.testing.assert_allclose(found[0] if isinstance(found, tuple) else found, wanted, atol=1e-4)
    source = emit(program, FLAVOURS[flavour], "arrays").sources[0][1]
    assert "uint32_t" in source
