"""``weft.quantize``: networks that run compiled, and what onnxruntime makes of the file."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import weft
from tests.exact_sessions import exact_options
from tests.models import tiny
from tests.quantize.transformer import VisionTransformer
from weft.errors import UserError
from weft.quantize.config import QuantizationConfig

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"
RNG = np.random.default_rng(0)
IMAGES = RNG.uniform(0, 1, (16, 1, 8, 8)).astype(np.float32)
needs_data = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed"
)


def by_onnxruntime(path: Path):
    options = exact_options()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (name,) = (each.name for each in session.get_inputs())
    return lambda x: session.run(None, {name: x})[0]


@pytest.fixture(scope="module")
def digits() -> weft.Net:
    return weft.load(DIGITS)


def test_the_package_is_the_function():
    assert QuantizationConfig.__module__ == "weft.quantize.config"
    assert callable(weft.quantize)


def test_onnxruntime_runs_the_file_alike(digits, tmp_path):
    q = weft.quantize(digits, IMAGES)
    q.save(tmp_path / "q.onnx")
    theirs, ours, exact = by_onnxruntime(tmp_path / "q.onnx"), q.compile(), digits.compile()
    step = float(np.ptp(exact(IMAGES[:1]))) / 100
    for x in IMAGES[:8]:
        assert np.abs(theirs(x[None]) - ours(x[None])).max() <= step
        assert np.abs(exact(x[None]) - ours(x[None])).max() <= 6 * step
    whole = q.apply("integers", rounding="litert")
    types = whole.graph.types
    floats = [n.op for n in whole.graph.nodes if any(types[v].dtype.is_float for v in n.outputs)]
    assert floats == ["DequantizeLinear"]
    assert np.abs(whole.compile()(IMAGES[:1]) - exact(IMAGES[:1])).max() <= 6 * step


@needs_data
@pytest.mark.thorough
def test_digits_keep_their_accuracy(digits):
    q = digits.quantize("digits", limit=200, test="digits")
    report = q.quantization
    assert report.samples == 200
    assert report.accuracy >= report.reference - 0.005
    assert [each.op for each in report.floats] == ["Add", "Relu"]
    assert digits.quantization is None
    assert q.apply("integers").quantization is None


def test_a_metric_and_its_labels(digits):
    calls = []

    def metric(call):
        calls.append(call(IMAGES[:1]).shape)
        return 0.5

    q = weft.quantize(digits, IMAGES[:4], accuracy=metric, weights=4)
    assert calls == [(1, 10), (1, 10)]
    assert (q.quantization.accuracy, q.quantization.reference) == (0.5, 0.5)


def test_states_are_inputs_with_samples_of_their_own():
    def step(x, h):
        weight = weft.constant(RNG.normal(0, 0.5, (4, 4)).astype(np.float32))
        h = weft.ops.tanh(weft.ops.matmul(weft.ops.add(x, h), weight), name="next")
        return h, h

    net = weft.trace(step, "f32[1,4]", "f32[1,4]", name="cell")
    net = net.with_state({net.graph.inputs[1]: net.graph.outputs[1]})
    samples = RNG.normal(0, 1, (2, 5, 4)).astype(np.float32)
    q = weft.quantize(net, dict(zip(net.graph.inputs, samples, strict=True)))
    assert q.states == net.states
    assert q.quantization.layers[0].op == "MatMul"
    assert np.abs(q.compile()(samples[0, :1]) - net.compile()(samples[0, :1])).max() < 0.05


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        (
            {"config": QuantizationConfig(), "weights": 4},
            "quantize: options come as config or as keywords; got both",
        ),
        ({"limit": 0}, "quantize: limit must be at least 1; got 0"),
        ({"equalise": 4}, "quantize: there is no option equalise. Did you mean equalize?"),
        ({"test": IMAGES}, "quantize: test samples need labels; got none"),
        (
            {"test": IMAGES, "accuracy": lambda call: 1.0},
            "quantize: accuracy has its own test samples; got accuracy and test",
        ),
        (
            {"max_drop": 0.1},
            "quantize: max_drop needs an accuracy. Give a metric, or labels with the samples.",
        ),
    ],
)
def test_refusals(digits, keywords, message):
    with pytest.raises(UserError) as found:
        weft.quantize(digits, IMAGES, **keywords)
    assert str(found.value) == message


def test_a_file_that_is_none(digits, tmp_path):
    path = tmp_path / "samples.npz"
    path.write_text("no arrays")
    with pytest.raises(UserError) as found:
        weft.quantize(digits, path)
    assert str(found.value).startswith(
        f"quantize: samples must be a NumPy file (.npz, .npy); got {path}: "
    )


@pytest.mark.thorough
def test_a_vision_transformer(tmp_path):
    """All layers are integers; what stays in floating point is listed."""
    made = VisionTransformer(image=32, patch=8, width=48, heads=3, blocks=2, classes=10)
    net = made.net()
    q = weft.quantize(net, made.samples(8))
    whole = q.apply("integers")
    ops = [node.op for node in whole.graph.nodes]
    # The convolution, six products in each block, and the head.
    assert ops.count("QLinearConv") == 1 + 2 * 6 + 1
    assert (ops.count("QLinearMatMul"), ops.count("Lookup")) == (2 * 2, 2)
    litert = "the recipe `integers` has a form of it with rounding=litert only"
    assert Counter((each.op, each.reason) for each in q.quantization.floats) == {
        ("LayerNormalization", "LayerNormalization has no form of integers"): 5,
        ("Add", litert): 5,
        ("Softmax", litert): 2,
    }
    q.save(tmp_path / "q.onnx")
    theirs, ours, exact = by_onnxruntime(tmp_path / "q.onnx"), q.compile(), net.compile()
    x = made.samples(1)
    span = float(np.ptp(exact(x)))
    assert np.abs(theirs(x) - ours(x)).max() <= 0.02 * span
    assert np.abs(exact(x) - ours(x)).max() <= 0.1 * span


# --- the keyword model --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keywords() -> tuple[np.ndarray, np.ndarray]:
    """The 1000 inputs of the benchmark's test, in floats, and their labels."""
    path = tiny.FOLDER.parent / "kws_test" / "kws_mfcc_int8.npz"
    if not path.is_file():
        pytest.skip(f"the keywords are not at {path}")
    graph = weft.load(tiny.model("kws", "int8"), rounding="float").graph
    reshape = next(node for node in graph.nodes if graph.inputs[0] in node.inputs)
    read = next(node for node in graph.users[reshape.outputs[0]])
    scale, zero = (graph.constants[value] for value in read.inputs[1:])
    with np.load(path) as arrays:
        x = (arrays["x"].astype(np.int32) - int(zero)) * np.float32(scale)
        return x.astype(np.float32), arrays["y"]


def accuracy(net, keywords) -> float:
    call = net.compile()
    inputs, labels = keywords
    right = sum(int(call(x[None]).argmax()) == y for x, y in zip(inputs, labels, strict=True))
    return right / len(labels)


@tiny.needed
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "drop"),
    [
        ({}, 0.005),
        ({"weights": 4, "adaptive_rounding": True, "bias_correction": True}, 0.02),
    ],
)
def test_keywords_keep_their_accuracy(keywords, options, drop):
    net = weft.load(tiny.model("kws"))
    q = weft.quantize(net, keywords[0][:200], **options)
    assert accuracy(q.apply("integers"), keywords) >= accuracy(net, keywords) - drop
