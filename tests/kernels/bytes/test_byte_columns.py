"""Depthwise convolutions of bytes down columns: the same bits as the plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.integer.test_tensorized import constant, extreme, number
from tests.kernels.tasks import computed, offers, refusal, tasks_of
from tests.plan.nets import Net
from tests.turns import in_turn
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.bytes.vectors.columns import propose
from weft.kernels.selection import usual
from weft.kernels.task import Task
from weft.loops.nodes import Instruct
from weft.loops.statements import walk_stmts
from weft.loops.walk import reduces

MACHINES = {"x86-sse2": 1, "x86-avx2": 1, "ice-lake": 3}
"""Alternatives of 16 channels, by machine."""


def depthwise(
    channels: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    machine: str,
    *,
    kind: DType = DType.I8,
    images: int = 1,
    **attributes: object,
) -> Task:
    """The task of a depthwise QLinearConv with extreme weights, zero points and a bias."""
    net = Net(3)
    x = net.op("Transpose", net.input(images, *size, channels, dtype=kind), perm=(0, 3, 1, 2))
    zero = 83 if kind is DType.I8 else 3
    scales = np.linspace(0.01, 0.02, channels, dtype=np.float32)
    low, high = DType.I8.limits
    inputs = [
        x,
        number(net, 0.5, DType.F32),
        number(net, zero, kind),
        constant(net, channels, 1, *kernel, dtype=DType.I8, low=low, high=high),
        net.builder.constant(scales, "s"),
        number(net, 0, DType.I8),
        number(net, 9.0, DType.F32),
        number(net, -7 if kind is DType.I8 else 100, kind),
        constant(net, channels, dtype=DType.I32, low=-9000, high=9000),
    ]
    y = net.op("QLinearConv", *inputs, kernel=kernel, groups=channels, **attributes)
    tasks = tasks_of(net, y, machine=machine)
    (task,) = [each for each in tasks if reduces(each.compute.value)]
    return task


CASES: dict[str, dict[str, object]] = {
    "borders": {"size": (7, 9), "kernel": (3, 3), "pads": (1, 1, 1, 1)},
    "no borders": {"size": (6, 5), "kernel": (3, 3)},
    "strided": {"size": (9, 11), "kernel": (3, 3), "strides": (2, 2), "pads": (0, 1, 1, 1)},
    "five taps": {"size": (8, 6), "kernel": (5, 5), "pads": (2, 2, 2, 2)},
    "five taps, strided": {
        "size": (9, 9),
        "kernel": (5, 5),
        "strides": (2, 2),
        "pads": (2, 2, 2, 2),
    },
    "dilated along rows": {
        "size": (5, 9),
        "kernel": (2, 3),
        "dilations": (1, 2),
        "pads": (1, 2, 0, 2),
    },
    "unsigned": {"size": (5, 5), "kernel": (3, 3), "pads": (1, 1, 1, 1), "kind": DType.U8},
    "images": {"size": (5, 4), "kernel": (4, 2), "images": 2},
}


@pytest.mark.parametrize(("case", "machine"), in_turn([(case,) for case in CASES], [*MACHINES]))
def test_same_bits_as_plain_loops(case: str, machine: str) -> None:
    task = depthwise(16, machine=machine, **CASES[case])  # pyright: ignore[reportArgumentType]
    offered = offers(propose, task)
    assert len(offered) == MACHINES[machine], refusal(propose, task)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    for each in offered:
        made = each.make()
        assert made is not None
        assert any(isinstance(stmt, Instruct) for stmt in walk_stmts(made.kernel.body))
        np.testing.assert_array_equal(computed(task, made, memory), wanted)


@pytest.mark.parametrize(("channels", "machine"), in_turn([(3,), (20,), (28,), (45,)], [*MACHINES]))
def test_any_number_of_channels(channels: int, machine: str) -> None:
    task = depthwise(channels, (5, 6), (3, 3), machine, pads=(1, 1, 1, 1), kind=DType.U8)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    for each in offers(propose, task):
        made = each.make()
        assert made is not None
        np.testing.assert_array_equal(computed(task, made, memory), wanted)


@pytest.mark.parametrize("stride", [1, 2])
def test_it_is_the_usual_choice(stride: int) -> None:
    strides = (stride, stride)
    task = depthwise(32, (14, 14), (3, 3), "ice-lake", pads=(1, 1, 1, 1), strides=strides)
    assert usual(task).name in {each.name for each in offers(propose, task)}


def test_refusals() -> None:
    other = depthwise(16, (5, 5), (3, 3), "cortex-m4")
    assert refusal(propose, other) == "no instruction of the target takes its types"
    flat = depthwise(16, (5, 5), (1, 3), "ice-lake")
    assert refusal(propose, flat) == "it reads no neighbouring rows"
