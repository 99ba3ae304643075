"""What the next row of tiles reads of an image in planes is fetched ahead."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.kernels.tasks import assert_as_nest, found_by, tasks_of, tiled_kernel
from tests.plan.nets import Net
from tests.targets.made import cached
from weft.kernels.contraction import contraction_of
from weft.kernels.products.tile_form import TileForm
from weft.kernels.task import Task
from weft.loops.nodes import Const, For, Kernel, Prefetch, Stmt
from weft.loops.ranges import Facts
from weft.loops.simplify import simplify
from weft.loops.statements import walk_stmts
from weft.loops.walk import index, substitute


def stem(
    channels: int = 3,
    size: int = 40,
    *,
    kernel: int = 3,
    stride: int = 2,
    pad: int | None = None,
    inner: bool = False,
) -> Task:
    """A convolution of a network's input, or of what another layer made of it.

    The image has so many columns, and rows for at least six of the output.
    """
    net = Net()
    x = net.input(1, channels, 5 * stride + kernel, size)
    if inner:
        x = net.op("Relu", x)
    y = net.op("Relu", net.conv(x, 32, kernel, stride=stride, pad=pad))
    z = net.op("Transpose", y, perm=(0, 2, 3, 1))
    tasks = tasks_of(net, z, machine="x86-avx512")
    task = next(each for each in tasks if reduces(each))
    return replace(task, target=cached(task.target, (1 << 15, 1 << 20)))


def reduces(task: Task) -> bool:
    parts = found_by(contraction_of, task)
    return parts is not None and parts.reduce is not None


def kernel_of(task: Task, positions: int = 10) -> Kernel:
    made = tiled_kernel(task, TileForm(positions, 2))
    assert made is not None
    assert_as_nest(task, made)
    return made.kernel


def hints(kernel: Kernel) -> list[Prefetch]:
    return [each for each in walk_stmts(kernel.body) if isinstance(each, Prefetch)]


def places(body: tuple[Stmt, ...], values: dict[str, int]) -> set[tuple[int, ...]]:
    """Where hints point, for all values of the loops around them but those that are given."""
    found: set[tuple[int, ...]] = set()
    at = {name: index(value) for name, value in values.items()}
    for stmt in body:
        match stmt:
            case Prefetch():
                where = [simplify(substitute(part, at), Facts()) for part in stmt.index]
                found.add(tuple(int(each.value) for each in where if isinstance(each, Const)))
            case For() if not any(isinstance(each, Prefetch) for each in walk_stmts(stmt.body)):
                pass
            case For(var=var) if var in values:
                found |= places(stmt.body, values)
            case For(start=Const(start), stop=Const(stop), var=var, body=inner):
                for value in range(int(start), int(stop)):
                    found |= places(inner, {**values, var: value})
            case _:
                found |= places(getattr(stmt, "body", ()), values)
    return found


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "fresh"),
    [(3, 2, 1, 2), (3, 1, 1, 1), (7, 2, 3, 2), (4, 4, 0, 4), (3, 4, 0, 3)],
)
def test_rows_that_nothing_read_before(kernel: int, stride: int, pad: int, fresh: int) -> None:
    made = kernel_of(stem(kernel=kernel, stride=stride, pad=pad))
    found = places(made.body, {"y": 4})
    first = 4 * stride - pad
    old, new = (set(range(at, at + kernel)) for at in (first, first + stride))
    assert {row for _, row, _ in found} == new - old
    assert len(new - old) == fresh
    assert {plane for plane, _, _ in found} == {0, 1, 2}


def test_lines_of_a_row_leave_no_gap() -> None:
    found = sorted({column for _, _, column in places(kernel_of(stem(size=96)).body, {"y": 4})})
    gaps = [right - left for left, right in pairwise(found)]
    assert max(gaps) <= 16
    assert found[0] == 0
    assert found[-1] >= 96 - 16 - 1


def test_the_last_row_stays_inside() -> None:
    assert {row for _, row, _ in places(kernel_of(stem()).body, {"y": 6})} == {12}


def test_channels_that_lie_together_are_one_stream() -> None:
    assert hints(kernel_of(stem()))
    assert not hints(kernel_of(stem(channels=24, size=20, inner=True)))


def test_a_machine_without_caches_fetches_nothing() -> None:
    task = stem()
    plain = replace(task, target=cached(task.target, ()))
    assert hints(kernel_of(task))
    assert not hints(kernel_of(plain))


def test_tiles_that_take_no_time_fetch_nothing() -> None:
    assert hints(kernel_of(stem(kernel=2, stride=1, pad=0)))
    assert not hints(kernel_of(stem(channels=1, kernel=1, stride=1)))
