"""Layers between DequantizeLinear and QuantizeLinear as layers of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Node
from weft.ir.types import TensorType
from weft.match.view import Match
from weft.ops.arithmetic import ClipAttributes
from weft.ops.build import GraphBuilder
from weft.ops.convolution import ConvAttributes
from weft.ops.quantization import QuantizeAttributes, is_single
from weft.ops.shape import ReshapeAttributes
from weft.rewrite.cleanups import by_rules
from weft.rewrite.recipe import Recipe
from weft.rewrite.rule import Exactness, Rule

BYTES = (DType.I8, DType.U8)
BIAS_TOLERANCE = 1e-5
"""How far the scale of a bias may be from that of the products, relative: it is theirs, rounded."""

_DATA = "DequantizeLinear(x, const xs, xz?)"
_WEIGHTS = "DequantizeLinear(const w, const ws, wz?)"
_REST = "const ys, yz?"


# --- what stands in the way -------------------------------------------------------------------


def _not_conv(match: Match) -> str | None:
    return _problem(match, 0)


def _not_product(match: Match) -> str | None:
    product = match.node("c")
    if len(match.type("w").shape) != 2:
        return "the weights are no matrix"
    if not match.type("c").is_static or len(match.type("c").shape) < 2:
        return "the size of the product is not known"
    if product.op == "MatMul":
        return _problem(match, 1)
    given = product.attributes
    if given.transA or (given.alpha, given.beta) != (1, 1):
        return "the product is scaled or transposed"
    return _problem(match, 0 if given.transB else 1)


def _problem(match: Match, axis: int) -> str | None:
    """Why a layer, whose weights have their outputs along an axis, is not one of integers."""
    if match.type("x").dtype not in BYTES or match.type("w").dtype not in BYTES:
        return "it is not in 8 bits"
    quantize = match.attributes("y")
    if _target(match) not in BYTES:
        return "its output is not in 8 bits"
    if not (is_single(match.type("xs")) and is_single(match.type("ys"))):
        return "an activation has several scales"
    if quantize.block_size or quantize.precision not in (None, match.type("ys").dtype):
        return "the output is quantized in blocks or with another precision"
    scales = match.type("ws")
    maker = match.view.producers[match.node("c").inputs[1]]
    if not is_single(scales):
        given = maker.attributes
        if given.block_size or len(scales.shape) != 1:
            return "the weights are quantized in blocks"
        if given.axis % len(match.type("w").shape) != axis:
            return "the weights' scales are not one for each output"
    if any(match.type(name).dtype is not DType.F32 for name in ("xs", "ws", "ys")):
        return "a scale is not f32"
    return _zeros_problem(match, "xz", "wz", "yz") or _bias_problem(match)


def _zeros_problem(match: Match, *names: str) -> str | None:
    given = (name for name in names if match.has(name))
    return next(("a zero point is no constant" for z in given if match.constant(z) is None), None)


def _target(match: Match) -> DType:
    """The type of the quantized output."""
    return match.type("y").dtype


def _bias(match: Match) -> str:
    """The value that is added to the products; empty for none."""
    if match.has("k"):
        return match["k"]
    layer = match.node("c")
    return layer.inputs[2] if len(layer.inputs) > 2 else ""


def _bias_maker(match: Match) -> Node | None:
    return match.view.producers.get(_bias(match))


def _bias_problem(match: Match) -> str | None:
    if not _bias(match):
        return None
    if match.has("k") and len(match.node("c").inputs) > 2 and match.node("c").inputs[2]:
        return "two numbers are added"
    maker = _bias_maker(match)
    if maker is None or maker.op != "DequantizeLinear":
        return "the bias is not quantized"
    whole, scale, *zero = maker.inputs
    constants = match.view.constants
    if whole not in constants or scale not in constants:
        return "the bias is no constant"
    if constants[whole].dtype != np.int32 or constants[whole].ndim != 1:
        return "the bias is not one i32 for each output"
    if any(name and constants.get(name, np.ones(1)).any() for name in zero):
        return "the bias has a zero point"
    products = match.array("xs").reshape(-1) * match.array("ws").reshape(-1)
    if not np.allclose(constants[scale].reshape(-1), products, rtol=BIAS_TOLERANCE, atol=0):
        return "the bias has a scale of its own"
    return None


# --- the layers -------------------------------------------------------------------------------


def _zero(match: Match, builder: GraphBuilder, name: str, type: TensorType, of: DType) -> str:
    """A zero point, 0 where none is given."""
    if match.has(name):
        return match[name]
    return builder.constant(np.zeros(type.dims, of.numpy), f"{name}_zero_point")


def _quantized_inputs(match: Match, builder: GraphBuilder, x: str, w: str) -> list[str]:
    """The inputs of a QLinearConv."""
    data, weight, output = (match.type(name) for name in ("x", "w", "ys"))
    inputs = [
        *(x, match["xs"], _zero(match, builder, "xz", match.type("xs"), data.dtype)),
        *(w, match["ws"], _zero(match, builder, "wz", match.type("ws"), weight.dtype)),
        *(match["ys"], _zero(match, builder, "yz", output, _target(match))),
    ]
    maker = _bias_maker(match)
    return [*inputs, maker.inputs[0]] if maker is not None else inputs


def _conv(match: Match, builder: GraphBuilder) -> str:
    inputs = _quantized_inputs(match, builder, match["x"], match["w"])
    layer = match.node("c")
    made = builder.op(f"QLinear{layer.op}", *inputs, attributes=layer.attributes)
    return _bounded(match, builder, made)


def _product(match: Match, builder: GraphBuilder) -> str:
    """A product of rows with a matrix: a convolution of images of one pixel."""
    weights, dims = match.array("w"), match.type("c").dims
    layer = match.node("c")
    if layer.op == "MatMul" or not layer.attributes.transB:
        weights = weights.T
    columns, depth = weights.shape
    pixels = ReshapeAttributes((-1, depth, 1, 1))
    image = builder.op("Reshape", match["x"], attributes=pixels)
    kernel = np.ascontiguousarray(weights.reshape(columns, depth, 1, 1))
    inputs = _quantized_inputs(match, builder, image, builder.constant(kernel, match["w"]))
    made = builder.op("QLinearConv", *inputs, attributes=ConvAttributes())
    rows = builder.op("Reshape", made, attributes=ReshapeAttributes((*dims[:-1], columns)))
    return _bounded(match, builder, rows)


def _bounded(match: Match, builder: GraphBuilder, value: str) -> str:
    """What an activation leaves of quantized outputs; where saturation does as much, nothing."""
    if "r" not in match.named:
        return value
    found = match.node("r")
    ends = (0.0, None) if found.op == "Relu" else (found.attributes.min, found.attributes.max)
    limits = _target(match).limits
    scale = np.float32(match.array("ys").item())
    zero = int(match.array("yz").item()) if match.has("yz") else 0
    low, high = (
        limit if end is None else _step(end, scale, zero, limits)
        for end, limit in zip(ends, limits, strict=True)
    )
    if (low, high) == limits:
        return value
    return builder.op("Clip", value, attributes=ClipAttributes(low, high))


def _step(value: float, scale: np.float32, zero: int, limits: tuple[Any, Any]) -> int:
    """A number quantized: rounding never changes the order, so bounds may be rounded, too."""
    whole = np.rint(np.float32(value) / scale) + zero
    return int(np.clip(whole, *limits))


# --- what moves elements ----------------------------------------------------------------------


def _other_scale(match: Match) -> str | None:
    given = match.attributes("y")
    if not isinstance(given, QuantizeAttributes) or match.type("x").dtype is not _target(match):
        return "it is quantized to another type"
    if not (is_single(match.type("xs")) and is_single(match.type("ys"))):
        return "there are several scales"
    if match.array("xs").reshape(()) != match.array("ys").reshape(()):
        return "it is quantized by another scale"
    if problem := _zeros_problem(match, "xz", "yz"):
        return problem
    zeros = [int(match.array(z).item()) if match.has(z) else 0 for z in ("xz", "yz")]
    return None if zeros[0] == zeros[1] else "it is quantized to another zero point"


def _moved(match: Match, builder: GraphBuilder) -> str:
    mover = match.node("v")
    return builder.op(mover.op, match["x"], *mover.inputs[1:], attributes=mover.attributes)


_ACTIVATION = "(r: Relu | r: Clip)?"
_DOC = (
    " between DequantizeLinear and QuantizeLinear is one layer of integers, the sum requantized by "
    "the product of the scales (ONNX's QLinearConv); an activation is its saturation, or bounds in "
    "steps. The bias must be i32 of the products' scale."
)

RULES: tuple[Rule, ...] = (
    Rule(
        name="quantized-conv",
        before=f"""
            c = Conv({_DATA}, {_WEIGHTS}, _?) [users=1]
              | ConvChannelsLast({_DATA}, {_WEIGHTS}, _?) [users=1]
            y = QuantizeLinear(c -> {_ACTIVATION}, {_REST})
        """,
        where=_not_conv,
        after=_conv,
        exactness=Exactness.APPROXIMATE,
        doc=f"A convolution{_DOC}",
    ),
    Rule(
        name="quantized-matmul",
        before=f"""
            c = MatMul({_DATA}, {_WEIGHTS}) [users=1] | Gemm({_DATA}, {_WEIGHTS}, _?) [users=1]
            y = QuantizeLinear(c -> {_ACTIVATION}, {_REST})
        """,
        where=_not_product,
        after=_product,
        exactness=Exactness.APPROXIMATE,
        doc=f"A matrix product{_DOC}",
    ),
    Rule(
        name="quantized-matmul-add",
        before=f"""
            c = MatMul({_DATA}, {_WEIGHTS}) [users=1]
            a = Add{{c, k}} [users=1]
            y = QuantizeLinear(a -> {_ACTIVATION}, {_REST})
        """,
        where=_not_product,
        after=_product,
        exactness=Exactness.APPROXIMATE,
        doc=f"A matrix product plus a bias{_DOC}",
    ),
    Rule(
        name="quantized-move",
        before=f"""
            v = Reshape(d) [users=1] | Flatten(d) [users=1] | Transpose(d) [users=1]
              | Squeeze(d) [users=1] | Unsqueeze(d) [users=1] | Slice(d) [users=1]
              | MaxPool(d) [users=1] | MaxPoolChannelsLast(d) [users=1]
            d = {_DATA}
            y = QuantizeLinear(v, {_REST})
        """,
        where=_other_scale,
        after=_moved,
        exactness=Exactness.BIT_EXACT,
        doc="What only moves elements, or takes the largest, between DequantizeLinear and "
        "QuantizeLinear of the same scale does so to the integers.",
    ),
    Rule(
        name="requantize-nothing",
        before=f"y = QuantizeLinear({_DATA}, {_REST})",
        where=_other_scale,
        after=lambda match, _: match["x"],
        exactness=Exactness.BIT_EXACT,
        doc="QuantizeLinear after DequantizeLinear of the same scale gives the integers again.",
    ),
)

RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "integers",
        "Convolutions and matrix products between DequantizeLinear and QuantizeLinear become "
        "layers of integers (QLinearConv), as do ops that only move elements. Sums of products "
        "are then exact, and what is rounded is their product with one scale, so outputs may "
        "differ from those of the graph in floats by a step. All else stays in floats.",
        Exactness.APPROXIMATE,
        by_rules(RULES),
    ),
)
