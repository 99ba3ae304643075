"""Winograd's convolution along rows: what it computes, and where it is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.tasks import computed, found_by, memory_of, tasks_of
from tests.kernels.winograd.test_winograd_choice import task_of
from tests.plan.nets import Net
from tests.turns import a_few
from weft.kernels import nest
from weft.kernels.selection import alternatives
from weft.kernels.task import Task
from weft.kernels.winograd import choice as winograd_choice
from weft.kernels.winograd.convolution import square_convolution
from weft.loops.nodes import Local
from weft.loops.statements import walk_stmts
from weft.plan.implementation import FilterTransform


def channels_last(channels: int, outputs: int, sides: tuple[int, int], machine: str) -> Task:
    """A convolution, with ReLU, of an image whose channels lie side by side."""
    net = Net()
    x = net.op("Transpose", net.input(1, *sides, channels), perm=(0, 3, 1, 2))
    made = net.op("Relu", net.conv(x, outputs, 3, pad=1))
    tasks = tasks_of(net, made, machine=machine)
    (task,) = (each for each in tasks if found_by(square_convolution, each))
    assert task.inputs[0].steps[-3:] == (1, channels * sides[1], channels)
    return task


def assert_right(task: Task, outputs: int) -> None:
    found = winograd_choice.generate_by_rows(task, outputs)
    assert found is not None
    memory = memory_of(task)
    wanted = computed(task, nest.generate(task), memory)
    most = 1e-5 * np.abs(wanted).max()
    np.testing.assert_allclose(computed(task, found, memory), wanted, rtol=0, atol=most)


@pytest.mark.parametrize(
    "machine", a_few(["x86-sse2", "x86-avx2", "x86-avx512", "zen4", "aarch64-neon"], 1)
)
@pytest.mark.parametrize("outputs", winograd_choice.OUTPUTS)
@pytest.mark.parametrize(
    ("channels", "made", "sides"),
    [(3, 8, (8, 9)), (2, 5, (3, 4)), (4, 24, (6, 5)), (3, 33, (5, 17))],
)
def test_channels_side_by_side(
    channels: int, made: int, sides: tuple[int, int], outputs: int, machine: str
) -> None:
    assert_right(channels_last(channels, made, sides, machine), outputs)


@pytest.mark.parametrize("machine", a_few(["x86-sse2", "x86-avx512"], 1))
@pytest.mark.parametrize(
    ("channels", "made", "size", "options", "outputs"),
    [
        (3, 8, 9, {}, 4),
        (3, 16, 8, {}, 2),
        (5, 20, 7, {"kernel": 5}, 2),
        (3, 12, 11, {"stride": 2}, 2),
        (3, 6, 12, {"kernel": 7, "stride": 2}, 2),
        (2, 3, 6, {"kernel": 2}, 4),
        (1, 4, 7, {}, 4),
        (1, 8, 9, {"kernel": 5, "stride": 2}, 2),
        (3, 12, 14, {"kernel": 5, "stride": 2}, 4),
    ],
)
def test_planes(
    channels: int, made: int, size: int, options: dict[str, Any], outputs: int, machine: str
) -> None:
    assert_right(task_of(channels, made, size, machine, **options), outputs)


@pytest.mark.parametrize(
    ("machine", "made", "widths", "beside"),
    [
        ("x86-avx512", 16, [16], [1]),
        ("x86-avx512", 8, [16], [2]),
        ("x86-avx512", 24, [16, 16], [1, 2]),
        # Half of a vector takes half of its time there.
        ("zen4", 8, [8], [1]),
        ("zen4", 24, [24], [1]),
    ],
)
def test_channels_of_half_a_vector_share_it_between_two_points(
    machine: str, made: int, widths: list[int], beside: list[int]
) -> None:
    found = winograd_choice.generate_by_rows(channels_last(3, made, (8, 9), machine), 4)
    assert found is not None
    packings = [each.packing for each in found.operands if each.packing]
    transforms = [each for each in packings if isinstance(each, FilterTransform)]
    assert [each.packing.width * each.beside for each in transforms] == widths
    assert [each.beside for each in transforms] == beside
    (data,) = {
        each.buffer
        for each in walk_stmts(found.kernel.body)
        if isinstance(each, Local) and each.buffer.name == "data"
    }
    assert data.shape[0] == 6 // max(beside)


def test_products_that_outputs_take_alike_are_added_up() -> None:
    """Of 11 points of F(4, 5) by steps of two, five pairs."""
    task = task_of(1, 8, 16, "x86-sse2", kernel=5, stride=2)
    found = winograd_choice.generate_by_rows(task, 4)
    assert found is not None
    rooms = [each.buffer for each in walk_stmts(found.kernel.body) if isinstance(each, Local)]
    shapes = {each.name: each.shape for each in rooms}
    assert (shapes["data"][0], shapes["product"][0]) == (11, 6)


def test_short_sums_that_wait_for_each_other_are_not_chosen() -> None:
    """Two columns by three vectors fill few registers, and 24 terms the core's view."""
    net = Net()
    x = net.op("Transpose", net.input(1, 4, 4, 8), perm=(0, 3, 1, 2))
    tasks = tasks_of(net, net.op("Relu", net.conv(x, 12, 3, pad=0)), machine="x86-sse2")
    (task,) = (each for each in tasks if found_by(square_convolution, each))
    assert alternatives(task)[0].name == "winograd-f2-1"


def test_images_of_few_channels_go_by_rows_and_others_by_squares() -> None:
    assert alternatives(channels_last(3, 16, (60, 80), "x86-avx512"))[0].name == "winograd-f4x1"
    gray = task_of(1, 8, 16, "x86-sse2", kernel=5, stride=2)
    assert alternatives(gray)[0].name == "winograd-f4x1"
    stem = task_of(3, 64, 224, kernel=7, stride=2)
    assert alternatives(stem)[0].name == "winograd-f2x1"
    assert alternatives(task_of(64, 64, 56))[0].name.startswith("winograd-f4-")


def test_dilated_windows_are_not_offered() -> None:
    assert winograd_choice.generate_by_rows(task_of(16, 16, 9, dilation=2), 4) is None
    assert winograd_choice.generate_by_rows(task_of(16, 16, 9, kernel=5), 4) is None
