"""Batch normalization in scales, whole biases, and what moves elements of integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import graph_of, nodes_of
from weft.ir.graph import Graph
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.recipes import apply

RNG = np.random.default_rng(3)
CONV = """(%x: u8[2,4,5,5]) -> (%y) {
    const %xs: f32[]
    const %w: i8[3,4,3,3]
    const %s: f32[SCALES]
    const %b: f32[3]
    const %scale: f32[3]
    const %shift: f32[3]
    const %mean: f32[3]
    const %variance: f32[3]
    %q: f32[2,4,5,5] = DequantizeLinear(%x, %xs)
    %d: f32[3,4,3,3] = DequantizeLinear(%w, %s) {axis=0}
    %c: f32[2,3,5,5] = Conv(%q, %d BIAS) {pads=(1, 1, 1, 1)}
    %y: f32[2,3,5,5] = BatchNormalization(%c, %scale, %shift, %mean, %variance)
}"""


def normalized(bias: str = "", scales: str = "3", **given: np.ndarray) -> Graph:
    text = CONV.replace("BIAS", bias).replace("SCALES", scales)
    text = text if bias else text.replace("    const %b: f32[3]\n", "")
    arrays = {
        "w": RNG.integers(-7, 8, (3, 4, 3, 3)).astype(np.int8),
        "xs": np.array(0.05, np.float32),
        "s": np.array([0.01, 0.02, 0.03] if scales else 0.02, np.float32),
        "scale": np.array([0.5, -2, 1.5], np.float32),
        **given,
    }
    return graph_of(text, **arrays)


def close(before: Graph, after: Graph, tolerance: float) -> None:
    type = before.types["x"]
    x = RNG.integers(0, 256, type.dims) if type.dtype.is_integer else RNG.normal(0, 1, type.dims)
    given = {"x": x.astype(type.dtype.numpy)}
    first, second = (evaluate(each, given, OPS)["y"] for each in (before, after))
    np.testing.assert_allclose(second, first, atol=tolerance, rtol=0)


@pytest.mark.parametrize(("bias", "scales"), [("", "3"), (", %b", "3"), (", %b", "")])
def test_batch_normalization_goes_into_scales_and_a_whole_bias(bias, scales):
    graph = normalized(bias, scales)
    done = apply(graph, "quantized-form")
    assert [node.op for node in done.nodes] == ["DequantizeLinear"] * 3 + ["Conv"]
    whole = [array for array in done.constants.values() if array.dtype == np.int8]
    # The integers stay, but for the signs of a channel whose factor is negative.
    assert np.array_equal(
        whole[0], graph.constants["w"] * np.array([1, -1, 1])[:, None, None, None]
    )
    products = [name for name in done.constants if name.endswith("_scale")]
    close(graph, done, float(done.constants[products[0]].max()) / 2 + 1e-4)


def test_a_channel_that_normalization_makes_constant():
    graph = normalized(scale=np.array([0.5, 0, 1e-30], np.float32))
    done = apply(graph, "quantized-form")
    assert [node.op for node in done.nodes] == ["DequantizeLinear"] * 3 + ["Conv"]
    assert all(
        (array > 0).all()
        for array in done.constants.values()
        if array.ndim == 1 and array.dtype == np.float32
    )
    close(graph, done, 1e-2)


def test_128_has_no_counterpart():
    weights = np.full((3, 4, 3, 3), -128, np.int8)
    done = apply(normalized(w=weights), "quantized-form")
    assert "BatchNormalization" in [node.op for node in done.nodes]
    positive = normalized(w=weights, scale=np.ones(3, np.float32))
    assert "BatchNormalization" not in [node.op for node in apply(positive, "quantized-form").nodes]


def test_a_product_and_what_is_added():
    graph = graph_of(
        """(%x: u8[6,4]) -> (%y) {
            const %xs: f32[] = [0.05]
            const %w: i8[3,4]
            const %s: f32[3]
            const %b: f32[3]
            %q: f32[6,4] = DequantizeLinear(%x, %xs)
            %d: f32[3,4] = DequantizeLinear(%w, %s) {axis=0}
            %t: f32[4,3] = Transpose(%d) {perm=(1, 0)}
            %c: f32[6,3] = MatMul(%q, %t)
            %y: f32[6,3] = Add(%c, %b)
        }"""
    )
    done = apply(graph, "quantized-form")
    assert [node.op for node in done.nodes] == [*["DequantizeLinear"] * 3, "MatMul", "Add"]
    assert "i32[3]" in {str(done.types[name]) for name in done.constants}
    close(graph, done, 0.05)


def test_pooling_and_reshaping_work_on_integers():
    graph = graph_of(
        """(%x: f32[2,4,6,6]) -> (%y) {
            const %s: f32[] = [0.05]
            const %z: u8[] = [3]
            %r: f32[2,4,6,6] = Relu(%x)
            %p: f32[2,4,3,3] = MaxPool(%r) {kernel=(2, 2), strides=(2, 2)}
            %f: f32[2,36] = Reshape(%p) {shape=(2, 36)}
            %c: f32[2,36] = Clip(%f) {max=0.6}
            %q: u8[2,36] = QuantizeLinear(%c, %s, %z)
            %y: f32[2,36] = DequantizeLinear(%q, %s, %z)
        }"""
    )
    done = apply(graph, "quantized-form")
    assert nodes_of(done)[0].split(" = ")[1].startswith("Clip(%x) {min=0, max=0.6")
    assert [node.op for node in done.nodes][1:4] == [
        "QuantizeLinear",
        "DequantizeLinear",
        "MaxPool",
    ]
    close(graph, done, 0)
    assert apply(done, "quantized-form") is done
