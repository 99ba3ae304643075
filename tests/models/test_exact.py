"""The int8 models in LiteRT's rounding: the bits of its reference kernels."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.models import tiny

pytestmark = tiny.needed

FLOATS = {"Conv", "ConvChannelsLast", "MatMul", "Gemm", "Softmax", "DequantizeLinear"}


def file_of(name: str, suffix: str) -> Path:
    return tiny.model(name, "int8").with_suffix(suffix)


@cache
def net_of(name: str, suffix: str) -> weft.Net:
    return weft.load(file_of(name, suffix)).apply("integers", rounding="litert")


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
@pytest.mark.parametrize("name", tiny.NAMES)
def test_references_have_the_bits_of_litert(name: str, suffix: str) -> None:
    net = net_of(name, suffix)
    assert not FLOATS & {node.op for node in net.graph.nodes}
    for x, y in zip(*tiny.golden(name, "int8"), strict=True):
        np.testing.assert_array_equal(net.reference(x)[0], y)
