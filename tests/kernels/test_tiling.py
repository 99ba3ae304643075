"""Blocks of lanes and tiles of positions cover their axes, each element once."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.tasks import assert_as_nest, found_by, tasks_of, tiled_kernel
from tests.plan.nets import Net
from weft.dtypes import DType
from weft.kernels.contraction import contraction_of
from weft.kernels.guards import Guard
from weft.kernels.tiling import (
    LaneBlock,
    Tile,
    blocks_of,
    slender,
    tile_shape,
    tiles_of,
    waiting,
)
from weft.loops.affine import AffineForm
from weft.loops.nodes import For, LoopKind, Var
from weft.loops.statements import walk_stmts
from weft.targets.find import target


def test_sums_wait_where_neither_tile_nor_window_holds_enough() -> None:
    wide, ordered = target("x86-sse2"), target("cortex-a53")
    assert waiting(wide, 4, 2, 1000) == 1
    assert waiting(wide, 2, 1, 1000) == pytest.approx(4, rel=0.05)
    assert waiting(wide, 2, 1, 8) == 1
    # Where instructions begin in order, the next tile does not help.
    assert waiting(ordered, 2, 1, 8) == 2
    assert waiting(ordered, 8, 1, 8) == 1


@given(st.integers(0, 200), st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 8))
def test_blocks_cover_every_lane_once(extent, lanes, vectors):
    found = [
        block.start + number * block.width + lane
        for block in blocks_of(extent, lanes, vectors)
        for number in range(block.count)
        for lane in range(block.width)
    ]
    assert found == list(range(extent))


@given(st.integers(0, 200), st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 8))
def test_slender_blocks_hold_the_same_lanes_in_few_vectors(extent, lanes, vectors):
    blocks = blocks_of(extent, lanes, vectors)
    found = slender(blocks, vectors)
    assert all(len(block.widths) <= vectors for block in found)
    assert [w for b in found for w in b.widths] == [w for b in blocks for w in b.widths]
    starts = [block.start for block in found]
    ends = [block.start + block.count * block.width for block in found]
    assert starts == [0, *ends][: len(starts)]


def test_a_rest_is_cut_into_ever_narrower_vectors():
    assert blocks_of(45, 8, 2) == [LaneBlock(0, 2, (8, 8)), LaneBlock(32, 1, (8, 4, 1))]
    assert blocks_of(16, 8, 2) == [LaneBlock(0, 1, (8, 8))]
    assert blocks_of(3, 8, 1) == [LaneBlock(0, 1, (2, 1))]


def window(stride: int, dilation: int, pad: int, size: int) -> tuple[Guard, Guard]:
    """``0 <= stride * x + dilation * j - pad < size``."""
    x = Var("x")
    return (
        Guard(AffineForm({x: stride}, -pad), "j", dilation),
        Guard(AffineForm({x: -stride}, size - 1 + pad), "j", -dilation),
    )


@pytest.mark.parametrize("size", [1, 4, 6])
@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(0, 4), st.integers(1, 30), st.integers(1, 5)
)
def test_tiles_cover_every_position_once_and_loops_need_no_guard(
    size, stride, dilation, pad, image, taps
):
    extent = max(1, (image + 2 * pad - dilation * (taps - 1) - 1) // stride + 1)
    guards = window(stride, dilation, pad, image)
    tiles = tiles_of(extent, size, guards, {"j": taps}, 256)
    found: list[int] = []
    for tile in tiles:
        places = range(tile.start, tile.start + tile.size * tile.count)
        found += places
        if tile.count > 1:
            assert all(
                guard.holds(place, tap)
                for guard, place, tap in product(guards, places, range(taps))
            )
    assert found == list(range(extent))


def test_tiles_without_guards_are_two_loops_of_like_size():
    assert tiles_of(197, 14, (), {}, 256) == [Tile(0, 14, 2), Tile(28, 13, 13)]
    assert tiles_of(196, 14, (), {}, 256) == [Tile(0, 14, 14)]
    assert tiles_of(5, 4, (), {}, 256) == [Tile(0, 3, 1), Tile(3, 2, 1)]
    assert tiles_of(3, 4, (), {}, 256) == [Tile(0, 3, 1)]


def test_all_tiles_but_the_last_are_of_whole_units() -> None:
    def tiles(extent: int, size: int) -> list[Tile]:
        return tiles_of(extent, size, (), {}, 256, 2)

    assert tiles(14, 12) == [Tile(0, 8, 1), Tile(8, 6, 1)]
    assert tiles(13, 12) == [Tile(0, 8, 1), Tile(8, 5, 1)]
    assert tiles(11, 4) == [Tile(0, 4, 2), Tile(8, 3, 1)]
    assert tiles(12, 4) == [Tile(0, 4, 3)]
    assert tiles(1, 2) == [Tile(0, 1, 1)]


@given(st.integers(1, 300), st.integers(1, 16))
def test_tiles_without_guards_cover_every_position_once(extent, size):
    tiles = tiles_of(extent, size, (), {}, 256)
    places = [
        tile.start + number * tile.size + place
        for tile in tiles
        for number in range(tile.count)
        for place in range(tile.size)
    ]
    assert places == list(range(extent))
    assert len({tile.size for tile in tiles}) == len(tiles) <= 2
    assert sum(tile.count for tile in tiles) == -(-extent // size)


def test_too_many_tiles_are_not_all_listed():
    wide = window(1, 1, 10**6, 5)
    assert len(tiles_of(10**6, 4, wide, {"j": 10**6}, 10)) == 11


def parts_of(net: Net, output: str, machine: str):
    parts = found_by(contraction_of, tasks_of(net, output, machine=machine)[-1])
    assert parts is not None
    return parts


@pytest.mark.parametrize(
    ("machine", "lanes", "registers"),
    [("x86-sse2", 4, 16), ("x86-avx2", 8, 16), ("x86-avx512", 16, 32), ("aarch64-neon", 4, 32)],
)
@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (6, 64), (28, 64), (100, 48), (7, 5)])
def test_accumulators_fit_the_registers(machine, lanes, registers, rows, columns):
    net = Net()
    made = net.op("MatMul", net.input(rows, 16), net.constant(16, columns))
    parts = parts_of(net, made, machine)
    assert parts.task.target.registers == registers
    positions, vectors = tile_shape(parts, lanes)
    assert 1 <= positions <= rows
    # One more register for what is read beside those operands that are held.
    held = min(positions, vectors)
    assert positions * vectors + held < registers + (positions == 1) * registers


def shape_of(rows: int, columns: int, machine: str) -> tuple[int, int]:
    net = Net()
    made = net.op("MatMul", net.input(rows, 16), net.constant(16, columns))
    parts = parts_of(net, made, machine)
    return tile_shape(parts, parts.task.target.lanes(DType.F32))


@pytest.mark.parametrize(
    ("machine", "terms", "columns", "shape"),
    [
        # Where registers are executed in halves, a core's caches give four vectors of weights
        # in the time that six rows take, if they hold a block of weights.
        ("zen4", 768, 768, (6, 4)),
        ("zen4", 2048, 768, (6, 4)),
        ("zen4", 3072, 768, (14, 2)),
        ("zen4", 768, 96, (14, 2)),
        ("zen5", 768, 768, (14, 2)),
        ("x86-avx512", 768, 768, (14, 2)),
    ],
)
def test_tiles_are_wide_where_weights_come_fast_enough(machine, terms, columns, shape):
    net = Net()
    made = net.op("MatMul", net.input(196, terms), net.constant(terms, columns))
    assert tile_shape(parts_of(net, made, machine), 16) == shape


@pytest.mark.parametrize(
    ("rows", "columns", "shape"),
    [
        (196, 256, (6, 2)),
        # 4 + 3 rows of three vectors make more of every cycle than of two.
        (7, 512, (4, 3)),
        (196, 8, (8, 1)),
        # 6 rows of two vectors need fewer loads for what they multiply than 8 of one.
        (196, 104, (6, 2)),
        (3, 32, (3, 4)),
    ],
)
def test_tiles_where_registers_are_few(rows, columns, shape):
    assert shape_of(rows, columns, "x86-avx2") == shape


def test_factors_of_steps_are_for_many_rows():
    """One multiplication for each vector of weights: fewer, for more rows each."""
    net = Net()
    x = net.op("Mul", net.input(1, 440, 7, 7), net.input(1, 440, 1, 1))
    made = net.op("Conv", x, net.constant(440, 440, 1, 1))
    parts = found_by(contraction_of, tasks_of(net, made, machine="x86-avx2")[0])
    assert parts is not None
    assert tile_shape(parts, 8) == (6, 2)
    assert shape_of(49, 440, "x86-avx2") == (3, 4)


def test_products_in_indices_are_no_factors():
    net = Net()
    made = net.conv(net.input(1, 3, 32, 32), 16, 3, stride=2)
    parts = found_by(contraction_of, tasks_of(net, made, machine="x86-avx2")[0])
    assert parts is not None
    assert tile_shape(parts, 8) == (6, 2)


@pytest.mark.parametrize(
    ("rows", "columns", "shape"), [(196, 256, (2, 6)), (196, 16, (3, 4)), (196, 8, (6, 2))]
)
def test_many_vectors_share_a_scalar_that_takes_a_shuffle(rows, columns, shape):
    assert shape_of(rows, columns, "x86-sse2") == shape


@pytest.mark.parametrize(
    ("machine", "rows", "columns", "updates"),
    [("x86-sse2", 4, 24, 6), ("x86-avx2", 3, 32, 4), ("x86-avx512", 3, 64, 1)],
)
def test_scalars_are_held_where_vectors_are_too_many(machine, rows, columns, updates):
    """The order says what is kept: a loop over positions for each vector, or one for all.

    Without fused multiply-adds a product takes a register too; 32 registers hold all vectors.
    """
    net = Net()
    (task,) = tasks_of(net, net.dense(net.input(rows, 16), columns), machine=machine)
    made = tiled_kernel(task)
    assert made is not None
    (loop,) = [
        each for each in walk_stmts(made.kernel.body) if isinstance(each, For) and each.var == "k"
    ]
    assert [type(each) for each in loop.body] == [For] * updates
    assert all(isinstance(each, For) and each.kind is LoopKind.UNROLL for each in loop.body)
    assert_as_nest(task, made)


def test_tiles_are_of_like_size():
    net = Net()
    made = net.op("MatMul", net.input(13, 16), net.constant(16, 16))
    # Six fit, but 5 + 5 + 3 is better than 6 + 6 + 1.
    assert tile_shape(parts_of(net, made, "x86-avx2"), 8) == (5, 2)


def test_the_tile_is_an_axis_that_shares_no_operand_with_the_lanes():
    net = Net()
    x = net.conv(net.input(1, 3, 6, 7), 16, 1)
    made = net.op("GlobalAveragePool", net.conv(x, 32, groups=2))
    (_, task, _) = tasks_of(net, made)
    parts = found_by(contraction_of, task)
    assert parts is not None
    assert parts.tile is not None
    assert parts.lanes is not None
    assert (parts.tile.extent, parts.lanes.extent) == (7, 16)
    assert [axis.extent for axis in parts.outer] == [6, 2]
