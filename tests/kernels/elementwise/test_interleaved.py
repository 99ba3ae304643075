"""Maps of planes to pixels: the same bits as the plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.integer.test_tensorized import constant, number
from tests.kernels.tasks import computed, memory_of, offers, refusal, tasks_of
from tests.plan.nets import Net
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.elementwise.interleaved import propose
from weft.kernels.selection import usual
from weft.kernels.task import Task


def quantized_image(
    channels: int, width: int, kind: DType = DType.U8, machine: str = "x86-avx2"
) -> Task:
    """The task that quantizes the image of a convolution."""
    net = Net(2)
    x = net.input(2, channels, 3, width)
    scale = number(net, 0.02, DType.F32)
    y = net.op("QuantizeLinear", x, scale, number(net, 3, kind))
    w = constant(net, 8, channels, 1, 1, dtype=DType.I8, low=-9, high=9)
    zeros = number(net, 0, DType.I8)
    z = net.op("QLinearConv", y, scale, number(net, 3, kind), w, scale, zeros, scale, zeros)
    return tasks_of(net, z, machine=machine)[0]


@pytest.mark.parametrize("kind", [DType.U8, DType.I8])
@pytest.mark.parametrize("width", [16, 35])
def test_same_bits_as_plain_loops(width: int, kind: DType) -> None:
    task = quantized_image(3, width, kind)
    (offered,) = offers(propose, task)
    memory = memory_of(task)
    made = offered.make()
    assert made is not None
    wanted = computed(task, nest.generate(task), memory)
    assert len(np.unique(wanted)) > 50
    np.testing.assert_array_equal(computed(task, made, memory), wanted)
    assert usual(task).name == "interleaved"


@pytest.mark.parametrize("width", [16, 35])
def test_images_in_bfloat16(width: int) -> None:
    net = Net(2)
    narrow = net.op("Cast", net.input(2, 3, 3, width), to=DType.BF16)
    wide = net.op("Cast", narrow, to=DType.F32)
    z = net.op("Conv", wide, net.constant(8, 3, 1, 1), kernel=(1, 1))
    task = tasks_of(net, z, machine="x86-avx2")[0]
    (offered,) = offers(propose, task)
    memory = memory_of(task)
    made = offered.make()
    assert made is not None
    wanted = computed(task, nest.generate(task), memory)
    np.testing.assert_array_equal(computed(task, made, memory), wanted)
    assert usual(task).name == "interleaved"


def test_refusals() -> None:
    narrow = quantized_image(3, 5)
    few = "the target has no instruction that weaves so many channels"
    assert refusal(propose, narrow) == few
    assert refusal(propose, quantized_image(5, 32)) == few
    assert refusal(propose, quantized_image(3, 32, machine="x86-sse2")) == few
    assert refusal(propose, quantized_image(1, 32)) == "it is no map of an image"
