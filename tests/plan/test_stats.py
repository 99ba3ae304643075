"""Statistics against figures worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.onnx import load
from weft.ir.graph import Graph
from weft.ir.types import Symbol, TensorType
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS
from weft.plan.stats import stats

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def one(op: str, shape: tuple[int | Symbol, ...], *constants: np.ndarray) -> Graph:
    """A graph of one node over one input and constants."""
    builder = GraphBuilder(OPS, "one")
    x = builder.input("x", TensorType(DType.F32, shape))
    values = [builder.constant(array) for array in constants]
    return builder.graph([builder.op(op, x, *values, name="node")])


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def test_a_convolution():
    layer = stats(one("Conv", (1, 3, 10, 10), zeros(8, 3, 3, 3), zeros(8)), OPS).layers[0]
    assert (layer.name, layer.op, layer.output) == ("node", "Conv", "f32[1,8,8,8]")
    assert layer.macs == 8 * 8 * 8 * 27
    assert layer.operations == 8 * 8 * 8  # the bias
    assert layer.parameters == 8 * 27 + 8
    assert layer.weight_bytes == 4 * layer.parameters
    assert (layer.read_bytes, layer.written_bytes) == (4 * 300, 4 * 512)
    assert layer.live_bytes == 4 * (300 + 512)
    moved = layer.weight_bytes + layer.read_bytes + layer.written_bytes
    assert layer.intensity == pytest.approx((2 * 13824 + 512) / moved)


@pytest.mark.parametrize(
    ("op", "shape", "constants", "macs", "operations"),
    [
        ("MatMul", (5, 7), (zeros(7, 3),), 5 * 7 * 3, 0),
        ("Relu", (4, 6), (), 0, 24),
        ("Add", (4, 6), (zeros(6),), 0, 24),
        ("Transpose", (4, 6), (), 0, 0),
        ("GlobalAveragePool", (1, 2, 5, 5), (), 0, 2 * 25 + 2),
    ],
)
def test_work(op, shape, constants, macs, operations):
    found = stats(one(op, shape, *constants), OPS)
    assert (found.macs, found.operations) == (macs, operations)


def test_a_composite_op_is_the_sum_of_its_parts():
    layer = stats(one("Softmax", (3, 10)), OPS).layers[0]
    # A maximum, a difference, an exponential, a sum and a division for each element.
    assert (layer.macs, layer.operations) == (0, 5 * 30)


def test_the_digits_network():
    found = stats(load(DIGITS), OPS)
    assert found.macs == 64 * 16 * 9 + 16 * 16 * 9 + 16 * 16 * 16 + 16 * 32 * 16 * 9 + 128 * 10
    # 6,602 trained ones and the means and variances of four batch norms.
    assert found.parameters == 6602 + 2 * (16 + 16 + 16 + 32)
    assert found.peak_bytes == max(layer.live_bytes for layer in found.layers) == 2 * 4096
    record = found.record()
    assert record["macs"] == found.macs
    assert len(record["layers"]) == len(found.layers)


def test_live_bytes_follow_skip_connections():
    builder = GraphBuilder(OPS, "skip")
    x = builder.input("x", TensorType(DType.F32, (16,)))
    a = builder.op("Relu", x)
    b = builder.op("Relu", a)
    c = builder.op("Relu", b)
    found = stats(builder.graph([builder.op("Add", a, c)]), OPS)
    assert [layer.live_bytes // 64 for layer in found.layers] == [2, 2, 3, 3]


def test_a_graph_of_constants_has_no_layers():
    builder = GraphBuilder(OPS, "constant")
    builder.input("x", TensorType(DType.F32, (16,)))
    found = stats(builder.graph([builder.constant(zeros(2))]), OPS)
    assert not found.layers
    assert found.peak_bytes == 0


def test_a_symbolic_batch_is_refused():
    with pytest.raises(UserError) as caught:
        stats(one("Relu", (Symbol("N"), 3)), OPS)
    assert str(caught.value) == (
        "all dimensions must be known to count operations; got x f32[N,3]. "
        "Give it with --input x=SHAPE"
    )
