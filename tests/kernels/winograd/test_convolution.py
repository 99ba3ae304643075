"""Convolutions of 3x3 taps are recognised, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels.tasks import assert_as_nest, found_by, tasks_of
from tests.plan.nets import Net
from tests.turns import a_few
from weft.dtypes import DType
from weft.kernels.winograd import choice as winograd_choice
from weft.kernels.winograd.convolution import Convolution, square_convolution
from weft.loops.nodes import Axis, For
from weft.loops.statements import walk_stmts


def recognised(
    channels: int = 4, outputs: int = 8, image: tuple[int, ...] = (6, 9), **options: object
) -> Convolution | None:
    """What the task of one convolution is taken for."""
    net = Net()
    x = net.input(1, channels, *image)
    attributes: dict[str, object] = {"kernel": (3, 3), "pads": (1, 1, 1, 1), **options}
    kernel = attributes["kernel"]
    assert isinstance(kernel, tuple)
    groups = attributes.get("groups", 1)
    assert isinstance(groups, int)
    weight = net.constant(outputs, channels // groups, *kernel)
    task = tasks_of(net, net.op("Relu", net.op("Conv", x, weight, **attributes)))[0]
    return found_by(square_convolution, task)


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 2, 1), (2, 2, 0, 0)])
def test_convolutions_of_3x3_taps(pads: tuple[int, ...]) -> None:
    found = recognised(pads=pads)
    assert found is not None
    rows, columns = 6 + pads[0] + pads[2] - 2, 9 + pads[1] + pads[3] - 2
    assert (found.rows.extent, found.columns.extent) == (rows, columns)
    assert found.before == pads[:2]
    assert found.channel.extent == 4
    assert [found.source.shape[place] for place in found.places] == [6, 9, 4]
    assert [found.filter.shape[place] for place in found.taps] == [3, 3, 4]
    assert found.parts.lanes is not None
    assert found.parts.lanes.extent == 8
    assert found.outer == ()


@pytest.mark.parametrize(
    ("kernel", "stride", "pads", "made"),
    [
        (5, 1, (2, 2, 2, 2), (6, 9)),
        (3, 2, (1, 1, 1, 1), (3, 5)),
        (3, 2, (0, 0, 1, 0), (3, 4)),
        (5, 2, (2, 1, 2, 2), (3, 4)),
        (2, 1, (0, 0, 0, 0), (5, 8)),
    ],
)
def test_other_windows_and_strides(
    kernel: int, stride: int, pads: tuple[int, ...], made: tuple[int, int]
) -> None:
    found = recognised(kernel=(kernel, kernel), strides=(stride, stride), pads=pads)
    assert found is not None
    assert (found.size, found.stride) == (kernel, stride)
    assert (found.rows.extent, found.columns.extent) == made
    assert found.before == pads[:2]


@pytest.mark.parametrize("options", [{}, {"kernel": (5, 5), "strides": (2, 2)}])
def test_images_of_one_channel(options: dict[str, Any]) -> None:
    """Definitions keep no axis of one channel; the convolution has it."""
    found = recognised(channels=1, **options)
    assert found is not None
    assert found.channel.extent == 1
    assert [found.source.shape[place] for place in found.places] == [6, 9, 1]
    assert [found.filter.shape[place] for place in found.taps] == [found.size, found.size, 1]
    assert found.before == (1, 1)


def test_images_of_one_channel_that_are_added_to_the_sum() -> None:
    net = Net()
    x, weight = net.input(1, 1, 6, 9), net.constant(8, 1, 3, 3)
    made = net.op("Add", net.op("Conv", x, weight, kernel=(3, 3), pads=(1, 1, 1, 1)), x)
    (task, _) = tasks_of(net, made)
    assert isinstance(found_by(square_convolution, task), Convolution)
    found = winograd_choice.generate_as(task, 4, 6)
    assert found is not None
    assert_as_nest(task, found)
    # Rows that are read in two ways are not joined.
    assert winograd_choice.generate_by_rows(task, 4) is None


@pytest.mark.parametrize(
    ("size", "looped"), [(12, 0), pytest.param(34, 2, marks=pytest.mark.thorough)]
)
def test_patches_that_leave_the_image_are_loops_where_they_are_few(size: int, looped: int) -> None:
    net = Net()
    made = net.conv(net.op("Relu", net.conv(net.input(1, 2, size, size), 16, kernel=1, pad=0)), 16)
    task = tasks_of(net, net.conv(net.op("Relu", made), 2, kernel=1, pad=0))[1]
    found = winograd_choice.generate_as(task, 2, 12)
    assert found is not None
    loops = [each.var for each in walk_stmts(found.kernel.body) if isinstance(each, For)]
    assert [each for each in loops if each in ("column", "row")] == ["column", "row"][:looped]
    assert_as_nest(task, found)


def test_dilated_windows() -> None:
    found = recognised(dilations=(2, 2), pads=(2, 2, 2, 2))
    assert found is not None
    assert (found.dilation, found.before) == (2, (2, 2))
    assert recognised(dilations=(2, 2)) is not None
    # Two rows of tiles of two for even outputs, and as many for odd ones.
    assert found.tiles_along(Axis("y", 7), 2) == 4
    assert found.tiles_along(Axis("y", 1), 2) == 1


@pytest.mark.parametrize(
    ("image", "window", "outer"),
    [
        ((9,), {"kernel": (2,), "pads": (4, 0), "dilations": (4,)}, []),
        ((6, 9), {"kernel": (1, 2), "pads": (0, 4, 0, 0), "dilations": (1, 4)}, [6]),
        ((9, 6), {"kernel": (2, 1), "pads": (4, 0, 0, 0), "dilations": (4, 1)}, [6]),
    ],
)
def test_windows_along_one_axis(
    image: tuple[int, ...], window: dict[str, Any], outer: list[int]
) -> None:
    found = recognised(image=image, **window)
    assert found is not None
    assert (found.sides, found.size, found.dilation, found.before) == (1, 2, 4, (0, 4))
    assert (found.rows.extent, found.columns.extent) == (1, 9)
    assert [found.source.shape[place] for place in found.places[1:]] == [9, 4]
    assert [found.filter.shape[place] for place in found.taps] == [2, 4]
    assert [axis.extent for axis in found.outer] == outer


def test_volumes() -> None:
    found = recognised(image=(5, 6, 9), kernel=(3, 3, 3), pads=(1,) * 6)
    assert found is not None
    assert (found.rows.extent, found.columns.extent) == (6, 9)
    assert found.depth is not None
    assert (found.depth.out.extent, found.depth.taps, found.depth.before) == (5, 3, 1)
    # Of 15 taps in depth at 5 frames, 2 lie outside.
    assert found.steps == 4 * 3
    assert found.steps_inside == 4 * 13 / 5


def test_batches_are_outer_axes() -> None:
    net = Net()
    x = net.input(3, 4, 6, 6)
    found = found_by(square_convolution, tasks_of(net, net.conv(x, 8))[0])
    assert found is not None
    assert [axis.extent for axis in found.outer] == [3]


@pytest.mark.parametrize(("channels", "outputs", "groups"), [(4, 8, 2), (12, 6, 3), (10, 70, 2)])
def test_groups_of_channels_are_convolved_one_by_one(
    channels: int, outputs: int, groups: int
) -> None:
    found = recognised(channels, outputs, groups=groups)
    assert found is not None
    assert found.group is not None
    assert found.group in found.outer
    assert (found.group.extent, found.channel.extent) == (groups, channels // groups)
    assert found.parts.lanes is not None
    assert found.parts.lanes.extent == outputs // groups
    assert [found.source.shape[place] for place in found.places] == [6, 9, channels // groups]


@pytest.mark.parametrize("batch", a_few([1, 2], 1))
@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize(
    ("channels", "made", "groups"), a_few([(24, 36, 3), (10, 70, 2), (66, 66, 2)], 1)
)
def test_groups_are_computed_right(
    channels: int, made: int, groups: int, outputs: int, batch: int
) -> None:
    """Also where the last vectors of a group are not whole."""
    net = Net()
    x = net.input(batch, channels, 9, 6)
    task = tasks_of(net, net.op("Relu", net.conv(x, made, groups=groups)), machine="x86-avx512")[0]
    for tiles in (2, 5):
        kernel = winograd_choice.generate_as(task, outputs, tiles)
        assert kernel is not None
        assert_as_nest(task, kernel)


def test_what_else_reads_the_image_of_groups_leaves_it_alone() -> None:
    net = Net()
    x = net.input(1, 8, 6, 6)
    both = net.op("Add", net.conv(x, 8, groups=2), x)
    assert not any(found_by(square_convolution, task) for task in tasks_of(net, both))


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": (1, 1), "pads": (0, 0, 0, 0)},
        {"kernel": (3, 5), "pads": (1, 2, 1, 2)},
        {"kernel": (1, 2), "pads": (0,) * 4, "strides": (1, 2)},
        {"strides": (3, 3)},
        {"kernel": (2, 2), "strides": (2, 2)},
        {"strides": (1, 2)},
        {"dilations": (2, 2), "strides": (2, 2)},
        {"dilations": (1, 2)},
        {"groups": 4, "outputs": 4},
        {"outputs": 1},
        {"image": (9,), "kernel": (1,), "pads": (0, 0)},
        {"image": (9,), "kernel": (3,), "pads": (1, 1), "dilations": (2,), "strides": (2,)},
        {"image": (5, 5, 5), "kernel": (3, 3, 3), "pads": (1,) * 6, "dilations": (2, 1, 1)},
    ],
)
def test_others_are_not(options: dict[str, Any]) -> None:
    assert recognised(**options) is None


def test_weights_that_are_not_known_are_not_transformed() -> None:
    net = Net()
    x, weight = net.input(1, 4, 6, 6), net.input(8, 4, 3, 3)
    made = net.op("Conv", x, weight, kernel=(3, 3), pads=(1, 1, 1, 1))
    assert all(found_by(square_convolution, task) is None for task in tasks_of(net, made))


def test_doubles_are_not_transformed() -> None:
    net = Net()
    x, weight = net.input(1, 4, 6, 6, dtype=DType.F64), net.constant(8, 4, 3, 3, dtype=DType.F64)
    made = net.op("Conv", x, weight, kernel=(3, 3), pads=(1, 1, 1, 1))
    assert all(found_by(square_convolution, task) is None for task in tasks_of(net, made))


def test_pools_and_products_are_not_convolutions() -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 6, 6), 8, 1)
    made = [net.op(op, x, kernel=(3, 3), pads=(1,) * 4) for op in ("MaxPool", "AveragePool")]
    made.append(net.dense(net.input(5, 6), 7))
    assert not any(found_by(square_convolution, each) for each in tasks_of(net, *made))
