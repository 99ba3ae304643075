"""Convolutions of bytes by pairs of products: the same bits as the plain loops, in all forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from tests.kernels.integer.test_tensorized import (
    Made,
    constant,
    convolution,
    extreme,
    image,
    number,
    task_of,
)
from tests.kernels.tasks import computed, offers, refusal
from tests.plan.nets import Net
from tests.turns import in_turn
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.bytes.dual.choice import propose
from weft.kernels.selection import usual
from weft.loops.nodes import Instruct
from weft.loops.statements import walk_stmts


def rounded(
    channels: int,
    size: tuple[int, int],
    filters: int = 8,
    *,
    shifts: tuple[int, int] = (-9, -5),
    single: bool = False,
    zero: int = -100,
    dead: bool = False,
    **attributes: object,
) -> Made:
    """A ConvInteger with a bias, and its requantization in integers."""
    net = Net(3)
    x = image(net, channels, size, DType.I8, channels_last=True)
    w = constant(net, filters, channels, 3, 3, dtype=DType.I8, low=-127, high=127)
    attributes = {"kernel": (3, 3), "pads": (1, 1, 1, 1), **attributes}
    y = net.op("ConvInteger", x, w, number(net, -128, DType.I8), **attributes)
    bias = net.random.integers(-9000, 9000, (1, filters, 1, 1), np.int32)
    if dead:
        bias[0, ::3] = -(1 << 30)
    y = net.op("Add", y, net.builder.constant(bias, "b"))
    shape = () if single else (filters,)
    multipliers = net.random.integers(1 << 30, (1 << 31) - 1, shape, np.int32)
    moved = net.random.integers(*shifts, shape, np.int32)
    if dead:
        moved[::3] = -27
    factors = [net.builder.constant(np.asarray(each), "f") for each in (multipliers, moved)]
    return net, net.op("Requantize", y, *factors, number(net, zero, DType.I8))


def last(channels: int, size: tuple[int, int], kernel: int, filters: int = 16, **more: int) -> Made:
    """A QLinearConv of an image whose channels lie side by side."""
    return convolution(channels, size, kernel, filters, channels_last=True, **more)  # type: ignore


CASES: dict[str, Callable[[], Made]] = {
    "pointwise": lambda: last(12, (3, 5), 1),
    "borders": lambda: last(3, (5, 4), 3),
    "borders, whole words": lambda: last(8, (3, 9), 3),
    "strided": lambda: last(4, (7, 7), 3, 6, stride=2),
    "one channel": lambda: last(1, (6, 5), 3),
    "odd depth": lambda: last(5, (1, 3), 1),
    "large window": lambda: last(2, (9, 8), 5, 24, stride=2),
    "no bias": lambda: last(4, (3, 7), 1, bias=False),
    "integers": lambda: rounded(4, (3, 5)),
    "integers, nothing below zero": lambda: rounded(4, (3, 5), zero=-128),
    "integers, channels that are constant": lambda: rounded(4, (3, 5), dead=True, zero=3),
    "integers, one factor": lambda: rounded(3, (4, 6), single=True),
    "integers, strided": lambda: rounded(3, (5, 9), 4, strides=(2, 2)),
    "integers, dilated": lambda: rounded(4, (3, 7), dilations=(1, 2), pads=(1, 2, 1, 2)),
    "integers, large shifts": lambda: rounded(8, (3, 5), shifts=(-31, -3)),
    "integers, small shifts": lambda: rounded(8, (3, 5), shifts=(-5, 1)),
}


@pytest.mark.parametrize(
    ("case", "optimize"), in_turn([(case,) for case in CASES], ["speed", "balanced"], every=2)
)
def test_same_bits_as_plain_loops(case: str, optimize: str) -> None:
    task = replace(task_of(CASES[case](), "dsp vfp"), optimize=optimize)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    offered = offers(propose, task)
    assert offered or optimize == "balanced", refusal(propose, task)
    for each in offered:
        made = each.make()
        assert made is not None
        np.testing.assert_array_equal(computed(task, made, memory), wanted)


@pytest.mark.parametrize(
    ("case", "family"),
    [
        ("pointwise", "scale_f32"),
        ("integers", "bytes_2x2"),
        ("integers, large shifts", "bytes_2x2"),
        ("integers, channels that are constant", "bytes_2x2"),
        ("integers, small shifts", ""),
    ],
)
def test_requantizes_by_rows_where_that_is_exact(case: str, family: str) -> None:
    """Not where a factor is 1/2 or more: the terms of a row round nothing twice."""
    made = offers(propose, task_of(CASES[case](), "dsp vfp"))[0].make()
    assert made is not None
    names = {each.name for each in walk_stmts(made.kernel.body) if isinstance(each, Instruct)}
    assert {name[:9] for name in names if name.startswith(("scale", "bytes"))} == {family} - {""}


@pytest.mark.parametrize("kernel", [1, 3])
def test_it_is_the_usual_choice(kernel: int) -> None:
    task = task_of(last(16, (8, 8), kernel, stride=kernel // 2 + 1), "dsp vfp")
    assert usual(task).name == "dual_2x2"


@pytest.mark.parametrize(("optimize", "bits"), [("speed", 16), ("balanced", 8), ("size", 8)])
def test_weights_take_the_bits_that_are_worth_it(optimize: str, bits: int) -> None:
    task = replace(task_of(last(16, (8, 8), 3, stride=2), "dsp vfp"), optimize=optimize)
    made = usual(task).make()
    assert made is not None
    (weights,) = [each.shape for each in made.kernel.params if each.name == "weights"]
    assert prod(weights) * 32 == 16 * 144 * bits


def test_refusals() -> None:
    made = convolution(3, (5, 4), 3)
    assert "side by side" in refusal(propose, task_of(made, "dsp vfp"))
    unsigned = convolution(3, (5, 4), 3, kind=DType.U8, channels_last=True)
    assert "signed bytes" in refusal(propose, task_of(unsigned, "dsp"))
    assert "pairs" in refusal(propose, task_of(last(4, (3, 3), 1), "mve"))
    assert "sizes" in refusal(propose, task_of(last(4, (1, 3), 1, 5), "dsp"))
