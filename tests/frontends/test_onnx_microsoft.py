"""Quantized ops of onnxruntime's own operator set, against onnxruntime."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import weft
from tests.exact_sessions import WEIGHT
from weft.errors import UserError
from weft.frontends.onnx import Session

RNG = np.random.default_rng(5)


def f(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def q(dtype: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def weights_of(*shape: int) -> np.ndarray:
    return RNG.integers(-WEIGHT - 1, WEIGHT + 1, shape).astype(np.int8)


@dataclass
class Call:
    """A node, the places of the inputs that are data, and how far results may be apart."""

    op: str
    inputs: list[np.ndarray]
    data: Collection[int]
    attributes: dict[str, Any] = field(default_factory=dict)
    steps: float = 0
    gives: type | None = None
    has: str = ""

    def __str__(self) -> str:
        return f"{self.op}-{self.inputs[min(self.data)].dtype}-{len(self.attributes)}"


def model(call: Call, shape: tuple[int, ...]) -> onnx.ModelProto:
    def info(name: str, dtype: Any, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, shape)

    names = [f"i{place}" for place in range(len(call.inputs))]
    node = helper.make_node(call.op, names, ["y"], domain="com.microsoft", **call.attributes)
    inputs = [info(names[at], call.inputs[at].dtype, call.inputs[at].shape) for at in call.data]
    constants = [
        numpy_helper.from_array(each, names[at])
        for at, each in enumerate(call.inputs)
        if at not in call.data
    ]
    gives = call.gives or call.inputs[min(call.data)].dtype
    graph = helper.make_graph([node], "g", inputs, [info("y", gives, shape)], constants)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


def calls(dtype: type) -> list[Call]:
    def z(value: int) -> np.ndarray:
        return np.array(value, dtype)

    a, b, image = q(dtype, 16, 24), q(dtype, 16, 24), q(dtype, 1, 8, 6, 6)
    pair = [a, f(0.031), z(3), b, f(0.017), z(7), f(0.04), z(5)]
    one = [a, f(0.051), z(3), f(1 / 256), z(0)]
    pool = [image, f(0.051), z(3), f(0.04), z(9)]
    weights = weights_of(12, 24)
    scales = RNG.uniform(0.001, 0.01, 12).astype(np.float32)
    bias = RNG.integers(-999, 999, 12).astype(np.int32)
    rows = RNG.integers(-9999, 9999, (16, 1)).astype(np.int32)
    none = np.array(0, np.int8)
    several = np.zeros(12, np.int8)
    gemm = [a, f(0.031), z(3), weights, scales, several, bias, f(0.2), z(5)]
    turned = [*gemm[:3], np.ascontiguousarray(weights.T), *gemm[4:]]
    widened = [a, turned[3], f(0.031), f(0.01), z(3), none, RNG.normal(size=12).astype(np.float32)]
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    return [
        # It scales before it adds: ties end differently.
        Call("QLinearAdd", pair, (0, 3), steps=1),
        Call("QLinearMul", pair, (0, 3)),
        Call("QLinearSigmoid", one, (0,), has="Lookup"),
        Call("QLinearLeakyRelu", one, (0,), {"alpha": 0.1}, has="Lookup"),
        Call("QLinearSoftmax", one, (0,), {"axis": -1, "opset": 13}, has="Softmax"),
        Call("QLinearGlobalAveragePool", pool, (0,), steps=1),
        Call("QLinearGlobalAveragePool", pool, (0,), {"channels_last": 1}, steps=1),
        Call("QLinearAveragePool", pool, (0,), window, steps=1),
        Call("QLinearAveragePool", pool, (0,), {**window, "channels_last": 1}, steps=1),
        Call("QLinearConcat", [*pair[6:], *pair[:6]], (2, 5), {"axis": 1}),
        Call("QLinearWhere", [a > z(0), *pair[:6], f(0.04), z(5)], (0, 1, 4), gives=dtype),
        Call("QGemm", gemm, (0,), {"transB": 1}, has="QLinearConv"),
        Call("QGemm", turned, (0,), {"transB": 0}, has="QLinearConv"),
        Call("QGemm", gemm[:7], (0,), {"transB": 1, "alpha": 1.0}, gives=np.float32),
        # The bias is in steps of the sums, which alpha multiplies; it may belong to rows.
        Call(
            "QGemm", [*gemm[:6], 40 * bias, *gemm[7:]], (0,), {"transB": 1, "alpha": 0.5}, steps=1
        ),
        Call("QGemm", [*gemm[:6], rows, *gemm[7:]], (0,), {"transB": 1}, steps=1),
        Call("DequantizeLinear", [a, f(0.031), z(3)], (0,), gives=np.float32),
        Call(
            "QuantizeLinear",
            [RNG.normal(size=(4, 6)).astype(np.float32), f(0.02), z(3)],
            (0,),
            gives=dtype,
        ),
        Call("MatMulIntegerToFloat", widened, (0,), gives=np.float32, has="MatMulInteger"),
    ]


CALLS = [
    *calls(np.int8),
    *calls(np.uint8),
    Call(
        "DynamicQuantizeMatMul",
        [
            *(RNG.normal(size=(8, 24)).astype(np.float32), weights_of(24, 12), f(0.01)),
            *(np.array(0, np.int8), RNG.normal(size=12).astype(np.float32)),
        ],
        (0,),
        has="DynamicQuantizeLinear",
    ),
    Call(
        "QLinearConv",
        [
            *(q(np.uint8, 1, 8, 8, 4), f(0.031), np.array(3, np.uint8)),
            *(weights_of(6, 4, 3, 3), f(0.01), np.array(0, np.int8)),
            *(f(0.2), np.array(9, np.uint8)),
        ],
        (0,),
        {"channels_last": 1, "kernel_shape": [3, 3]},
        has="QLinearConv",
    ),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_same_as_onnxruntime(call: Call, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model(call, ()).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    given = {f"i{place}": call.inputs[place] for place in call.data}
    expected = np.asarray(session.run(None, given)[0])
    path = tmp_path / "net.onnx"
    onnx.save(model(call, expected.shape), path)
    net = weft.load(path)
    assert not call.has or call.has in {node.op for node in net.graph.nodes}
    found = np.asarray(net.reference(given)[0])
    assert found.dtype == expected.dtype
    assert np.abs(found.astype(np.float64) - expected.astype(np.float64)).max() <= call.steps
    np.testing.assert_array_equal(Session(path)(given)["y"], expected)


def test_other_ops_are_refused(tmp_path: Path) -> None:
    call = Call("QMoE", [f(1)], (0,))
    path = tmp_path / "net.onnx"
    onnx.save(model(call, ()), path)
    with pytest.raises(UserError) as error:
        weft.load(path)
    assert "ONNX has no op QMoE in com.microsoft 1" in str(error.value)
