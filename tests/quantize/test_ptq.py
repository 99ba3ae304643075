"""Post-training quantization of small graphs, by the references."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import graph_of, infer
from tests.turns import a_few
from weft.errors import UserError
from weft.ir.compose import bind_symbols
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.quantize.config import METHODS, QuantizeKeywords, config_of
from weft.quantize.laboratory import FLOAT, Laboratory, QuantizedVariant, by_reference
from weft.quantize.prepare import prepared
from weft.quantize.ptq import QuantizedGraph, quantize_graph
from weft.quantize.scheme import ACTIVATIONS
from weft.quantize.sites import find_sites
from weft.recipes import apply
from weft.rewrite.float_layers import float_layers

RNG = np.random.default_rng(21)
NETWORK = """(%x: f32[N,3,8,8]) -> (%y) {
    const %w: f32[8,3,3,3]
    const %g: f32[8]
    const %h: f32[8]
    const %m: f32[8]
    const %v: f32[8]
    const %d: f32[8,1,3,3]
    const %p: f32[8,8,1,1]
    const %b: f32[8]
    const %k: f32[128,10]
    const %c: f32[10]
    %first: f32[N,8,8,8] = Conv(%x, %w) {pads=(1, 1, 1, 1)}
    %normal: f32[N,8,8,8] = BatchNormalization(%first, %g, %h, %m, %v)
    %bounded: f32[N,8,8,8] = Clip(%normal) {min=0.0, max=6.0}
    %pooled: f32[N,8,4,4] = MaxPool(%bounded) {kernel=(2, 2), strides=(2, 2)}
    %depthwise: f32[N,8,4,4] = Conv(%pooled, %d, %b) {groups=8, pads=(1, 1, 1, 1)}
    %relu: f32[N,8,4,4] = Relu(%depthwise)
    %pointwise: f32[N,8,4,4] = Conv(%relu, %p, %b)
    %sum: f32[N,8,4,4] = Add(%pointwise, %pooled)
    %flat: f32[N,128] = Flatten(%sum)
    %scores: f32[N,10] = Gemm(%flat, %k, %c)
    %y: f32[N,10] = Softmax(%scores)
}"""


def network() -> Graph:
    shapes = {"w": (8, 3, 3, 3), "d": (8, 1, 3, 3), "p": (8, 8, 1, 1), "k": (128, 10)}
    weights = {
        name: (RNG.normal(0, 1, shape) / np.sqrt(np.prod(shape[1:]) if name != "k" else 128))
        for name, shape in shapes.items()
    }
    vectors = {name: RNG.normal(0, 0.3, 10 if name == "c" else 8) for name in "hmbc"}
    scales = {name: RNG.uniform(0.5, 1.5, 8) for name in "gv"}
    arrays = {**weights, **vectors, **scales}
    return graph_of(NETWORK, **{name: a.astype(np.float32) for name, a in arrays.items()})


GRAPH = network()
IMAGES = RNG.normal(0, 1, (24, 3, 8, 8)).astype(np.float32)


def outputs(graph: Graph, images: np.ndarray = IMAGES) -> np.ndarray:
    return np.concatenate([evaluate(graph, {"x": x[None]}, OPS)["y"] for x in images])


def quantized(graph: Graph = GRAPH, **keywords) -> QuantizedGraph:
    more = {name: keywords.pop(name) for name in ("metric", "max_drop", "most") if name in keywords}
    given: QuantizeKeywords = keywords
    return quantize_graph(graph, IMAGES, by_reference, config_of(given), **more)


def error(found: QuantizedGraph, graph: Graph = GRAPH) -> float:
    verify(found.graph, infer)
    exact = outputs(graph)
    return float(np.abs(outputs(found.graph) - exact).max())


@pytest.mark.parametrize("method", a_few(METHODS))
def test_every_calibration(method):
    found = quantized(calibration=method)
    # Averages of few samples cut much off.
    assert error(found) < (0.3 if method == "moving-average" else 0.03)
    assert found.report.output > (15 if method == "moving-average" else 20)


def test_every_layer_becomes_one_of_integers():
    graph = bind_symbols(quantized().graph, {"N": 1})
    ops = [node.op for node in apply(graph, "integers", {}).nodes]
    assert ops.count("QLinearConv") == 4
    assert "Conv" not in ops
    assert "Gemm" not in ops
    litert = apply(graph, "integers", {"rounding": "litert"})
    floats = [n.op for n in litert.nodes if any(litert.types[v].dtype.is_float for v in n.outputs)]
    assert floats == ["DequantizeLinear", "Softmax"]


@pytest.mark.parametrize(
    ("keywords", "largest"),
    a_few(
        [
            ({"per_channel": False}, 0.03),
            ({"per_channel": False, "equalize": True}, 0.03),
            ({"symmetric": True}, 0.03),
            ({"signed": False}, 0.03),
            ({"activations": 16}, 0.012),
            ({"integer_io": True}, None),
            ({"weights": 5, "bias_correction": True, "weight_calibration": "mse"}, 0.15),
        ],
        3,
    ),
)
def test_schemes(keywords, largest):
    found = quantized(**keywords)
    if largest is not None:
        assert error(found) < largest
    else:
        assert str(found.graph.types["x"]) == "i8[N,3,8,8]"
        assert str(found.graph.types["y"]) == "i8[N,10]"
        verify(found.graph, infer)


def test_adaptive_rounding_and_bias_correction_reduce_the_error():
    plain = quantized(weights=4)
    better = quantized(weights=4, adaptive_rounding=True, bias_correction=True)
    assert better.report.output > plain.report.output + 2
    weights = [a for n, a in better.graph.constants.items() if n.endswith("_quantized")]
    assert max(int(np.abs(a).max()) for a in weights if a.dtype == np.int8) == 7


def test_the_report_names_layers_and_reasons():
    found = quantized(weight_bits={"pointwise": 2}).report
    assert [layer.name for layer in found.layers] == [
        *("first", "depthwise", "pointwise", "sum", "scores")
    ]
    assert found.worst.name == "pointwise"
    assert found.worst.why == "weight: 2 bits"
    assert [layer.bits for layer in found.layers] == [8, 8, 2, None, 8]
    assert [(each.name, each.op, each.reason) for each in found.floats] == [
        ("y", "Softmax", "it computes an output of the network")
    ]
    record = found.record()
    assert record["samples"] == 24
    assert len(record["layers"]) == 5
    assert "pointwise: " in repr(found)


CUT = config_of({"calibration": "percentile", "percentile": 99.9})


def test_an_outlier_in_the_input_is_told():
    images = IMAGES.copy()
    images[3, 0, 0, 0] = 500
    found = quantize_graph(GRAPH, images, by_reference)
    first = found.report.layers[0]
    assert first.why.startswith("input: outliers, the range is ")
    assert found.report.worst is first
    cut = quantize_graph(GRAPH, images, by_reference, CUT)
    assert cut.report.layers[0].own > first.own + 10


def test_layers_kept_in_floating_point():
    found = quantized(keep_float=["poi*", "sum", "scores"])
    assert found.report.output > 20
    reasons = {each.name: each.reason for each in found.report.floats}
    assert reasons["pointwise"] == reasons["sum"] == "kept in floating point on request"
    assert "p" in found.graph.constants
    assert found.graph.constants["d_quantized"].dtype == np.int8


def agreement(run) -> float:
    """The share of predictions of the float network that stay."""
    made = [int(run({"x": x[None]})["y"].argmax()) for x in IMAGES]
    return float(np.mean(np.array(made) == EXPECTED))


EXPECTED = outputs(GRAPH).argmax(1)


def test_accuracy_is_measured():
    found = quantized(metric=agreement).report
    assert found.reference == 1
    assert 0.8 < found.accuracy <= 1


def test_mixed_precision_keeps_accuracy_with_as_few_bits_as_needed():
    low = quantized(weights=3, metric=agreement).report
    found = quantized(weights=3, metric=agreement, max_drop=0.1)
    report = found.report
    assert low.accuracy < 0.9 <= report.accuracy
    assert {layer.bits for layer in report.layers if layer.bits} == {3, 8}
    assert float(np.mean(outputs(found.graph).argmax(1) == EXPECTED)) == report.accuracy


def test_no_loss_at_all_keeps_what_hurts_in_floating_point():
    found = quantized(weights=2, metric=lambda run: -abs(difference(run)), max_drop=0.0)
    assert not found.report.layers
    assert found.report.worst is None
    assert "hurts most" not in repr(found.report)
    kept = [each.name for each in found.report.floats if each.reason.endswith("for accuracy")]
    # Without quantized layers beside it, the sum has nothing quantized to read.
    assert kept == ["first", "depthwise", "pointwise", "scores"]
    np.testing.assert_array_equal(outputs(found.graph), outputs(prepared(GRAPH)))


def difference(run) -> float:
    return float(np.abs(run({"x": IMAGES[:1]})["y"] - outputs(GRAPH, IMAGES[:1])).max())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: quantized(max_drop=0.1),
            "quantize: max_drop needs an accuracy. Give a metric, or labels with the samples.",
        ),
        (
            lambda: quantized(max_drop=-1, metric=agreement),
            "quantize: max_drop must be at least 0; got -1",
        ),
        (
            lambda: quantized(keep_float=["pointwize"]),
            "quantize: keep_float names no layer pointwize. Did you mean pointwise?",
        ),
        (
            lambda: quantized(weight_bits={"score": 4}),
            "quantize: weight_bits names no layer score. Did you mean scores?",
        ),
        (
            lambda: quantize_graph(
                graph_of("(%x: f32[3]) -> (%y) {\n    %y: f32[3] = Exp(%x)\n}"),
                np.ones((2, 3)),
                by_reference,
            ),
            "quantize: g has no layer with a constant f32 weight that can be quantized; "
            "got Exp has no form of integers",
        ),
        (
            lambda: quantize_graph(quantized().graph, IMAGES, by_reference),
            "quantize: g is quantized already. Quantize the float network.",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(UserError) as found:
        call()
    assert str(found.value) == message


def test_the_laboratory_computes_what_the_quantized_graph_does():
    graph = graph_of(NETWORK.replace("N,", "1,"), **dict(GRAPH.constants))
    sites = find_sites(graph)
    lab = Laboratory(graph, sites, ACTIVATIONS, by_reference)
    sample = {"x": IMAGES[:1]}
    np.testing.assert_array_equal(
        lab.run(sample, FLOAT, ["y"])["y"], evaluate(graph, sample, OPS)["y"]
    )
    given = {"x": ACTIVATIONS.parameters(-3, 3)}
    weight = {"k": np.round(graph.constants["k"], 1)}
    found = lab.run(sample, QuantizedVariant(given, weight), ["x", "y"])
    rounded = given["x"].rounded(IMAGES[:1])
    np.testing.assert_array_equal(found["x"], rounded)
    other = graph_of(NETWORK.replace("N,", "1,"), **{**graph.constants, **weight})
    np.testing.assert_array_equal(found["y"], evaluate(other, {"x": rounded}, OPS)["y"])


@pytest.mark.parametrize("rounding", ["onnx", "litert"])
def test_activations_of_16_bits_run_in_integers(rounding: str) -> None:
    found = bind_symbols(quantized(activations=16).graph, {"N": 1})
    graph = apply(found, "integers", {"rounding": rounding})
    left = {each.op for each in float_layers(graph)}
    assert not left & {"Conv", "Gemm", "MatMul"}
    if rounding == "litert":
        assert left == {"Softmax"}
    near = np.abs(outputs(graph) - outputs(found)).max()
    assert near < 1e-3
