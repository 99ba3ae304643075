"""Layers of bytes cut into parts: every family of kernels gives the bits of one thread."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.kernels.integer.test_tensorized import constant, number
from tests.plan.nets import Net
from tests.runtime import cutting
from weft.codegen.flavours import flavour_named
from weft.dtypes import DType
from weft.plan.program import CallStep
from weft.runtime.build import build
from weft.runtime.compiler import find_compiler, host_flags

WIDE_VECTORS = "zen4"
"""A machine with VNNI; elsewhere its instructions are what their meaning says."""


def layer(net: Net, x: str, filters: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
    """A QLinearConv of unsigned bytes, its outputs spread over all of them."""
    depth = net.shape(x)[1] // groups
    terms = depth * kernel * kernel
    inputs = [
        x,
        number(net, 0.02, DType.F32),
        number(net, 3, DType.U8),
        constant(net, filters, depth, kernel, kernel, dtype=DType.I8, low=-127, high=127),
        net.builder.constant(np.linspace(0.01, 0.02, filters, dtype=np.float32), "s"),
        number(net, 0, DType.I8),
        number(net, 0.02 * terms**0.5, DType.F32),
        number(net, 100, DType.U8),
        constant(net, filters, dtype=DType.I32, low=-900, high=900),
    ]
    sizes, pads = (kernel, kernel), (kernel // 2,) * 4
    strides = (stride, stride)
    return net.op("QLinearConv", *inputs, kernel=sizes, pads=pads, strides=strides, groups=groups)


def bottleneck() -> weft.Net:
    """Layers that are cut by rows, by pixels and by output channels, and all that is beside."""
    net = Net(2)
    scale, zero = number(net, 0.02, DType.F32), number(net, 128, DType.U8)
    x = net.op("QuantizeLinear", net.input(1, 3, 23, 22), scale, zero)
    x = layer(net, x, 32, 3, stride=2)
    x = layer(net, x, 48, 1)
    x = layer(net, x, 48, 3, groups=48)
    y = layer(net, x, 32, 1, stride=2)
    y = layer(net, y, 288, 1)
    y = layer(net, y, 128, 3)
    parts = [net.op("DequantizeLinear", each, scale, zero) for each in (y, layer(net, y, 128, 1))]
    total = net.op("QuantizeLinear", net.op("Add", *parts), scale, zero)
    pooled = net.op("MaxPool", total, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    mean = net.op("GlobalAveragePool", net.op("DequantizeLinear", pooled, scale, zero))
    scores = layer(net, net.op("QuantizeLinear", mean, scale, zero), 192, 1)
    return weft.Net(net.graph(net.op("DequantizeLinear", scores, scale, zero), total))


@pytest.mark.thorough
def test_threads_do_not_change_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    cutting.cut_all(monkeypatch)
    net = bottleneck()
    flags = host_flags(find_compiler(), flavour_named("gnu"))
    x = np.random.default_rng(1).standard_normal((1, 3, 23, 22)).astype(np.float32)
    found: set[tuple[bytes, ...]] = set()
    for threads in (1, 2, 3):
        program = net.program(WIDE_VECTORS, threads=threads)
        calls = [each for each in program.steps if isinstance(each, CallStep)]
        cut = [max(each.parts) > 1 or threads == 1 for each in calls]
        assert cut.count(False) <= 1  # the mean is of one block of channels
        library = build(program, "gnu", flags=flags)
        results = [np.asarray(each) for each in library(x)]
        assert min(len(np.unique(each)) for each in results) > 20
        found.add(tuple(each.tobytes() for each in results))
    assert len(found) == 1
