"""Quantized ops of onnxruntime's operator set ``com.microsoft``, by ops of the ONNX standard.

Each node is a call of a function: dequantizers, the op in float, and a quantizer.  The rules of
``weft.rewrite.quantized`` make integers of these, as they do where a file has them in this form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from onnx import FunctionProto, NodeProto, TensorProto, helper

DOMAIN = "com.microsoft"
_OPSET = 21
_INDEX = TensorProto.INT64


class _Body:
    """The body of one call.

    Args:
        node: the call; inputs that are left out are absent.
    """

    def __init__(self, node: NodeProto) -> None:
        self.inputs = [f"in{place}" if name else "" for place, name in enumerate(node.input)]
        self.outputs = [f"out{place}" for place in range(len(node.output))]
        self.given: dict[str, Any] = {
            each.name: helper.get_attribute_value(each)  # pyright: ignore[reportUnknownMemberType]
            for each in node.attribute
            if not each.ref_attr_name
        }
        self.nodes: list[NodeProto] = []

    def taken(self, place: int) -> str:
        """An input's name; empty where it is absent."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def op(self, name: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Adds a node with one output; the value's name."""
        kept = list(inputs)
        while kept and not kept[-1]:
            kept.pop()
        made = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(name, kept, [made], **attributes))
        return made

    def numbers(self, place: int) -> str:
        """Three inputs, integers, scale and zero point, as numbers."""
        x, scale, zero = (self.taken(place + each) for each in range(3))
        return self.op("DequantizeLinear", x, scale, zero)

    def result(self, value: str, place: int) -> None:
        """Numbers as the output, by two inputs, scale and zero point."""
        scale, zero = self.taken(place), self.taken(place + 1)
        # Without a zero point the type of the output would be u8, whatever the inputs have.
        self.op("QuantizeLinear", value, scale, zero or self._none(scale), output=self.outputs[0])

    def _none(self, scale: str) -> str:
        zero = self.op("Sub", scale, scale)
        return self.op("CastLike", zero, self.inputs[0])

    def constant(self, *values: int) -> str:
        """A list of integers."""
        tensor = helper.make_tensor("value", _INDEX, [len(values)], values)
        return self.op("Constant", value=tensor)

    def chosen(self, *names: str) -> dict[str, Any]:
        """The attributes of these names that were given."""
        return {name: self.given[name] for name in names if name in self.given}

    def last(self, rank: int) -> bool:
        """Whether images have their channels last; notes their rank."""
        self.rank = rank
        return bool(self.given.get("channels_last"))

    def first(self, x: str, last: bool) -> str:
        """An image with its channels first."""
        order = [0, self.rank - 1, *range(1, self.rank - 1)]
        return self.op("Transpose", x, perm=order) if last else x

    def back(self, x: str, last: bool, output: str = "") -> str:
        """An image in the layout of the call."""
        order = [0, *range(2, self.rank), 1]
        return self.op("Transpose", x, perm=order, output=output) if last else x


def _pair(op: str) -> Callable[[_Body], None]:
    def write(body: _Body) -> None:
        body.result(body.op(op, body.numbers(0), body.numbers(3)), 6)

    return write


def _single(op: str, *attributes: str, **fixed: Any) -> Callable[[_Body], None]:
    def write(body: _Body) -> None:
        made = body.op(op, body.numbers(0), **{**fixed, **body.chosen(*attributes)})
        body.result(made, 3)

    return write


def _softmax(body: _Body) -> None:
    axis = body.given.get("axis", -1 if body.given.get("opset", 13) >= 13 else 1)
    x = body.numbers(0)
    if body.given.get("opset", 13) >= 13:
        body.result(body.op("Softmax", x, axis=axis), 3)
        return
    # Before opset 13 it is taken over all axes from the given one on.
    shape = body.op("Shape", x)
    flat = body.op("Softmax", body.op("Flatten", x, axis=axis), axis=1)
    body.result(body.op("Reshape", flat, shape), 3)


def _average_pool(body: _Body) -> None:
    last = body.last(len(body.given.get("kernel_shape", (0, 0))) + 2)
    names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
    made = body.op("AveragePool", body.first(body.numbers(0), last), **body.chosen(*names))
    body.result(body.back(made, last), 3)


def _global_pool(body: _Body) -> None:
    last = body.last(4)
    made = body.op("GlobalAveragePool", body.first(body.numbers(0), last))
    body.result(body.back(made, last), 3)


def _concat(body: _Body) -> None:
    parts = [body.numbers(place) for place in range(2, len(body.inputs), 3)]
    body.result(body.op("Concat", *parts, **body.chosen("axis")), 0)


def _where(body: _Body) -> None:
    body.result(body.op("Where", body.taken(0), body.numbers(1), body.numbers(4)), 7)


def _gemm(body: _Body) -> None:
    if not body.taken(7):
        _gemm_to_float(body)
        return
    names = ("alpha", "transA", "transB")
    axis = 0 if body.given.get("transB") else 1
    weights = body.op("DequantizeLinear", *(body.taken(each) for each in (3, 4, 5)), axis=axis)
    bias = ""
    if body.taken(6):
        scale = body.op("Mul", body.taken(1), body.taken(4))
        flat = body.op("Reshape", body.taken(6), body.constant(-1))
        bias = body.op("DequantizeLinear", flat, scale, axis=0)
    body.result(body.op("Gemm", body.numbers(0), weights, bias, **body.chosen(*names)), 7)


def _gemm_to_float(body: _Body) -> None:
    """Sums of products and the bias in integers, in steps of the scales' product."""
    flags = (body.given.get("transA"), body.given.get("transB"))
    factors = [
        body.op("Transpose", body.taken(place), perm=[1, 0]) if flag else body.taken(place)
        for place, flag in zip((0, 3), flags, strict=True)
    ]
    sums = body.op("MatMulInteger", *factors, body.taken(2), body.taken(5))
    if body.taken(6):
        sums = body.op("Add", sums, body.taken(6))
    scale = body.op("Mul", body.taken(1), body.taken(4))
    if body.given.get("alpha", 1.0) != 1:
        tensor = helper.make_tensor("value", TensorProto.FLOAT, [], [body.given["alpha"]])
        scale = body.op("Mul", scale, body.op("Constant", value=tensor))
    numbers = body.op("Cast", sums, to=TensorProto.FLOAT)
    body.op("Mul", numbers, scale, output=body.outputs[0])


def _conv(body: _Body) -> None:
    last = body.last(len(body.given.get("kernel_shape", (0, 0))) + 2)
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    rest = [body.taken(place) for place in range(1, 9)]
    output = "" if last else body.outputs[0]
    x = body.first(body.taken(0), last)
    made = body.op("QLinearConv", x, *rest, output=output, **body.chosen(*names))
    body.back(made, last, body.outputs[0])


def _to_float(
    body: _Body, factors: Sequence[str], scales: Sequence[str], zeros: Sequence[str], bias: str
) -> None:
    """A product of integers in steps of their scales, plus a bias in float."""
    made = body.op("MatMulInteger", *factors, *zeros)
    scale = body.op("Mul", *scales)
    numbers = body.op("Cast", made, to=TensorProto.FLOAT)
    output = "" if bias else body.outputs[0]
    product = body.op("Mul", numbers, scale, output=output)
    if bias:
        body.op("Add", product, bias, output=body.outputs[0])


def _integer_to_float(body: _Body) -> None:
    a, b, *scales = (body.taken(place) for place in range(4))
    _to_float(body, (a, b), scales, (body.taken(4), body.taken(5)), body.taken(6))


def _dynamic(body: _Body) -> None:
    names = ("dynamic", "dynamic_scale", "dynamic_zero")
    body.nodes.append(helper.make_node("DynamicQuantizeLinear", [body.taken(0)], names))
    whole, scale, zero = names
    weights, weight_scale, weight_zero, bias = (body.taken(place) for place in range(1, 5))
    _to_float(body, (whole, weights), (scale, weight_scale), (zero, weight_zero), bias)


_BODIES: Mapping[str, Callable[[_Body], None]] = MappingProxyType(
    {
        "DequantizeLinear": lambda body: _renamed(body, "DequantizeLinear"),
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
        "QuantizeLinear": lambda body: _renamed(body, "QuantizeLinear"),
    }
)
"""What writes the body of a call, by the op's name."""


def _renamed(body: _Body, name: str) -> None:
    """An op that the standard has since learnt to do."""
    body.op(name, *body.inputs, output=body.outputs[0], **body.chosen("axis"))


def function_of(node: NodeProto) -> FunctionProto | None:
    """What a node means, as a function of standard ops; nothing for ops that are not known."""
    write = _BODIES.get(node.op_type) if node.domain == DOMAIN else None
    if write is None:
        return None
    body = _Body(node)
    write(body)
    names = [name or f"absent{place}" for place, name in enumerate(body.inputs)]
    imports = [helper.make_opsetid("", _OPSET)]
    return helper.make_function(DOMAIN, node.op_type, names, body.outputs, body.nodes, imports)
