"""Depthwise convolutions of bytes by planes: the same bits as the plain loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.bytes.test_byte_depth import last
from tests.kernels.integer.test_tensorized import Made, constant, extreme, image, number, task_of
from tests.kernels.tasks import computed, offers, refusal
from tests.plan.nets import Net
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.bytes.dual import planes as byte_planes
from weft.kernels.bytes.dual.planes import planes_of, propose
from weft.kernels.refusal import Refusal
from weft.kernels.selection import usual


def rounded(
    size: tuple[int, int],
    channels: int = 4,
    *,
    stride: int = 1,
    pads: tuple[int, int, int, int] = (1, 1, 1, 1),
    zero: int = -128,
) -> Made:
    """A depthwise ConvInteger with a bias, and its requantization in integers."""
    net = Net(3)
    x = image(net, channels, size, DType.I8, channels_last=True)
    w = constant(net, channels, 1, 3, 3, dtype=DType.I8, low=-128, high=127)
    y = net.op(
        "ConvInteger",
        *(x, w, number(net, -100, DType.I8)),
        kernel=(3, 3),
        pads=pads,
        strides=(stride, stride),
        groups=channels,
    )
    bias = net.random.integers(-9000, 9000, (1, channels, 1, 1), np.int32)
    y = net.op("Add", y, net.builder.constant(bias, "b"))
    multipliers = net.random.integers(1 << 30, (1 << 31) - 1, channels, np.int32)
    shifts = net.random.integers(-9, -1, channels, np.int32)
    factors = [net.builder.constant(each, "f") for each in (multipliers, shifts)]
    return net, net.op("Requantize", y, *factors, number(net, zero, DType.I8))


CASES: dict[str, Callable[[], Made]] = {
    "odd rows and columns": lambda: rounded((5, 7), 12),
    "below zero": lambda: rounded((4, 6), zero=-100),
    "no border": lambda: rounded((6, 5), pads=(0, 0, 0, 0)),
    "border behind": lambda: rounded((4, 5), pads=(0, 0, 1, 1)),
    "two columns": lambda: rounded((4, 4), pads=(1, 0, 1, 0)),
    "strided": lambda: rounded((9, 11), 8, stride=2),
    "strided, border behind": lambda: rounded((8, 10), stride=2, pads=(0, 0, 1, 1), zero=3),
    "strided, no border": lambda: rounded((7, 5), stride=2, pads=(0, 0, 0, 0)),
}


@pytest.mark.parametrize("most", [byte_planes.MOST_BYTES, 500])
@pytest.mark.parametrize("case", CASES)
def test_same_bits_as_plain_loops(case: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_planes, "MOST_BYTES", most)
    task = task_of(CASES[case](), "dsp")
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    (offered,) = offers(propose, task)
    made = offered.make()
    assert made is not None
    np.testing.assert_array_equal(computed(task, made, memory), wanted)


def test_strips_fit_the_memory_and_hold_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_planes, "MOST_BYTES", 500)
    planes = planes_of(task_of(rounded((13, 6)), "dsp"))
    assert not isinstance(planes, Refusal)
    strips = list(planes.strips())
    assert [(first, strip.rows, strip.above) for first, strip in strips] == [
        *((0, 4, 1), (4, 4, 0), (8, 4, 0), (12, 1, 0)),
    ]
    assert all(16 * strip.pairs * 8 <= 500 for _, strip in strips)


def test_it_is_the_usual_choice() -> None:
    for optimize in ("speed", "balanced"):
        task = task_of(rounded((25, 5), 64), "dsp vfp")
        assert usual(replace(task, optimize=optimize)).name == "depth-planes"


def test_refusals() -> None:
    assert "pairs" in refusal(propose, task_of(rounded((4, 4)), "mve"))
    assert "only requantized" in refusal(propose, task_of(last((4, 4), (3, 3), 4), "dsp"))
    assert "strides" in refusal(propose, task_of(last((9, 9), (5, 3), 4), "dsp"))
