"""What is read from afar is fetched ahead, and only that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.tasks import assert_as_nest, found_by, tasks_of, tiled_kernel
from tests.plan.nets import Net
from tests.targets.made import cached
from tests.turns import a_few
from weft.kernels.contraction import contraction_of
from weft.kernels.products.prefetch import following, last_lines, prefetches
from weft.kernels.products.tile_form import TileForm, form_blocks
from weft.kernels.task import Task
from weft.kernels.winograd.choice import generate_as
from weft.loops.nodes import Const, Expr, For, If, Kernel, Local, Prefetch, Stmt, Var
from weft.loops.ranges import Facts
from weft.loops.simplify import simplify
from weft.loops.statements import walk_stmts
from weft.loops.verify import verify
from weft.loops.walk import index, substitute
from weft.targets.find import target

SMALL = cached(target("x86-avx2"), (1024, 4096))


@pytest.mark.parametrize(
    ("slab", "total", "wanted"),
    [
        (256, 512, False),  # All stay in half of the first cache.
        (256, 513, True),
        (2049, 10_000, False),  # The next slab would push out the one in use.
        (1, 10_000, True),
    ],
)
def test_when(slab: int, total: int, wanted: bool) -> None:
    assert prefetches(SMALL, slab, total) is wanted


def test_a_machine_without_caches_fetches_nothing_ahead() -> None:
    assert not prefetches(cached(SMALL, ()), 1, 10**9)


@given(st.integers(1, 9), st.data())
def test_the_following_number_stays_within_the_count(count: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, count - 1))
    found = simplify(substitute(following(Var("n"), count), {"n": index(number)}), Facts())
    assert isinstance(found, Const)
    assert found.value == min(number + 1, count - 1)


def dense(machine_caches: tuple[int, ...], columns: int = 64) -> Task:
    net = Net()
    (task,) = tasks_of(net, net.dense(net.input(12, 32), columns))
    return replace(task, target=cached(task.target, machine_caches))


def hints(kernel: Kernel) -> list[Prefetch]:
    return [stmt for stmt in walk_stmts(kernel.body) if isinstance(stmt, Prefetch)]


def test_kernels_fetch_the_next_block_of_weights() -> None:
    # Four blocks of 16 columns by 32 rows are 8 KiB, a block is 2 KiB.
    task = dense((8192,))
    made = tiled_kernel(task)
    assert made is not None
    found = hints(made.kernel)
    assert found
    assert {each.buffer for each in found} == {"in1"}
    blocks = {simplify(substitute(each.index[0], {"block": index(3)}), Facts()) for each in found}
    assert blocks == {index(3)}
    firsts = {simplify(substitute(each.index[0], {"block": index(0)}), Facts()) for each in found}
    assert firsts == {index(1)}
    assert_as_nest(task, made)


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512"])
@pytest.mark.parametrize("rows", [2, 12, 14, 25, 97, pytest.param(400, marks=pytest.mark.thorough)])
def test_tiles_share_the_next_block_s_lines(rows: int, machine: str) -> None:
    """All are fetched, in order, also where tiles are of two sizes or more than a row has lanes."""
    net = Net()
    (task,) = tasks_of(net, net.dense(net.input(rows, 34), 96))
    task = replace(task, target=cached(target(machine), (4096, 1 << 20)))
    alone = rows == 2 or (rows <= 14 and machine == "x86-avx512")
    # Where registers are few, those that 16 steps would repeat stand before the loop.
    before = rows >= 97 and machine == "x86-avx2"
    assert hints_of_a_step(task) == (0 if before else 2 if alone else 1)


@pytest.mark.parametrize("size", [7, 30])
def test_windows_share_the_next_block_s_lines(size: int) -> None:
    net = Net()
    conv = net.conv(net.input(1, 6, size, size), 96, stride=2, pad=0)
    task = replace(tasks_of(net, conv)[0], target=cached(target("x86-avx512"), (4096, 1 << 20)))
    assert hints_of_a_step(task) == 1


def hints_of_a_step(task: Task) -> int:
    """How many an innermost loop has; those of all tiles fetch the next block's lines in order."""
    made = tiled_kernel(task)
    assert made is not None
    shape = next(each.shape for each in made.kernel.params if each.name == "in1")
    (loop,) = (each for each in made.kernel.body if isinstance(each, For))
    assert loop.var == "block"
    line, slab = task.target.line // 4, prod(shape[1:])
    for block in range(shape[0] - 1):
        lines = [each // line for each in fetched(loop.body, {"block": index(block)}, shape)]
        first = list(dict.fromkeys(lines))
        assert first == sorted(first)
        following = range(slab * (block + 1), slab * (block + 2))
        assert set(first) == {each // line for each in following}
    return max(
        sum(isinstance(each, Prefetch) and each.buffer == "in1" for each in stmt.body)
        for stmt in walk_stmts(made.kernel.body)
        if isinstance(stmt, For)
    )


def test_hints_must_cost_less_than_they_save() -> None:
    """Without fused multiply-adds a block is read once and used for long."""
    slow = cached(target("x86-sse2"), (16384,))
    made = tiled_kernel(replace(dense((), 96), target=slow))
    assert made is not None
    assert not hints(made.kernel)
    net = Net()
    (task,) = tasks_of(net, net.dense(net.input(1, 64), 96))
    row = tiled_kernel(replace(task, target=slow))
    assert row is not None
    assert hints(row.kernel)


@pytest.mark.parametrize("caches", [(), (1 << 20,), (64,)])
def test_kernels_whose_weights_stay_or_cannot_fetch_nothing(caches: tuple[int, ...]) -> None:
    made = tiled_kernel(dense(caches))
    assert made is not None
    assert not hints(made.kernel)


def test_groups_as_the_tile_are_bound_in_what_is_fetched() -> None:
    net = Net()
    x, weight = net.input(1, 6, 1, 1), net.constant(96, 3, 1, 1)
    task = tasks_of(net, net.op("Conv", x, weight, kernel=(1, 1), groups=2))[0]
    task = replace(task, target=cached(task.target, (512, 4096)))
    made = tiled_kernel(task)
    assert made is not None
    assert hints(made.kernel)
    assert_as_nest(task, made)


@pytest.mark.parametrize(("cache", "far"), [(4096, True), (8192, False)])
@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512"])
def test_what_is_added_at_the_end_of_a_tile_is_fetched_at_its_start(
    machine: str, cache: int, far: bool
) -> None:
    """Every line of the 3 KiB once."""
    net = Net()
    *_, task = tasks_of(net, net.op("Add", net.dense(net.input(12, 32), 64), net.input(12, 64)))
    task = replace(task, target=cached(target(machine), (512, cache)))
    (added,) = (each.name for each in task.inputs if each.shape == (12, 64))
    made = tiled_kernel(task)
    assert made is not None
    found = [each for each in hints(made.kernel) if each.buffer == added]
    assert bool(found) is far
    assert_as_nest(task, made)


@pytest.mark.parametrize(("columns", "terms", "wanted"), [(64, 32, 1), (64, 4, 0), (8, 32, 1)])
def test_operands_of_the_end_must_leave_time_to_fetch_them(
    columns: int, terms: int, wanted: int
) -> None:
    net = Net()
    y = net.op("Add", net.dense(net.input(99, terms), columns), net.input(99, columns))
    *_, task = tasks_of(net, y)
    parts = found_by(contraction_of, replace(task, target=cached(target("x86-avx512"), (512, 512))))
    assert parts is not None
    block = form_blocks(parts, TileForm(4, 1))[0]
    assert len(last_lines(parts, block)) == wanted


def test_rows_that_are_added_everywhere_are_not_fetched() -> None:
    net = Net()
    *_, task = tasks_of(net, net.op("Add", net.dense(net.input(12, 32), 64), net.input(64)))
    made = tiled_kernel(replace(task, target=cached(task.target, (64, 64))))
    assert made is not None
    assert {each.buffer for each in hints(made.kernel)} <= {"in1"}


@pytest.mark.parametrize("tiles", a_few([4, 8, 16], 1))
def test_filters_of_windows_are_fetched_in_the_order_in_which_they_lie(tiles: int) -> None:
    """Each point's tiles fetch all filters of the next one, also that of another group."""
    net = Net()
    task = tasks_of(net, net.conv(net.input(1, 16, 14, 14), 64))[0]
    task = replace(task, target=cached(target("x86-avx512"), (4096, 65536)))
    made = generate_as(task, 4, tiles)
    assert made is not None
    (weight,) = {each.buffer for each in hints(made.kernel)}
    shape = next(each for each in made.kernel.params if each.name == weight).shape
    groups, points, _, width = shape
    (loop,) = {
        each
        for each in walk_stmts(made.kernel.body)
        if isinstance(each, For) and each.var == "group"
    }
    slab = prod(shape[2:])
    for number in range(groups * points):
        group, point = divmod(number, points)
        found = list(fetched(loop.body, {"group": index(group), "point": index(point)}, shape))
        following = min(number + 1, groups * points - 1)
        assert found == list(range(slab * following, slab * (following + 1), 16))
    assert width == 32


def fetched(body: Sequence[Stmt], at: Mapping[str, Expr], shape: tuple[int, ...]) -> Iterator[int]:
    """Elements of a buffer that are fetched, in order; loops over tiles and channels run."""
    for stmt in body:
        match stmt:
            case For(var=var, body=inner) if var in at:
                yield from fetched(inner, at, shape)
            case For(start=start, stop=stop, body=inner):
                first, last = (simplify(substitute(each, at), Facts()) for each in (start, stop))
                assert isinstance(first, Const)
                assert isinstance(last, Const)
                for turn in range(int(first.value), int(last.value)):
                    yield from fetched(inner, {**at, stmt.var: index(turn)}, shape)
            case Local(_, inner):
                yield from fetched(inner, at, shape)
            case If(condition, then, otherwise):
                holds = simplify(substitute(condition, at), Facts())
                if isinstance(holds, Const):
                    yield from fetched(then if holds.value else otherwise, at, shape)
            case Prefetch(_, position) if len(position) == len(shape):
                place = 0
                for part, extent in zip(position, shape, strict=True):
                    found = simplify(substitute(part, at), Facts())
                    assert isinstance(found, Const)
                    place = place * extent + int(found.value)
                yield place
            case _:
                continue


@pytest.mark.parametrize("far", [False, True])
def test_patches_fetch_the_next_one_of_a_large_image(far: bool) -> None:
    """What is fetched lies in the image, also at its right edge."""
    net = Net()
    task = tasks_of(net, net.conv(net.input(1, 16, 14, 14), 64))[0]
    size = 16 * 14 * 14 * 4
    caches = (4096, 2 * size - 2 if far else 2 * size)
    made = generate_as(replace(task, target=cached(target("x86-avx512"), caches)), 4, 4)
    assert made is not None
    found = [each for each in hints(made.kernel) if each.buffer == "in0"]
    assert bool(found) is far
    assert len(found) in (0, 36)
    verify(made.kernel)
