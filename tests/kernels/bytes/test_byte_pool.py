"""Pooling of bytes for Helium: the same bits as the plain loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.integer.test_tensorized import Made, extreme, image
from tests.kernels.tasks import computed, offers, refusal, tasks_of
from tests.plan.nets import Net
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.bytes.helium.pool import propose
from weft.kernels.selection import usual
from weft.kernels.task import Task
from weft.loops.walk import reduces


def pooled(
    op: str,
    size: tuple[int, int],
    kernel: tuple[int, int],
    channels: int = 8,
    *,
    stride: int = 1,
    pad: int = 0,
    last: bool = True,
    relu: bool = False,
) -> Made:
    """Windows of an image of bytes."""
    net = Net(3)
    x = image(net, channels, size, DType.I8, last)
    y = net.op(op, x, kernel=kernel, strides=(stride, stride), pads=(pad,) * 4)
    return net, net.op("Neg", y) if relu else y


def task_of(made: Made, features: str = "dsp vfp mve") -> Task:
    (task,) = [each for each in tasks_of(*made, machine="cortex-m4") if reduces(each.compute.value)]
    return replace(task, target=replace(task.target, features=tuple(features.split())))


AVERAGE, LARGEST = "IntegerAveragePool", "MaxPool"
CASES: dict[str, Callable[[], Made]] = {
    "average": lambda: pooled(AVERAGE, (5, 7), (3, 2), 11, stride=2),
    "average of all": lambda: pooled(AVERAGE, (5, 4), (5, 4), 9),
    "average of rows": lambda: pooled(AVERAGE, (1, 9), (1, 3), 8, stride=3),
    "largest": lambda: pooled(LARGEST, (6, 8), (2, 2), 19, stride=2),
    "largest of all": lambda: pooled(LARGEST, (3, 3), (3, 3), 4),
    "largest, more computed": lambda: pooled(LARGEST, (4, 4), (2, 2), 5, relu=True),
}


@pytest.mark.parametrize("case", CASES)
def test_same_bits_as_plain_loops(case: str) -> None:
    task = task_of(CASES[case]())
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    (offered,) = offers(propose, task)
    made = offered.make()
    assert made is not None
    np.testing.assert_array_equal(computed(task, made, memory), wanted)


def test_it_is_the_usual_choice() -> None:
    assert usual(task_of(pooled(AVERAGE, (8, 8), (8, 8), 64))).name == "helium-pool"
    assert usual(task_of(pooled(LARGEST, (8, 8), (2, 2), 16, stride=2))).name == "helium-pool"


def test_refusals() -> None:
    assert "Helium" in refusal(propose, task_of(pooled(AVERAGE, (4, 4), (2, 2)), "dsp"))
    assert "256 places" in refusal(propose, task_of(pooled(AVERAGE, (16, 17), (16, 17))))
    assert "windows" in refusal(propose, task_of(pooled(LARGEST, (4, 4), (3, 3), pad=1)))
