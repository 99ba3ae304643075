"""Vectors that hold several parts of the sums of few lanes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.tasks import assert_as_nest, found_by, tasks_of, tiled_kernel
from tests.plan.nets import Net
from tests.turns import in_turn
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.products import tiled
from weft.kernels.products.reduction_lanes import deep_axis, deep_blocks, single_lane, vectors_of
from weft.kernels.products.tile_form import Order, TileForm
from weft.kernels.products.tiled_choice import deep_forms
from weft.kernels.selection import alternatives, generate
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock, blocks_of
from weft.loops.nodes import Axis, Binary, Const, Expr, For, Kernel, Load, LoopKind, Reduce
from weft.loops.statements import walk_stmts
from weft.loops.walk import free_vars, walk


def task_of(
    channels: int,
    filters: int,
    size: int = 9,
    *,
    kernel: int = 1,
    machine: str = "x86-avx512",
    last: bool = True,
    groups: int = 1,
) -> Task:
    """A convolution inside of a network, with a bias; of planes if not channels ``last``."""
    net = Net()
    x = net.input(1, channels, size, size)
    y = net.conv(net.op("Relu", x) if last else x, filters, kernel, groups=groups)
    tasks = tasks_of(net, net.op("Relu", y), machine=machine)
    return next(each for each in tasks if any(map(is_reduce, walk(each.compute.value))))


def is_reduce(node: Expr) -> bool:
    return isinstance(node, Reduce)


def parts_of(task: Task) -> Contraction:
    found = found_by(contraction_of, task)
    assert found is not None
    return found


def vectors(kernel: Kernel) -> set[int]:
    """Lanes of all vectors."""
    return {
        int(each.stop.value)
        for each in walk_stmts(kernel.body)
        if isinstance(each, For) and each.kind is LoopKind.VECTOR and isinstance(each.stop, Const)
    }


# --- blocks -----------------------------------------------------------------------------------


@given(
    st.integers(1, 100),
    st.sampled_from([4, 8, 16]),
    st.sampled_from([2, 4, 8, 16]),
    st.integers(1, 8),
)
def test_blocks_hold_the_last_lanes_once(extent: int, lanes: int, depth: int, most: int) -> None:
    depth = min(depth, lanes)
    found = deep_blocks(extent, lanes, depth, most)
    assert all(0 < vectors_of(block, lanes) <= most for block in found)
    assert all(width * depth <= lanes for block in found for width in block.widths)
    assert all(block.width * depth % lanes == 0 for block in found[:-1])
    held = [block.start + lane for block in found for lane in range(block.width)]
    if held:
        assert held == list(range(held[0], extent))
        assert held[0] % lanes == 0
        # Fewer products than vectors of one part would need.
        plain = blocks_of(extent, lanes, 1)[held[0] > 0 :]
        shallow = sum(len(block.widths) for block in plain)
        assert sum(vectors_of(block, lanes) for block in found) < depth * shallow


@pytest.mark.parametrize(
    ("extent", "depth", "wanted"),
    [
        (3, 16, [LaneBlock(0, 1, (1, 1, 1), 16)]),
        (24, 2, [LaneBlock(0, 1, (8, 8, 8), 2)]),  # A full vector alone is made deep, too.
        (40, 2, [LaneBlock(32, 1, (8,), 2)]),
        (26, 16, [LaneBlock(16, 1, (1,) * 5, 16), LaneBlock(21, 1, (1,) * 5, 16)]),
        (10, 2, [LaneBlock(0, 1, (8, 2), 2)]),
        (16, 2, []),
        (31, 2, [LaneBlock(0, 1, (8, 8, 8, 4, 2, 1), 2)]),
        (32, 2, []),
    ],
)
def test_blocks(extent: int, depth: int, wanted: list[LaneBlock]) -> None:
    assert deep_blocks(extent, 16, depth, 6) == wanted


# --- where they apply -------------------------------------------------------------------------


def test_the_axis_lies_side_by_side() -> None:
    axis = deep_axis(parts_of(task_of(32, 3)))
    assert axis is not None
    assert axis.extent == 32
    assert deep_axis(parts_of(task_of(32, 3, kernel=3))) == axis
    assert deep_axis(parts_of(task_of(3, 24, last=False, kernel=3))) is None


def test_sums_only() -> None:
    net = Net()
    x = net.op("Relu", net.input(1, 24, 9, 9))
    depthwise = tasks_of(net, net.conv(x, 24, 3, groups=24), machine="x86-avx512")[-1]
    assert deep_axis(parts_of(depthwise)) is None
    pool = tasks_of(net, net.op("MaxPool", x, kernel=(3, 3)), machine="x86-avx512")
    assert all(deep_axis(parts_of(each)) is None for each in pool)


def test_axes_shorter_than_the_depth_and_full_vectors_have_none() -> None:
    assert {form.depth for form in deep_forms(parts_of(task_of(15, 3)))} == {2}
    assert not list(deep_forms(parts_of(task_of(32, 32))))
    assert not list(deep_forms(parts_of(task_of(32, 3, machine="generic"))))


# --- what they compute ------------------------------------------------------------------------


SHAPES = [(16, 3, 1), (18, 3, 3), (33, 1 + 16, 1), (8, 24, 1), (9, 10, 3), (21, 6, 2), (40, 41, 1)]


@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "machine"),
    in_turn(SHAPES, ["x86-avx512", "x86-avx2", "x86-sse2"], every=3),
)
def test_all_forms_agree(channels: int, filters: int, kernel: int, machine: str) -> None:
    task = task_of(channels, filters, 5, kernel=kernel, machine=machine)
    parts = parts_of(task)
    for form in deep_forms(parts):
        made = tiled.write(parts, form)
        assert made is not None
        assert_as_nest(task, made)


@pytest.mark.parametrize("positions", [1, 2, 3, 7, 9])
def test_any_number_of_positions_is_folded(positions: int) -> None:
    task = task_of(20, 19, 11, machine="x86-avx2")
    made = tiled_kernel(task, TileForm(positions, 1, Order.TILES, depth=8))
    assert made is not None
    assert made.scheme == f"tiled-{positions}x1d8-tiles"
    assert_as_nest(task, made)


def test_products_fill_vectors() -> None:
    made = tiled_kernel(task_of(32, 3), TileForm(9, 3, depth=16))
    assert made is not None
    assert vectors(made.kernel) <= {1, 16}
    plain = tiled_kernel(task_of(32, 3), TileForm(16, 1))
    assert plain is not None
    assert 2 in vectors(plain.kernel)


@pytest.mark.parametrize("machine", ["x86-sse2", "x86-avx2", "x86-avx512"])
@pytest.mark.parametrize(("channels", "kernel"), [(16, 1), (18, 3), (33, 2)])
def test_one_filter(machine: str, channels: int, kernel: int) -> None:
    task = task_of(channels, 1, 7, kernel=kernel, machine=machine)
    found = [each for each in alternatives(task) if each.name.startswith("tiled")]
    assert found
    for each in found:
        made = each.make()
        assert made is not None
        assert_as_nest(task, made)


def test_one_filter_has_a_lane_of_its_own() -> None:
    task = task_of(32, 1, 9, kernel=3)
    assert found_by(contraction_of, task) is None
    wider = single_lane(task)
    assert wider is not None
    assert parts_of(wider).lanes == Axis("only", 1)
    assert generate(task).scheme == "tiled-9x1d16"
    # An input that is no constant is no filter, and pools have none.
    assert single_lane(replace(task, constants=frozenset())) is None
    net = Net()
    pool = net.op("AveragePool", net.op("Relu", net.input(1, 24, 9, 9)), kernel=(3, 3))
    assert all(single_lane(each) is None for each in tasks_of(net, pool))


# --- which is chosen --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "scheme"),
    [
        (32, 3, 3, "tiled-7x3d16"),
        (96, 24, 1, "tiled-9x3d2"),
        (120, 40, 1, "tiled-14x2d2"),
        (17, 19, 7, "tiled-28x1d16"),
        (64, 64, 1, "tiled-14x2"),
    ],
)
def test_the_usual_one(channels: int, filters: int, kernel: int, scheme: str) -> None:
    task = task_of(channels, filters, 28, kernel=kernel)
    assert generate(task).scheme.removesuffix("-ahead") == scheme


@pytest.mark.parametrize(("channels", "size"), [(128, 56), (256, 28)])
def test_groups_of_few_channels_fill_vectors(channels: int, size: int) -> None:
    """A tile reads the weights of its own group again, not those of all."""
    found = alternatives(task_of(channels, channels, size, kernel=3, groups=32))
    assert found[0].name == "tiled-28x1d2"


def test_names_say_the_depth() -> None:
    names = {each.name for each in alternatives(task_of(96, 24, 28))}
    assert {"tiled-9x3d2", "tiled-14x2"} <= names


# --- factors of the steps ---------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["x86-sse2", "x86-avx512"])
@pytest.mark.parametrize("filters", [3, 24, 32])
def test_factors_of_channels_go_to_the_weights(machine: str, filters: int) -> None:
    net = Net()
    x = net.op("Relu", net.input(1, 18, 5, 5))
    scale = net.op("Sigmoid", net.input(1, 18, 1, 1))
    y = net.op("Relu", net.conv(net.op("Mul", scale, x), filters, 1))
    task = next(
        each
        for each in tasks_of(net, y, machine=machine)
        if any(map(is_reduce, walk(each.compute.value)))
    )
    assert len(task.inputs) == 4
    for each in alternatives(task):
        made = each.make()
        if made is not None:
            assert_as_nest(task, made)
    tile = parts_of(task).tile
    match parts_of(task).value:
        case Binary("mul", Load() as position, Binary("mul", Load(), Load()) as weights):
            assert tile is not None
            assert tile.var in free_vars(position)
            assert tile.var not in free_vars(weights)
        case other:
            pytest.fail(str(other))
    exact = parts_of(replace(task, exact=True)).value
    assert isinstance(exact, Binary)
    assert isinstance(exact.lhs, Binary)
