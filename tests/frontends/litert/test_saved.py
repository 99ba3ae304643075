"""Quantized models as ONNX files: of the standard, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import weft
from tests.frontends.litert.builder import Case, T
from tests.frontends.litert.cases import bias, weights, x
from weft.dtypes import DType
from weft.errors import UserError
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS

FIX = (
    "Save a .weft file, which holds all types; a quantized model that is read with "
    "--rounding float (rounding='float') has ONNX's dequantizers and quantizers in place of "
    "such ops"
)


def product(folder: Path, rounding: str, added: T | None = None) -> weft.Network:
    """A fully connected layer of 16-bit activations, whose bias is of 64 bits."""
    given, weight = x(5, 24, dtype="int16"), weights((6, 24), "int16", 0)
    inputs = (given, weight, added or bias(6, given, weight))
    out = x(5, 6, dtype="int16", low=-20, high=20)
    case = Case("FULLY_CONNECTED", inputs, (out,), "FullyConnectedOptions", {}, "")
    path = folder / "product.tflite"
    path.write_bytes(case.content())
    return weft.load(path, rounding=rounding)


def wide_bias() -> T:
    """A bias that 32 bits do not hold."""
    made = bias(6, x(5, 24, dtype="int16"), weights((6, 24), "int16", 0))
    return replace(made, data=made.data + (1 << 40))


def test_quantizers_of_16_bits_are_of_the_standard(tmp_path: Path) -> None:
    net = product(tmp_path, "float")
    wide = [name for name, array in net.graph.constants.items() if array.dtype == np.int64]
    net.save(tmp_path / "product.onnx")
    onnx.checker.check_model(tmp_path / "product.onnx", full_check=True)
    again = weft.load(tmp_path / "product.onnx", rounding="float")
    assert wide
    assert all(again.graph.types[name].dtype is DType.I32 for name in wide)
    session = onnxruntime.InferenceSession(
        tmp_path / "product.onnx", providers=["CPUExecutionProvider"]
    )
    (name,), (result,) = net.graph.inputs, net.graph.outputs
    given = {name: np.random.default_rng(0).integers(-9000, 9000, (5, 24)).astype(np.int16)}
    wanted = evaluate(net.graph, given, OPS)[result]
    (found,) = session.run(None, given)
    assert np.abs(found.astype(np.int64) - wanted).max() <= 1
    assert (evaluate(again.graph, given, OPS)[result] == wanted).all()


def test_products_of_16_bits_are_refused_by_name(tmp_path: Path) -> None:
    net = product(tmp_path, "onnx")
    (node,) = [node for node in net.graph.nodes if node.op == "QLinearConv"]
    assert net.graph.types[node.inputs[8]].dtype is DType.I32
    with pytest.raises(UserError) as error:
        net.save(tmp_path / "product.onnx")
    assert str(error.value) == (
        "onnx: the standard does not have these ops for the types of their inputs; "
        f"got {node.name} (QLinearConv) with x of i16. {FIX}"
    )
    assert not (tmp_path / "product.onnx").exists()


def test_biases_beyond_32_bits_stay_in_float_and_are_refused(tmp_path: Path) -> None:
    net = product(tmp_path, "onnx", wide_bias())
    assert "QLinearConv" not in {node.op for node in net.graph.nodes}
    (node,) = [
        node
        for node in net.graph.nodes
        if node.op == "DequantizeLinear" and net.graph.types[node.inputs[0]].dtype is DType.I64
    ]
    with pytest.raises(UserError) as error:
        net.save(tmp_path / "product.onnx")
    assert str(error.value) == (
        "onnx: the standard does not have these ops for the types of their inputs; "
        f"got {node.name} (DequantizeLinear) with x of i64. {FIX}"
    )
