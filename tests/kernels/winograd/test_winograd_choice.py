"""When Winograd's kernels are chosen, and what they compute."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from tests.kernels.tasks import computed, found_by, memory_of, offers, refusal, tasks_of
from tests.plan.nets import Net
from tests.targets.made import cached
from tests.turns import a_few, in_turn
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.products.tile_form import usual_form
from weft.kernels.products.tiled_choice import products, reduction
from weft.kernels.selection import alternatives, generate
from weft.kernels.task import Task
from weft.kernels.winograd import choice as winograd_choice
from weft.kernels.winograd.choice import cycles, propose, tiles_at_once
from weft.kernels.winograd.convolution import Convolution, square_convolution
from weft.loops.nodes import Local
from weft.loops.statements import walk_stmts
from weft.loops.verify import verify
from weft.plan.implementation import FilterTransform
from weft.targets.find import target


def task_of(
    channels: int,
    outputs: int,
    size: int,
    machine: str = "x86-avx512",
    kernel: int = 3,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    **changes: Any,
) -> Task:
    """The task of a convolution padded by half its window; nothing is computed."""
    net = Net()
    x = net.input(1, channels, size, size)
    pad = kernel // 2 * dilation
    made = net.conv(x, outputs, kernel, pad=pad, stride=stride, dilation=dilation, groups=groups)
    return replace(tasks_of(net, made, machine=machine)[0], **changes)


def convolution(channels: int, outputs: int, size: int, **options: Any) -> Convolution:
    found = found_by(square_convolution, task_of(channels, outputs, size, **options))
    assert found is not None
    return found


# --- the choice -----------------------------------------------------------------------------


def usual(task: Task) -> str:
    return alternatives(task)[0].name


def test_large_images_of_many_channels_go_by_large_tiles() -> None:
    found = [each.name for each in alternatives(task_of(64, 64, 56))]
    assert found[0].startswith("winograd-f4-")
    tiled = min(place for place, name in enumerate(found) if name.startswith("tiled"))
    assert any(name.startswith("winograd-f2-") for name in found[:tiled])


@pytest.mark.parametrize("sizes", [(64, 64, 3), (2, 2, 3)])
def test_where_transforms_cost_more_than_they_save(sizes: tuple[int, int, int]) -> None:
    assert usual(task_of(*sizes)).startswith("tiled-")
    assert offers(propose, task_of(*sizes))


def test_wide_groups_of_large_images_go_by_tiles_and_narrow_ones_do_not() -> None:
    assert usual(task_of(448, 448, 28, groups=8)).startswith("winograd-f4-")
    assert usual(task_of(128, 128, 56, groups=32)).startswith("tiled-")
    assert usual(task_of(1024, 1024, 7, groups=32)).startswith("tiled-")


def test_in_float32_tiles_of_any_size_add_no_rounding_to_speak_of() -> None:
    offered = offers(propose, task_of(64, 64, 56, max_rounding=0.0))
    assert {each.sums.sizes[0] for each in offered} == {4, 2}
    assert all(each.allowed and each.error == 0 for each in offered)


def test_what_must_be_exact_or_has_no_caches_is_summed_directly() -> None:
    assert refusal(propose, task_of(64, 64, 56, exact=True))
    uncached = cached(target("x86-avx512"), ())
    assert refusal(propose, task_of(64, 64, 56, target=uncached))


def test_what_is_no_convolution_is_declined() -> None:
    net = Net()
    (task,) = tasks_of(net, net.dense(net.input(56, 64), 64), machine="x86-avx512")
    assert refusal(propose, task)
    assert winograd_choice.generate_as(task, 4, 14) is None


def test_it_must_win_by_a_margin() -> None:
    task = task_of(128, 128, 28)
    conv = found_by(square_convolution, task)
    assert conv is not None
    for outputs in winograd_choice.OUTPUTS:
        tiles = tiles_at_once(conv, outputs)
        costs = {each.name: each.cost for each in offers(propose, task)}
        assert costs[f"winograd-f{outputs}-{tiles}"] >= cycles(conv, outputs, tiles, 16) / 0.91


def test_what_is_chosen_is_generated() -> None:
    task = task_of(64, 64, 56)
    made = generate(task)
    assert made.scheme == usual(task)
    transform = made.operands[-1].packing
    assert isinstance(transform, FilterTransform)
    assert len(transform.matrix) == 6


# --- the estimates --------------------------------------------------------------------------


def test_the_direct_sum_costs_its_multiplications_inside_the_image() -> None:
    net = Net()
    x, weight = net.input(1, 8, 6, 6), net.constant(16, 8, 3, 3)
    tasks = tasks_of(net, net.op("Conv", x, weight, kernel=(3, 3)), machine="x86-avx2")
    (conv,) = filter(None, (found_by(square_convolution, each) for each in tasks))
    assert reduction(conv.parts) == 9 * 8
    inside = (4 * 3 + 2 * 2) ** 2
    assert reduction(convolution(8, 16, 6).parts) == pytest.approx(inside * 8 / 36)


def test_wider_windows_and_strides_go_by_transforms_too() -> None:
    assert usual(task_of(64, 64, 28, kernel=5)).startswith("winograd-f2-")
    assert usual(task_of(128, 128, 56, stride=2)).startswith("winograd-f4-")
    # The direct sum of a stride of two: a quarter of the outputs.
    whole, part = convolution(64, 64, 32), convolution(64, 64, 32, stride=2)
    most, quarter = (products(each.parts, usual_form(each.parts)) for each in (whole, part))
    assert 4 * quarter == pytest.approx(most, rel=0.05)


def test_filters_from_afar_are_read_once_for_every_block_of_tiles() -> None:
    conv = convolution(512, 512, 14)
    assert cycles(conv, 4, 8, 16) > cycles(conv, 4, 16, 16)
    near = convolution(32, 32, 56)
    assert cycles(near, 4, 7, 16) == cycles(near, 4, 14, 16)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("sizes", [(64, 64, 56), (512, 512, 14), (512, 512, 7), (16, 16, 9)])
def test_threads_have_like_numbers_of_tiles(sizes: tuple[int, int, int], threads: int) -> None:
    conv = convolution(*sizes, threads=threads)
    for outputs in winograd_choice.OUTPUTS:
        count = (-(-sizes[2] // outputs)) ** 2
        tiles = tiles_at_once(conv, outputs)
        blocks = -(-count // tiles)
        assert 1 <= tiles <= 28
        if blocks == 1 and sizes[1] // 32 >= threads:
            continue  # they have output channels of their own
        # No thread has more than its share, up to a tile for each of its blocks.
        turns = -(-blocks // threads)
        assert turns * tiles - -(-count // threads) <= turns


# --- the kernels ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channels", "made", "size", "tiles", "outputs", "machine"),
    in_turn(
        [
            (*case, outputs)
            for outputs in winograd_choice.OUTPUTS
            for case in [(3, 5, 5, 1), (4, 16, 4, 3), (5, 8, 7, 2), (2, 3, 2, 9), (12, 28, 9, 4)]
        ],
        ["x86-sse2", "x86-avx2", "x86-avx512", "zen4", "aarch64-neon"],
    ),
)
def test_kernels_are_as_the_plain_loops(
    channels: int, made: int, size: int, tiles: int, outputs: int, machine: str
) -> None:
    task = task_of(channels, made, size, machine)
    found = winograd_choice.generate_as(task, outputs, tiles)
    assert found is not None
    memory = memory_of(task)
    wanted = computed(task, nest.generate(task), memory)
    most = 1e-4 * np.abs(wanted).max()
    np.testing.assert_allclose(computed(task, found, memory), wanted, rtol=0, atol=most)


@pytest.mark.parametrize(
    ("kernel", "stride", "outputs", "size", "machine"),
    in_turn(
        [
            (3, 2, 2, 9),
            (3, 2, 4, 8),
            (3, 2, 1, 3),
            (5, 1, 2, 7),
            (5, 2, 2, 11),
            (5, 2, 4, 5),
            (2, 1, 4, 6),
        ],
        ["x86-sse2", "x86-avx512"],
    ),
)
def test_kernels_of_other_windows_and_strides(
    kernel: int, stride: int, outputs: int, size: int, machine: str
) -> None:
    task = task_of(5, 8, size, machine, kernel, stride)
    found = winograd_choice.generate_as(task, outputs, 2)
    assert found is not None
    memory = memory_of(task)
    wanted = computed(task, nest.generate(task), memory)
    most = 1e-4 * np.abs(wanted).max()
    np.testing.assert_allclose(computed(task, found, memory), wanted, rtol=0, atol=most)


@pytest.mark.parametrize(
    ("dilation", "outputs", "size", "tiles", "machine"),
    in_turn(
        [(2, 4, 16, 3), (2, 4, 9, 2), (2, 2, 7, 4), (3, 2, 13, 5), (3, 4, 5, 2), (4, 2, 6, 3)],
        ["x86-sse2", "x86-avx512"],
    ),
)
def test_kernels_of_dilated_windows(
    dilation: int, outputs: int, size: int, tiles: int, machine: str
) -> None:
    task = task_of(5, 8, size, machine, dilation=dilation)
    found = winograd_choice.generate_as(task, outputs, tiles)
    assert found is not None
    memory = memory_of(task)
    wanted = computed(task, nest.generate(task), memory)
    most = 1e-4 * np.abs(wanted).max()
    np.testing.assert_allclose(computed(task, found, memory), wanted, rtol=0, atol=most)


def sound(channels: int, made: int, image: tuple[int, ...], **window: Any) -> Task:
    """The task of a convolution by a window along one axis for AVX-512."""
    net = Net()
    weight = net.constant(made, channels, *window["kernel"])
    y = net.op("Relu", net.op("Conv", net.input(1, channels, *image), weight, **window))
    return tasks_of(net, y, machine="x86-avx512")[0]


@pytest.mark.parametrize(
    ("image", "window", "tiles"),
    [
        ((23,), {"kernel": (2,), "pads": (3, 0), "dilations": (3,)}, 4),
        ((18,), {"kernel": (3,), "pads": (1, 1)}, 5),
        ((17,), {"kernel": (3,), "pads": (1, 0), "strides": (2,)}, 2),
        ((4, 11), {"kernel": (1, 3), "pads": (0, 1, 0, 1)}, 2),
        ((11, 4), {"kernel": (3, 1), "pads": (0, 0, 2, 0)}, 3),
    ],
)
@pytest.mark.parametrize("outputs", winograd_choice.OUTPUTS)
@pytest.mark.parametrize("made", [5, 20])
def test_kernels_of_windows_along_one_axis(
    image: tuple[int, ...], window: dict[str, Any], tiles: int, outputs: int, made: int
) -> None:
    task = sound(19, made, image, **window)
    found = winograd_choice.generate_as(task, outputs, tiles)
    assert found is not None
    verify(found.kernel)
    memory = memory_of(task)
    wanted = computed(task, nest.generate(task), memory)
    most = 1e-4 * np.abs(wanted).max()
    np.testing.assert_allclose(computed(task, found, memory), wanted, rtol=0, atol=most)


def test_sounds_go_by_transforms_where_something_is_saved() -> None:
    window = {"kernel": (2,), "pads": (16, 0), "dilations": (16,)}
    assert usual(sound(64, 128, (4000,), **window)).startswith("winograd-f4-")
    assert winograd_choice.generate_by_rows(sound(64, 128, (4000,), **window), 4) is None
    assert usual(sound(64, 128, (20,), **window)).startswith("tiled-")
    halves = sound(64, 128, (4000,), kernel=(2,), strides=(2,))
    wanted = "nothing is saved for a window of 2 by strides of 2"
    assert refusal(propose, halves) == wanted


def test_dilated_windows_go_by_transforms_where_their_tiles_are_full() -> None:
    assert usual(task_of(256, 256, 32, dilation=2)).startswith("winograd-f4-")
    # Four outputs 9 apart reach over the image: most tiles have one output, and none has more.
    assert usual(task_of(256, 256, 10, dilation=9)).startswith("tiled-")
    assert refusal(propose, task_of(64, 64, 28, stride=2, dilation=2))


def volume(
    channels: int, made: int, image: tuple[int, ...], window: dict[str, tuple[int, ...]]
) -> Task:
    """The task of a convolution of a volume for AVX-512."""
    net = Net()
    kernel = window["kernel"]
    scale = (channels * prod(kernel)) ** -0.5
    weight = net.constant(made, channels, *kernel, scale=scale)
    y = net.op("Conv", net.input(1, channels, *image), weight, **window)
    return tasks_of(net, y, machine="x86-avx512")[0]


@pytest.mark.parametrize(
    ("frames", "depth", "stride", "pads"),
    a_few(
        [
            (4, 3, 1, (1, 1)),
            (5, 3, 2, (1, 1)),
            (3, 2, 1, (0, 1)),
            (4, 3, 1, (0, 0)),
            (2, 3, 1, (3, 2)),
        ]
    ),
)
@pytest.mark.parametrize("outputs", a_few(winograd_choice.OUTPUTS, 1))
def test_windows_through_frames_sum_over_those_inside(
    frames: int, depth: int, stride: int, pads: tuple[int, int], outputs: int
) -> None:
    window = {
        "kernel": (depth, 3, 3),
        "pads": (pads[0], 1, 1, pads[1], 1, 1),
        "strides": (stride, 1, 1),
    }
    task = volume(10, 8, (frames, 6, 5), window)
    found = winograd_choice.generate_as(task, outputs, 3)
    assert found is not None
    memory = memory_of(task)
    wanted = computed(task, nest.generate(task), memory)
    most = 1e-4 * np.abs(wanted).max()
    np.testing.assert_allclose(computed(task, found, memory), wanted, rtol=0, atol=most)


def test_volumes_go_by_transforms_where_images_do() -> None:
    window = {"kernel": (3, 3, 3), "pads": (1,) * 6}
    assert usual(volume(64, 64, (16, 56, 56), window)).startswith("winograd-f4-")
    few = volume(3, 64, (4, 12, 12), window)
    assert winograd_choice.generate_by_rows(few, 4) is None
    apart = {"kernel": (3, 3, 3), "pads": (2, 1, 1) * 2, "dilations": (2, 1, 1)}
    assert refusal(propose, volume(64, 64, (16, 56, 56), apart)) == "its taps in depth are 2 apart"


def test_a_few_more_channels_cost_as_much_as_is_executed() -> None:
    def costs(machine: str) -> list[float]:
        found = [convolution(64, made, 28, machine=machine) for made in (16, 24, 32)]
        return [cycles(each, 4, 25, 16) for each in found]

    few, some, many = costs("x86-avx512")
    assert few < some == many
    few, some, many = costs("zen4")
    assert some == pytest.approx((few + many) / 2)


def test_filters_from_memory_cost_more_than_multiplications_that_they_save() -> None:
    """Of 512 by 512 channels, transformed, at 7 by 7 pixels: 37 MB for 36 points, 17 for 16."""
    found = {each.name: each.cost for each in alternatives(task_of(512, 512, 7, "zen4"))}
    assert found["winograd-f2-16"] < found["winograd-f4-4"]


def test_every_image_of_a_batch_costs_as_much() -> None:
    """The direct sum counts all of them, too."""
    net = Net()
    tasks = [
        tasks_of(net, net.conv(net.input(batch, 64, 28, 28), 64), machine="x86-avx512")[0]
        for batch in (1, 8)
    ]
    one, eight = (found_by(square_convolution, task) for task in tasks)
    assert one is not None
    assert eight is not None
    assert cycles(eight, 4, 25, 16) == pytest.approx(8 * cycles(one, 4, 25, 16))


@pytest.mark.parametrize(
    ("machine", "made", "width"),
    [
        ("x86-avx512", 12, 16),
        ("x86-avx512", 20, 32),
        ("x86-avx512", 24, 32),
        ("x86-avx512", 7, 16),
        # Where vectors are executed in halves, half of one is enough for eight channels.
        ("zen4", 12, 16),
        ("zen4", 20, 24),
        ("zen4", 24, 24),
        ("zen4", 40, 8),
        ("zen4", 7, 8),
        ("cortex-a53", 6, 6),
    ],
)
def test_products_of_few_channels_take_vectors_as_they_are_executed(
    machine: str, made: int, width: int
) -> None:
    """Lanes that no channel has are idle there; nothing is stored for them."""
    found = winograd_choice.generate_as(task_of(8, made, 9, machine), 4, 3)
    assert found is not None
    transform = found.operands[-1].packing
    assert isinstance(transform, FilterTransform)
    assert transform.packing.width == width


def test_slabs_of_broken_lines_are_fetched_within_their_bounds() -> None:
    """Two tiles of positions share the lines of weights; 24 lanes are a line and a half."""
    task = task_of(5, 21, 6, machine="x86-sse2")
    made = winograd_choice.generate_as(task, 4, 4)
    assert made is not None
    verify(made.kernel)


def test_points_run_out() -> None:
    assert winograd_choice.generate_as(task_of(8, 8, 9, kernel=5), 4, 2) is None


def test_rows_of_the_transformed_data_are_padded() -> None:
    """By a vector: rows of a power of two would all fall onto the same cache sets."""
    made = winograd_choice.generate_as(task_of(64, 64, 8), 4, 4)
    assert made is not None
    data = [each.buffer for each in walk_stmts(made.kernel.body) if isinstance(each, Local)]
    (whole,) = {each for each in data if each.name == "data"}
    assert whole.shape == (36, 4, 64 + 16)
    assert whole.dtype is DType.F32
