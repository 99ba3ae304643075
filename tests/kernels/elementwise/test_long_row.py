"""A row beyond a core's caches is summed line by line, squares along with the sum."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.harness import Case, check
from tests.kernels.tasks import assert_as_nest, computed, memory_of, rows_kernel, tasks_of
from tests.plan.nets import Net
from tests.targets.made import cached
from weft.kernels.task import Task
from weft.loops.hoist import LEAST_BYTES, hoist
from weft.loops.nodes import Kernel, Local
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import walk_stmts
from weft.plan.work import stages_of
from weft.targets.find import target

MACHINES = ("x86-sse2", "x86-avx2", "x86-avx512")
SHAPES = ((24, 32), (7, 3, 48), (2, 3, 5, 16))


def task_of(
    *shape: int, machine: str = "x86-avx512", caches: tuple[int, ...] = (512, 1024)
) -> Task:
    """All elements normalized by their mean and variance."""
    net = Net()
    x = net.input(*shape)
    scaled = (net.constant(*shape[-1:]), net.constant(*shape[-1:]))
    y = net.op("LayerNormalization", x, net.constant(*shape), net.constant(*shape), axis=0)
    y = net.op("Add", net.op("Mul", y, scaled[0]), scaled[1])
    (task,) = tasks_of(net, y)
    return replace(task, target=cached(target(machine), caches))


def kept(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    """What is kept of every line."""
    locals = [each.buffer for each in walk_stmts(kernel.body) if isinstance(each, Local)]
    return {each.name: each.shape for each in locals if each.name.endswith("_lines")}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_as_the_plain_loops(shape: tuple[int, ...], machine: str) -> None:
    task = task_of(*shape, machine=machine)
    made = rows_kernel(task)
    assert made is not None
    assert {size[0] for size in kept(made.kernel).values()} == {shape[0] + 1}
    assert len(kept(made.kernel)) == 3
    assert_as_nest(task, made)


@pytest.mark.parametrize(
    ("shape", "caches"),
    [
        ((24, 32), (512, 8192)),  # A core's caches hold it.
        ((24, 32), ()),
        ((1024,), (512, 1024)),  # It is one line.
        ((24, 31), (512, 1024)),  # Its last vector is not whole.
    ],
)
def test_other_rows_keep_nothing(shape: tuple[int, ...], caches: tuple[int, ...]) -> None:
    task = task_of(*shape, caches=caches)
    made = rows_kernel(task)
    assert made is not None
    assert not kept(made.kernel)
    assert_as_nest(task, made)


def test_sums_that_are_no_squares_around_a_mean_walk_along_the_row_again() -> None:
    net = Net()
    x = net.input(24, 32)
    total = net.op("ReduceSum", x, axes=(0, 1))
    more = net.op("ReduceSum", net.op("Exp", net.op("Sub", x, total)), axes=(0, 1))
    (task,) = tasks_of(net, net.op("Div", x, more))
    task = replace(task, target=cached(target("x86-avx2"), (512, 1024)))
    made = rows_kernel(task)
    assert made is not None
    assert len(kept(made.kernel)) in (0, 2)
    assert_as_nest(task, made)


def test_threads_share_its_lines() -> None:
    """Lines are summed, then their sums by one thread, and lines are written."""
    made = rows_kernel(task_of(256, 32))
    assert made is not None
    stages = stages_of(simplify_kernel(hoist(made.kernel, 64).kernel))
    cut = [[each.total for each in stage.ranges.values()] for stage in stages]
    assert [each for each in cut if each] == [[256], [256]]
    assert cut[0]
    assert cut[-1]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_large_mean_costs_no_digits(machine: str) -> None:
    """Of a mean of squares less the square of the mean nothing would be left."""
    net = Net()
    x = net.input(24, 32)
    distance = net.op("Sub", x, net.op("ReduceMean", x, axes=(0, 1)))
    variance = net.op("ReduceMean", net.op("Mul", distance, distance), axes=(0, 1))
    (task,) = tasks_of(net, net.op("Div", distance, net.op("Sqrt", variance)))
    task = replace(task, target=cached(target(machine), (512, 1024)))
    made = rows_kernel(task)
    assert made is not None
    assert len(kept(made.kernel)) == 3
    memory = {name: each + np.float32(3000) for name, each in memory_of(task).items()}
    wide = memory[task.values[0]].astype(np.float64)
    wanted = (wide - wide.mean()) / wide.std()
    found = computed(task, made, memory)
    np.testing.assert_allclose(found.reshape(-1), wanted.reshape(-1), atol=1e-3)


@pytest.mark.parametrize(("flavour", "parts"), [("c99", 1), ("gnu", 1), ("gnu", 3)])
def test_compiled_it_gives_the_same_bits(flavour: str, parts: int, tmp_path: Path) -> None:
    cases: list[Case] = []
    for shape in [*SHAPES, (256, 32)]:
        task = task_of(*shape, machine="x86-avx2")
        made = rows_kernel(task)
        assert made is not None
        memory = memory_of(task)
        names = [buffer.name for buffer in made.kernel.params[:-1]]
        arrays = {
            name: memory[operand.value] for name, operand in zip(names, made.operands, strict=True)
        }
        kernel = hoist(made.kernel, 64, 1 if parts > 1 else LEAST_BYTES).kernel
        cases.append(Case(kernel, arrays))
    check(cases, flavour, tmp_path, parts=parts)
