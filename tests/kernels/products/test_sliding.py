"""Windows that slide along a tile: recognised, ordered by what they read, equal to the loops."""

from __future__ import annotations

import pytest

from tests.kernels.tasks import assert_as_nest, found_by, tasks_of, tiled_kernel
from tests.plan.nets import Net
from weft.kernels.contraction import contraction_of
from weft.kernels.sliding import Slide
from weft.loops.nodes import Reduce
from weft.loops.walk import walk


def depthwise(channels: int, image: tuple[int, int], kernel: int, **options):
    """The tasks of a depthwise convolution behind something that makes channels the lanes."""
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, *image), channels, 1))
    made = net.op("Relu", net.conv(x, channels, kernel, groups=channels, **options))
    return tasks_of(net, made, machine="x86-avx512")


def last_window(tasks):
    """The last task that reduces anything: after it results may only be moved."""
    return [task for task in tasks if any(isinstance(n, Reduce) for n in walk(task.compute.value))][
        -1
    ]


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2), (4, 1)])
def test_a_window_is_known_by_its_stride_and_dilation(stride: int, dilation: int) -> None:
    task = last_window(depthwise(20, (13, 13), 3, stride=stride, dilation=dilation))
    parts = found_by(contraction_of, task)
    assert parts is not None
    assert parts.slide is not None
    assert (parts.slide.stride, parts.slide.dilation) == (stride, dilation)
    assert parts.loop_order()[-1] == parts.slide.tap


def test_products_of_lanes_and_positions_do_not_slide() -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 9, 9), 8, 1))
    for task in tasks_of(net, net.conv(x, 16, 3, pad=1), machine="x86-avx512"):
        parts = found_by(contraction_of, task)
        assert parts is not None
        assert parts.slide is None


def test_rows_longer_than_the_registers_do_not_slide() -> None:
    parts = found_by(contraction_of, last_window(depthwise(16, (30, 30), 11)))
    assert parts is not None
    assert parts.slide is None


def test_pairs_come_in_the_order_of_what_they_read() -> None:
    pairs = [(place, tap) for place in range(4) for tap in range(3)]
    for stride, dilation in ((1, 1), (2, 1), (1, 2), (5, 3)):
        found = Slide("j", stride, dilation).order(pairs)
        reads = [stride * place + dilation * tap for place, tap in found]
        assert reads == sorted(reads)
        assert sorted(found) == pairs


@pytest.mark.parametrize(
    ("channels", "image", "kernel", "options"),
    [
        (2, (5, 5), 3, {"pad": 1}),
        (16, (1, 1), 3, {"pad": 1}),
        (17, (7, 13), 3, {"pad": 1}),
        (37, (11, 19), 5, {"pad": 2}),
        (24, (9, 31), 3, {"pad": 1, "stride": 2}),
        (32, (17, 17), 3, {"stride": 5}),
        (20, (14, 14), 3, {"pad": 2, "dilation": 2}),
        (40, (6, 23), 5, {"pad": 2, "stride": 2}),
        (16, (3, 40), 7, {"pad": 3}),
        (48, (2, 2), 5, {"pad": 2}),
    ],
)
def test_sliding_windows_compute_what_loops_do(channels, image, kernel, options) -> None:
    for task in depthwise(channels, image, kernel, **options):
        made = tiled_kernel(task)
        assert made is not None
        assert_as_nest(task, made)


def test_poolings_slide_too() -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 12, 12), 16, 1))
    pool = net.op("MaxPool", x, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    task = last_window(tasks_of(net, pool, machine="x86-avx2"))
    parts = found_by(contraction_of, task)
    assert parts is not None
    assert parts.slide is not None
    made = tiled_kernel(task)
    assert made is not None
    assert_as_nest(task, made)
