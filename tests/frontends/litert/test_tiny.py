"""The MLPerf Tiny models as LiteRT files, against LiteRT and their golden data."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.cli.commands import good, record
from tests.models import tiny
from tests.turns import a_few
from weft.frontends.litert.loading import import_file
from weft.frontends.litert.session import Session, has_interpreter
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.runtime.compare import compare

pytestmark = tiny.needed
interpreted = pytest.mark.skipif(not has_interpreter(), reason="LiteRT's interpreter is missing")

KINDS = [(name, kind) for name in tiny.NAMES for kind in ("float", "int8")]
# In least significant bits. Fully connected layers of the LiteRT that is installed round once,
# those of the LiteRT that made the golden data twice, as do Weft's.
STEPS = {"ad": 3, "ic": 0, "kws": 5, "vww": 0}


def file(name: str, kind: str) -> Path:
    return tiny.FOLDER / f"{name}_{kind}.tflite"


@cache
def found(name: str, kind: str) -> np.ndarray:
    graph = weft.load(file(name, kind)).graph
    inputs = tiny.golden(name, kind)[0]
    (port,), (out,) = graph.inputs, graph.outputs
    return np.stack([evaluate(graph, {port: x}, OPS)[out] for x in inputs])


def differs(name: str, kind: str, expected: np.ndarray, steps: int = 0) -> None:
    difference = compare(name, found(name, kind), expected)
    if kind == "int8":
        assert difference.largest <= steps
    else:
        assert difference.relative <= 1e-5


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_golden_data(name: str, kind: str) -> None:
    differs(name, kind, tiny.golden(name, kind)[1])


@interpreted
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_litert(name: str, kind: str) -> None:
    run = Session(file(name, kind))
    (port,) = import_file(file(name, kind)).inputs
    made = [run({port: x}) for x in tiny.golden(name, kind)[0]]
    differs(name, kind, np.stack([next(iter(each.values())) for each in made]), STEPS[name])


def widened(content: bytes) -> bytes:
    """A file with the weights that are stored as int8 as floats."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for tensor in model.subgraphs[0].tensors:
        data = model.buffers[tensor.buffer].data
        if tensor.type == schema.TensorType.INT8 and data is not None:
            spread = [1] * len(tensor.shape)
            spread[tensor.quantization.quantizedDimension] = -1
            integers = np.array(data).view(np.int8).reshape(tensor.shape)
            scale = np.array(tensor.quantization.scale, np.float32).reshape(spread)
            model.buffers[tensor.buffer].data = np.frombuffer(
                (integers * scale).astype(np.float32).tobytes(), np.uint8
            )
            tensor.type, tensor.quantization = schema.TensorType.FLOAT32, None
    builder = pytest.importorskip("flatbuffers").Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@interpreted
def test_weights_alone_as_integers(tmp_path: Path) -> None:
    """What LiteRT gives where it does not quantize the activations."""
    path = tmp_path / "kws.tflite"
    path.write_bytes(widened(file("kws", "float").read_bytes()))
    run = Session(path)
    inputs = tiny.golden("kws")[0]
    expected = [run({"input_1": x})["Identity"] for x in inputs]
    graph = weft.load(file("kws", "float"), float_activations=True).graph
    made = [evaluate(graph, {"input_1": x}, OPS)["Identity"] for x in inputs]
    assert compare("kws", np.stack(made), np.stack(expected)).relative <= 1e-5
    assert not any(node.op.startswith("DynamicQuantize") for node in graph.nodes)


@interpreted
def test_layers_that_quantize_their_inputs_have_the_bits_of_litert() -> None:
    """Plain loops round as LiteRT's reference kernels do; else steps of an input may differ."""
    path = file("kws", "float")
    expected, run = Session(path), weft.load(path).compile(plain=True)
    rng = np.random.default_rng(0)
    for x in [*tiny.golden("kws")[0], *rng.normal(size=(8, 1, 49, 10, 1)).astype(np.float32)]:
        assert np.array_equal(run(x), expected({"input_1": x})["Identity"])


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_images_keep_their_layout(name: str, kind: str) -> None:
    ops = {node.op for node in weft.load(file(name, kind)).graph.nodes}
    assert "Transpose" not in ops
    assert not ops & {"Conv", "MaxPool", "AveragePool"}


@pytest.mark.parametrize(
    ("name", "kind"), a_few([("ad", "int8"), ("kws", "int8"), ("kws", "float")])
)
def test_compiled(name: str, kind: str) -> None:
    run = weft.load(file(name, kind)).compile()
    made = np.stack([run(x) for x in tiny.golden(name, kind)[0]])
    difference = compare(name, made, found(name, kind))
    # Where sums round otherwise, a quantized input of kws's layers may be another integer.
    assert difference.largest <= (0 if kind == "int8" else 5e-4)


@pytest.mark.thorough
@interpreted
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each == "kws" else pytest.mark.slow) for each in tiny.NAMES],
)
def test_verify_without_options(name: str) -> None:
    found = record("verify", file(name, "int8"), "--runs", 2)
    assert found["passed"], found
    assert found["steps"] == 1
    assert len(found["layers"]) >= 10


def test_names_are_short() -> None:
    graph = weft.load(file("kws", "int8")).graph
    names = [*graph.types, *(node.name for node in graph.nodes)]
    assert max(map(len, names)) <= 64
    assert graph.inputs == ("input_1",)
    assert graph.outputs == ("Identity",)
    convolutions = [node for node in graph.nodes if node.op == "ConvIntegerChannelsLast"]
    assert [node.name for node in convolutions][:3] == [
        "conv2d/conv_sums",
        "depthwise_conv2d/conv_sums",
        "conv2d_1/conv_sums",
    ]
    assert all(";" in node.origin.sources[0] for node in convolutions)


def test_reports_have_one_table_of_long_names(tmp_path: Path) -> None:
    good("export", file("kws", "int8"), "-o", tmp_path / "out")
    steps, names = (tmp_path / "out" / "report.md").read_text().split("Names in the source model:")
    assert ";" not in steps.replace("; ", "")
    assert "for generic, c99. Quantized layers round as LiteRT's reference kernels do" in steps
    assert "| conv2d/conv_sums | functional_1/activation/Relu;functional_1/batch" in names
