"""Quantized ops of onnxruntime's operator set: dequantizers, the op in float, and a quantizer.

The rules of ``weft.rewrite.quantized`` make integers of these, as they do where a file has them in
this form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from onnx import TensorProto

from weft.frontends.onnx.microsoft.body import Body, Writer
from weft.ir.types import Dim


def _renamed(name: str) -> Writer:
    """An op that the standard has since learnt to do."""

    def write(body: Body) -> None:
        body.op(name, *body.inputs, output=body.outputs[0], **body.chosen("axis"))

    return write


def _pair(op: str) -> Writer:
    def write(body: Body) -> None:
        body.result(body.op(op, body.numbers(0), body.numbers(3)), 6)

    return write


def _single(op: str, *attributes: str, **fixed: Any) -> Writer:
    def write(body: Body) -> None:
        made = body.op(op, body.numbers(0), **{**fixed, **body.chosen(*attributes)})
        body.result(made, 3)

    return write


def _softmax(body: Body) -> None:
    axis = body.given.get("axis", -1 if body.given.get("opset", 13) >= 13 else 1)
    x = body.numbers(0)
    if body.given.get("opset", 13) >= 13:
        body.result(body.op("Softmax", x, axis=axis), 3)
        return
    # Before opset 13 it is taken over all axes from the given one on.
    shape = body.op("Shape", x)
    flat = body.op("Softmax", body.op("Flatten", x, axis=axis), axis=1)
    body.result(body.op("Reshape", flat, shape), 3)


def _average_pool(body: Body) -> None:
    last = body.last(len(body.given.get("kernel_shape", (0, 0))) + 2)
    names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
    made = body.op("AveragePool", body.first(body.numbers(0), last), **body.chosen(*names))
    body.result(body.back(made, last), 3)


def _global_pool(body: Body) -> None:
    last = body.last(4)
    made = body.op("GlobalAveragePool", body.first(body.numbers(0), last))
    body.result(body.back(made, last), 3)


def _concat(body: Body) -> None:
    parts = [body.numbers(place) for place in range(2, len(body.inputs), 3)]
    body.result(body.op("Concat", *parts, **body.chosen("axis")), 0)


def _where(body: Body) -> None:
    body.result(body.op("Where", body.taken(0), body.numbers(1), body.numbers(4)), 7)


def _gemm(body: Body) -> None:
    if not body.taken(7):
        _gemm_to_float(body)
        return
    names = ("alpha", "transA", "transB")
    axis = 0 if body.given.get("transB") else 1
    weights = body.op("DequantizeLinear", *(body.taken(each) for each in (3, 4, 5)), axis=axis)
    bias = _bias_of_gemm(body, body.shape(3)[axis]) if body.taken(6) else ""
    body.result(body.op("Gemm", body.numbers(0), weights, bias, **body.chosen(*names)), 7)


def _bias_of_gemm(body: Body, columns: Dim) -> str:
    """The bias in float, dequantized where there is one number for each column."""
    *rows, last = body.shape(6) or (1,)
    if last == columns and all(row == 1 for row in rows):
        flat = body.op("Reshape", body.taken(6), body.constant(-1))
        return body.op("DequantizeLinear", flat, _scale_of_sums(body), axis=0)
    numbers = body.op("Cast", body.taken(6), to=TensorProto.FLOAT)
    return body.op("Mul", numbers, _scale_of_sums(body))


def _scale_of_sums(body: Body) -> str:
    """What a step of the sums and of the bias stands for; ``alpha`` belongs to both."""
    scale = body.op("Mul", body.taken(1), body.taken(4))
    alpha = body.given.get("alpha", 1.0)
    return scale if alpha == 1 else body.op("Mul", scale, body.scalar(alpha))


def _gemm_to_float(body: Body) -> None:
    """Sums of products and the bias in integers, in steps of the scales' product."""
    flags = (body.given.get("transA"), body.given.get("transB"))
    factors = [
        body.op("Transpose", body.taken(place), perm=[1, 0]) if flag else body.taken(place)
        for place, flag in zip((0, 3), flags, strict=True)
    ]
    sums = body.op("MatMulInteger", *factors, body.taken(2), body.taken(5))
    if body.taken(6):
        sums = body.op("Add", sums, body.taken(6))
    numbers = body.op("Cast", sums, to=TensorProto.FLOAT)
    body.op("Mul", numbers, _scale_of_sums(body), output=body.outputs[0])


def _conv(body: Body) -> None:
    last = body.last(len(body.given.get("kernel_shape", (0, 0))) + 2)
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    rest = [body.taken(place) for place in range(1, 9)]
    output = "" if last else body.outputs[0]
    x = body.first(body.taken(0), last)
    made = body.op("QLinearConv", x, *rest, output=output, **body.chosen(*names))
    body.back(made, last, body.outputs[0])


def _to_float(
    body: Body, factors: Sequence[str], scales: Sequence[str], zeros: Sequence[str], bias: str
) -> None:
    """A product of integers in steps of their scales, plus a bias in float."""
    made = body.op("MatMulInteger", *factors, *zeros)
    scale = body.op("Mul", *scales)
    numbers = body.op("Cast", made, to=TensorProto.FLOAT)
    output = "" if bias else body.outputs[0]
    product = body.op("Mul", numbers, scale, output=output)
    if bias:
        body.op("Add", product, bias, output=body.outputs[0])


def _integer_to_float(body: Body) -> None:
    a, b, *scales = (body.taken(place) for place in range(4))
    _to_float(body, (a, b), scales, (body.taken(4), body.taken(5)), body.taken(6))


def _dynamic(body: Body) -> None:
    names = ("dynamic", "dynamic_scale", "dynamic_zero")
    body.node("DynamicQuantizeLinear", [body.taken(0)], names)
    whole, scale, zero = names
    weights, weight_scale, weight_zero, bias = (body.taken(place) for place in range(1, 5))
    _to_float(body, (whole, weights), (scale, weight_scale), (zero, weight_zero), bias)


QUANTIZED: Mapping[str, Writer] = MappingProxyType(
    {
        "DequantizeLinear": _renamed("DequantizeLinear"),
        "DynamicQuantizeMatMul": _dynamic,
        "MatMulIntegerToFloat": _integer_to_float,
        "QGemm": _gemm,
        "QLinearAdd": _pair("Add"),
        "QLinearAveragePool": _average_pool,
        "QLinearConcat": _concat,
        "QLinearConv": _conv,
        "QLinearGlobalAveragePool": _global_pool,
        "QLinearLeakyRelu": _single("LeakyRelu", "alpha"),
        "QLinearMul": _pair("Mul"),
        "QLinearSigmoid": _single("Sigmoid"),
        "QLinearSoftmax": _softmax,
        "QLinearWhere": _where,
        "QuantizeLinear": _renamed("QuantizeLinear"),
    }
)
"""The function that writes the body of a call, by op name."""
