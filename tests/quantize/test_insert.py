"""QuantizeLinear and DequantizeLinear in graphs: where they stand, and with which constants."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import graph_of, infer, nodes_of
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.quantize.insert import BIAS_LIMIT, insert_qdq
from weft.quantize.scheme import ACTIVATIONS, WEIGHTS
from weft.recipes import apply

RNG = np.random.default_rng(3)
CONV = """(%x: f32[1,2,4,4]) -> (%y) {
    const %w: f32[3,2,3,3]
    const %b: f32[3]
    %c: f32[1,3,4,4] = Conv(%x, %w, %b) {pads=(1, 1, 1, 1)}
    %y: f32[1,3,4,4] = Relu(%c)
}"""
PRODUCT = """(%x: f32[5,4]) -> (%y) {
    const %w: f32[4,3]
    const %b: f32[3]
    %p: f32[5,3] = MatMul(%x, %w)
    %y: f32[5,3] = Add(%b, %p)
}"""


def quantized(text: str, axis: int, weight: tuple[int, ...], **more: np.ndarray) -> Graph:
    w = RNG.normal(0, 1, weight).astype(np.float32)
    b = RNG.normal(0, 1, 3).astype(np.float32)
    graph = graph_of(text, **{"w": w, "b": b, **more})
    others = tuple(n for n in range(w.ndim) if n != axis)
    layer = next(node.name for node in graph.nodes if node.op in ("Conv", "MatMul"))
    done = insert_qdq(
        graph,
        {"x": ACTIVATIONS.parameters(-2, 2), "y": ACTIVATIONS.parameters(0, 12)},
        {layer: WEIGHTS.along(axis).parameters(w.min(others), w.max(others))},
    )
    verify(done, infer)
    x = RNG.uniform(-2, 2, graph.types["x"].dims).astype(np.float32)
    before, after = (evaluate(each, {"x": x}, OPS)["y"] for each in (graph, done))
    assert np.abs(np.clip(before, 0, 12) - after).max() < 0.25
    return done


def ops_of(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_a_convolution_its_bias_and_its_activation():
    done = quantized(CONV, 0, (3, 2, 3, 3))
    assert ops_of(done) == [
        "QuantizeLinear",
        *3 * ["DequantizeLinear"],
        *("Conv", "Relu", "QuantizeLinear", "DequantizeLinear"),
    ]
    constants = done.constants
    assert constants["w_quantized"].dtype == np.int8
    assert constants["b_quantized"].dtype == np.int32
    products = constants["w_scale"] * constants["x_scale"]
    np.testing.assert_array_equal(constants["b_scale"], products)
    assert "w" not in constants
    assert ops_of(apply(done, "integers", {})) == [
        *("QuantizeLinear", "QLinearConv", "DequantizeLinear")
    ]


def test_a_product_and_the_row_that_is_added():
    done = quantized(PRODUCT, 1, (4, 3))
    assert done.constants["b_quantized"].dtype == np.int32
    whole = ops_of(apply(done, "integers", {}))
    assert whole == [*("QuantizeLinear", "Reshape", "QLinearConv", "Reshape", "DequantizeLinear")]


def test_values_keep_their_names_and_readers_get_the_rounded_ones():
    done = quantized(CONV, 0, (3, 2, 3, 3))
    assert nodes_of(done)[0] == (
        "%x_quantized: i8[1,2,4,4] = QuantizeLinear(%x, %x_scale, %x_zero_point)"
    )
    assert nodes_of(done)[-2:] == [
        "%y_quantized: i8[1,3,4,4] = QuantizeLinear(%y_float, %y_scale, %y_zero_point)",
        "%y: f32[1,3,4,4] = DequantizeLinear(%y_quantized, %y_scale, %y_zero_point)",
    ]
    assert done.history[-1].name == "quantize"
    assert done.history[-1].what == "2 values, 1 layers"


def test_a_constant_becomes_integers():
    graph = graph_of(
        "(%x: f32[2,3]) -> (%y) {\n    const %k: f32[2,3]\n    %y: f32[2,3] = Add(%x, %k)\n}"
    )
    ranges = {"x": (-1, 1), "k": (0, 2), "y": (-1, 3)}
    done = insert_qdq(graph, {v: ACTIVATIONS.parameters(*r) for v, r in ranges.items()}, {})
    assert ops_of(done).count("QuantizeLinear") == 2
    assert done.constants["k_quantized"].dtype == np.int8
    assert "k" not in done.constants


def test_scales_of_weights_grow_where_a_bias_would_not_fit():
    small = np.full((3, 2, 3, 3), 1e-9, np.float32)
    graph = graph_of(CONV, w=small, b=np.array([1000, 1, 0], np.float32))
    given = WEIGHTS.along(0).parameters(small.min((1, 2, 3)), small.max((1, 2, 3)))
    name = graph.nodes[0].name
    done = insert_qdq(graph, {"x": ACTIVATIONS.parameters(-2, 2)}, {name: given})
    whole, scale = done.constants["b_quantized"], done.constants["b_scale"]
    assert abs(int(whole[0])) <= BIAS_LIMIT
    np.testing.assert_allclose(whole * scale, [1000, 1, 0], rtol=1e-6)
    assert (done.constants["w_scale"] >= given.scale).all()


@pytest.mark.parametrize(
    ("activations", "weights", "message"),
    [
        (["z"], [], "quantize: there is no value z"),
        (["relu_"], [], "quantize: there is no value relu_. Did you mean relu?"),
        (
            [],
            ["conv_9"],
            "quantize: there is no layer conv_9 with a constant weight. Did you mean conv?",
        ),
    ],
)
def test_refusals(activations, weights, message):
    graph = graph_of(CONV.replace("%c", "%conv").replace("%y", "%relu"))
    with pytest.raises(UserError) as found:
        insert_qdq(
            graph,
            dict.fromkeys(activations, ACTIVATIONS.parameters(0, 1)),
            dict.fromkeys(weights, WEIGHTS.parameters(0, 1)),
        )
    assert str(found.value) == message
