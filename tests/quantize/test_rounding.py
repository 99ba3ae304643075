"""Columns of layers, adaptive rounding and bias correction."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import graph_of
from weft.ir.graph import Graph
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.quantize.adaptive_rounding import adapted_rows
from weft.quantize.moments import ColumnMoments, as_rows, columns, from_rows
from weft.quantize.sites import QuantizedLayer, find_sites

RNG = np.random.default_rng(11)
LAYERS = {
    "conv": (
        "(%x: f32[2,4,9,7]) -> (%y) {\n    const %w: f32[6,2,3,2]\n    %y: f32[2,6,5,8] = "
        "Conv(%x, %w) {groups=2, strides=(2, 1), pads=(1, 0, 2, 3), dilations=(1, 2)}\n}"
    ),
    "channels last": (
        "(%x: f32[1,6,6,3]) -> (%y) {\n    const %w: f32[4,3,3,3]\n    %y: f32[1,6,6,4] = "
        "ConvChannelsLast(%x, %w) {pads=(1, 1, 1, 1)}\n}"
    ),
    "one axis": (
        "(%x: f32[1,4,9]) -> (%y) {\n    const %w: f32[4,1,3]\n    %y: f32[1,4,9] = "
        "Conv(%x, %w) {groups=4, pads=(1, 1)}\n}"
    ),
    "matmul": (
        "(%x: f32[2,3,5]) -> (%y) {\n    const %w: f32[5,4]\n    %y: f32[2,3,4] = MatMul(%x, %w)\n}"
    ),
    "gemm": (
        "(%x: f32[3,5]) -> (%y) {\n    const %w: f32[4,5]\n"
        "    %y: f32[3,4] = Gemm(%x, %w) {transB=1}\n}"
    ),
}


def layer_of(text: str) -> tuple[Graph, QuantizedLayer, np.ndarray]:
    graph = graph_of(text)
    (layer,) = find_sites(graph).layers
    x = RNG.normal(0, 1, graph.types["x"].dims).astype(np.float32)
    return graph, layer, x


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_a_product_with_its_columns(name):
    graph, layer, x = layer_of(LAYERS[name])
    rows = as_rows(layer, graph.constants["w"])
    found = rows @ columns(graph, layer, x)
    expected = evaluate(graph, {"x": x}, OPS)["y"]
    if layer.node.op == "Conv":
        expected = np.moveaxis(expected, 1, 0)
    else:
        expected = np.moveaxis(expected, -1, 0)
    np.testing.assert_allclose(
        found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max()
    )
    np.testing.assert_array_equal(
        from_rows(layer, rows, graph.constants["w"]), graph.constants["w"]
    )


def test_moments_add_up():
    graph, layer, x = layer_of(LAYERS["gemm"])
    found = ColumnMoments.empty(layer, graph.constants["w"], products=True)
    found.add(columns(graph, layer, x[:1]))
    found.add(columns(graph, layer, x[1:]))
    np.testing.assert_allclose(found.mean[0], x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found.second[0], x.T @ x / len(x), rtol=1e-5)


@pytest.mark.parametrize("groups", [1, 3])
def test_adapted_weights_make_smaller_errors_and_stay_neighbours(groups):
    x = RNG.normal(0, 1, (groups, 12, 6)) @ RNG.normal(0, 1, (groups, 6, 200)) + 0.5
    second = x @ x.transpose(0, 2, 1) / 200
    rows = RNG.normal(0, 1, (groups, 8, 12))
    scale = np.abs(rows).max(axis=-1, keepdims=True) / 7
    found = adapted_rows(rows, scale, (-7, 7), second, steps=300)
    assert found.adapted < 0.4 * found.nearest
    assert (np.abs(found.integers - rows / scale) < 1 + 1e-9).all()
    assert np.abs(found.integers).max() <= 7
    error = (found.integers * scale - rows) @ x
    np.testing.assert_allclose(found.adapted, np.sum(np.mean(error**2, axis=-1)), rtol=1e-6)


def test_adapted_weights_are_the_best_of_all_for_few_weights():
    """With four weights every combination can be tried."""
    second = np.array([[[4, 1.5, 0.3, 0], [1.5, 2, 0.7, 0.2], [0.3, 0.7, 3, 1], [0, 0.2, 1, 1]]])
    rows = RNG.uniform(-5, 5, (1, 6, 4))
    found = adapted_rows(rows, np.array(1.0), (-7, 7), second, steps=200)
    choices = np.stack(np.meshgrid(*[[0, 1]] * 4), -1).reshape(-1, 4)
    for row, chosen in zip(rows[0], found.integers[0], strict=True):
        every = np.floor(row) + choices - row
        best = np.einsum("ni,ij,nj->n", every, second[0], every).min()
        own = (chosen - row) @ second[0] @ (chosen - row)
        assert own <= 1.3 * best + 1e-9
