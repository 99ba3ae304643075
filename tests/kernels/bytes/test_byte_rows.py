"""Convolutions of bytes by rows: the same bits as the plain loops, by every instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.integer.test_tensorized import (
    CASES,
    Made,
    constant,
    convolution,
    extreme,
    number,
    task_of,
)
from tests.kernels.tasks import computed, offers, refusal, tasks_of
from tests.plan.nets import Net
from tests.turns import in_turn
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.bytes.vectors.row_tiles_choice import propose
from weft.kernels.selection import usual
from weft.loops.nodes import Instruct, Prefetch
from weft.loops.statements import walk_stmts
from weft.loops.text import show
from weft.loops.walk import reduces

FEATURES = ("sse2", "avx2", "dotprod", "avx512_vnni")


def integer_convolution(
    shape: tuple[int, ...], filters: int, kernel: tuple[int, ...], **attributes: object
) -> Made:
    """A ConvInteger of several images or sides, with a zero point."""
    net = Net(4)
    x = net.input(*shape, dtype=DType.U8)
    w = constant(net, filters, shape[1], *kernel, dtype=DType.I8, low=-128, high=127)
    y = net.op("ConvInteger", x, w, number(net, 77, DType.U8), kernel=kernel, **attributes)
    return net, y


MORE: dict[str, Callable[[], Made]] = {
    **CASES,
    "few channels": lambda: convolution(3, (9, 17), 3, 10),
    "many channels": lambda: convolution(20, (4, 15), 3, 52),
    "large window": lambda: convolution(2, (9, 8), 5, 24, stride=2),
    "pointwise, strided": lambda: convolution(18, (8, 9), 1, 20, stride=2),
    "dilated": lambda: integer_convolution(
        (1, 5, 9, 11), 9, (3, 3), dilations=(2, 3), pads=(1, 2, 2, 3)
    ),
    "images": lambda: integer_convolution((3, 4, 5, 6), 17, (2, 3), pads=(0, 1, 1, 0)),
    "one side": lambda: integer_convolution((2, 6, 13), 12, (4,), strides=(3,), pads=(2, 1)),
}


@pytest.mark.parametrize(("case", "feature"), in_turn([(case,) for case in MORE], FEATURES))
def test_same_bits_as_plain_loops(case: str, feature: str) -> None:
    task = task_of(MORE[case](), feature)
    offered = offers(propose, task)
    unsigned_weights = "unsigned weights" in case and feature in ("dotprod", "avx512_vnni")
    assert offered or unsigned_weights or feature == "dotprod", refusal(propose, task)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    for each in offered:
        made = each.make()
        assert made is not None
        assert any(isinstance(stmt, Instruct) for stmt in walk_stmts(made.kernel.body))
        np.testing.assert_array_equal(computed(task, made, memory), wanted)


SHARED: dict[str, tuple[Callable[[], Made], str]] = {
    "stretches": (lambda: last(8, (7, 12), 1, 40), "for stretch in 0..3 parallel"),
    "rows": (lambda: last(8, (12, 14), 1, 24, stride=2), "for share in 0..3 parallel"),
    "channels": (lambda: last(64, (3, 5), 1, 96), "for group in 0..3 parallel"),
}
"""What three threads share."""


def last(channels: int, size: tuple[int, int], kernel: int, filters: int, stride: int = 1) -> Made:
    """A convolution of unsigned bytes whose channels lie side by side."""
    return convolution(
        channels, size, kernel, filters, stride=stride, kind=DType.U8, channels_last=True
    )


@pytest.mark.parametrize(
    "case",
    [pytest.param(each, marks=() if each == "rows" else pytest.mark.thorough) for each in SHARED],
)
def test_threads_share(case: str) -> None:
    made, loop = SHARED[case]
    (task,) = [each for each in tasks_of(*made(), machine="zen4") if reduces(each.compute.value)]
    task = replace(task, threads=3)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    written = [each.make() for each in offers(propose, task)]
    assert any(each is not None and loop in show(each.kernel) for each in written)
    for each in written:
        assert each is not None
        np.testing.assert_array_equal(computed(task, each, memory), wanted)


@pytest.mark.parametrize("machine", ["x86-sse2", "x86-avx2"])
@pytest.mark.parametrize("size", [1, 5])
def test_it_is_the_usual_choice(size: int, machine: str) -> None:
    made = convolution(64, (13, 13), size, 64)  # no windows of Winograd's
    (task,) = [each for each in tasks_of(*made, machine=machine) if reduces(each.compute.value)]
    assert usual(task).name in {each.name for each in offers(propose, task)}


def test_tables_behind_the_sums_are_not_fetched_ahead() -> None:
    """Which of their elements are read is known when the sums are."""
    net, y = convolution(4, (5, 6), 3)
    table = constant(net, 256, dtype=DType.I8, low=-128, high=127)
    made = net, net.op("Lookup", y, table)
    (task,) = [each for each in tasks_of(*made, machine="zen4") if reduces(each.compute.value)]
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    written = [each.make() for each in offers(propose, task)]
    assert written
    for each in written:
        assert each is not None
        assert not [stmt for stmt in walk_stmts(each.kernel.body) if isinstance(stmt, Prefetch)]
        np.testing.assert_array_equal(computed(task, each, memory), wanted)


def test_depthwise_convolutions_are_refused() -> None:
    net, y = integer_convolution((1, 8, 5, 5), 8, (3, 3))
    assert offers(propose, task_of((net, y), "avx2"))
    net = Net(4)
    x = net.input(1, 8, 5, 5, dtype=DType.U8)
    w = constant(net, 8, 1, 3, 3, dtype=DType.I8, low=-9, high=9)
    grouped = net.op("ConvInteger", x, w, kernel=(3, 3), groups=8)
    found = propose(task_of((net, grouped), "avx2"))
    assert "every channel of the output reads one of the input" in str(found)
