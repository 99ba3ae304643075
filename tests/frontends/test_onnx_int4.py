"""Weights of 4 bits: two in a byte of a file, read as bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import weft
from tests.frontends.models import model, node
from tests.rewrite.checks import graph_of
from weft.frontends.onnx import import_model, load

LAYERS = """(%x: f32[2,5]) -> (%y, %k) {
    const %w: i8[5,3]
    const %v: i8[3,3]
    const %k: i8[2]
    const %s: f32[3] = [0.5, 0.25, 2.0]
    const %t: f32[] = [0.125]
    const %z: i8[] = [1]
    %d: f32[5,3] = DequantizeLinear(%w, %s) {axis=1}
    %e: f32[3,3] = DequantizeLinear(%v, %t, %z)
    %m: f32[2,3] = MatMul(%x, %d)
    %y: f32[2,3] = MatMul(%m, %e)
}"""


def test_weights_that_4_bits_hold_are_written_so(tmp_path: Path) -> None:
    weights = np.arange(15, dtype=np.int8).reshape(5, 3) - 8
    net = weft.Net(
        graph_of(
            LAYERS,
            w=weights,
            v=np.full((3, 3), 3, np.int8),
            k=np.array([1, 2], np.int8),
        )
    )
    net.save(tmp_path / "q.onnx", int4=True)
    written = onnx.load(tmp_path / "q.onnx")
    onnx.checker.check_model(written, full_check=True)
    kinds = {each.name: (each.data_type, len(each.raw_data)) for each in written.graph.initializer}
    assert kinds["w"] == (TensorProto.INT4, 8)
    # Beside a zero point of 8 bits, and as an output, bytes stay bytes.
    assert kinds["v"] == (TensorProto.INT8, 9)
    assert kinds["k"] == (TensorProto.INT8, 2)
    found = load(tmp_path / "q.onnx")
    assert np.array_equal(found.constants["w"], weights)
    assert found.constants["w"].dtype == np.int8
    x = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    # Its products with weights of 4 bits would round the data to 8.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx", options)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], net.reference(x)[0], rtol=1e-4)
    net.save(tmp_path / "bytes.onnx")
    assert {each.data_type for each in onnx.load(tmp_path / "bytes.onnx").graph.initializer} == {
        TensorProto.INT8,
        TensorProto.FLOAT,
    }


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
@pytest.mark.parametrize("raw", [True, False])
def test_constants_of_4_bits_are_read(kind: str, raw: bool) -> None:
    values = [0, 1, 7, 5, 3] if kind == "UINT4" else [0, -1, 7, -8, 3]
    code = TensorProto.DataType.Value(kind)
    packed = bytes([values[0] & 15 | (values[1] & 15) << 4, values[2] | (values[3] & 15) << 4, 3])
    tensor = helper.make_tensor("w", code, [5], packed if raw else values, raw=raw)
    source = model(
        [node("DequantizeLinear", "w s", "d"), node("Add", "x d", "y")],
        {"x": [5]},
        constants={"s": np.array(0.5, np.float32)},
        opset=21,
    )
    source.graph.initializer.append(tensor)
    graph = import_model(source)
    (whole,) = [each for each in graph.constants.values() if each.size == 5]
    assert whole.tolist() == values
    assert whole.dtype == (np.uint8 if kind == "UINT4" else np.int8)
