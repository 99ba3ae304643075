"""Quantized layers of ``i16`` in fixed point, with the bits of LiteRT's reference kernels.

Sums have the type of the bias.  Those of ``i64`` are requantized by multipliers of 15 bits; they
are taken in ``i32`` where the weights show that they fit.
"""

from __future__ import annotations

from collections.abc import Callable
from math import frexp
from typing import Any, TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.cast import CastAttributes
from weft.ops.convolution import ConvAttributes
from weft.ops.evaluate import call_of
from weft.ops.integer16 import (
    SLOPES,
    ConvInteger16Attributes,
    FixedPointSigmoidAttributes,
    FixedPointSoftmax16Attributes,
    QuantizedSqrtAttributes,
    sigmoid_table,
)
from weft.ops.requantization import RequantizeAttributes, fixed_point, narrow_multiplier
from weft.ops.table import OPS
from weft.rewrite.dequantized import (
    DATA,
    REST,
    bias_maker,
    bounded,
    scale_of,
    target,
    zero_of,
)
from weft.rewrite.fixed_point import centred, not_fixed, requantized, steps
from weft.rewrite.rule import Exactness, Rule

Number: TypeAlias = float | np.floating[Any]
_LEAST = -(1 << 15)
_MOST_SUM = 1 << 31
_STEPS = 65535
UNITS = (_STEPS + 1) / (2.0 / _STEPS * _STEPS)
"""What entries of a softmax's tables count 1 as."""


def is_int16(match: Match) -> bool:
    """Whether the data is ``i16``."""
    return match.type("x").dtype is DType.I16


# --- sums of products ---------------------------------------------------------------------------


def _bias(match: Match) -> np.ndarray | None:
    """The integers that are added to the products."""
    maker = bias_maker(match)
    return None if maker is None else match.view.constants[maker.inputs[0]]


def _sums_type(weights: np.ndarray, bias: np.ndarray | None) -> DType:
    """The type of sums that LiteRT's are congruent to; weights have their outputs first."""
    if bias is None or bias.dtype == np.int32:
        return DType.I32
    largest = np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(1) * -_LEAST
    fits = (largest + np.abs(bias)).max(initial=0) < _MOST_SUM
    return DType.I32 if fits else DType.I64


def int16_conv(
    match: Match,
    builder: GraphBuilder,
    x: str,
    w: str,
    attributes: ConvAttributes,
    factors: np.ndarray,
    *,
    last: bool | None = None,
) -> str:
    """A convolution.

    Args:
        match: the layer, whose node is ``c``.
        builder: gets the nodes.
        x: the data.
        w: constant weights.
        attributes: of the convolution.
        factors: what sums are multiplied by, one or one for each channel.
        last: whether channels are last; as the layer's op says by default.
    """
    layer = match.node("c")
    last = layer.op.endswith("ChannelsLast") if last is None else last
    a, bias = attributes, _bias(match)
    weights = builder.constants[w] if w in builder.constants else match.array("w")
    dtype = _sums_type(weights, bias)
    made = builder.op(
        "ConvInteger16" + "ChannelsLast" * last,
        x,
        w,
        attributes=ConvInteger16Attributes(
            a.kernel, a.strides, a.dilations, a.pads, a.groups, dtype
        ),
        name=f"{layer.name}_sums",
        output=f"{layer.outputs[0]}_sums",
    )
    if bias is not None:
        added = bias.astype(dtype.numpy)
        spread = added if last else added.reshape(-1, *(1,) * (len(builder.types[made].shape) - 2))
        made = builder.op(
            "Add", made, builder.constant(spread, "bias"), name=f"{layer.name}_biased"
        )
    axis = -1 if last else 1
    if bias is None or bias.dtype == np.int32:
        return requantized(match, builder, made, factors, axis)
    return _requantized_wide(match, builder, made, factors, axis)


def _requantized_wide(
    match: Match, builder: GraphBuilder, value: str, factors: np.ndarray, axis: int = -1
) -> str:
    found = [narrow_multiplier(*fixed_point(float(each))) for each in factors]
    multipliers, shifts = (np.array([each[place] for each in found], np.int32) for place in (0, 1))
    inputs = (
        builder.constant(multipliers, "multiplier"),
        builder.constant(shifts, "shift"),
        builder.constant(np.array(0, target(match).numpy), "zero_point"),
    )
    made = builder.op("RequantizeWide", value, *inputs, attributes=RequantizeAttributes(axis))
    return bounded(match, builder, made, steps)


def int16_transposed(match: Match, builder: GraphBuilder, factors: np.ndarray) -> str:
    """A transposed convolution; its sums are of ``i64`` but for a bias of ``i32``."""
    layer, bias = match.node("c"), _bias(match)
    axis = -1 if layer.op.endswith("ChannelsLast") else 1
    dtype, scaled = DType.I64, _requantized_wide
    if bias is not None and bias.dtype == np.int32:
        dtype, scaled = DType.I32, requantized
    whole = CastAttributes(dtype)
    x, w = (builder.op("Cast", match[name], attributes=whole) for name in ("x", "w"))
    rest = () if bias is None else (builder.constant(bias, "bias"),)
    sums = builder.op(layer.op, x, w, *rest, attributes=layer.attributes)
    return scaled(match, builder, sums, factors, axis)


def int16_product(match: Match, builder: GraphBuilder, factor: float) -> str:
    """A product of matrices that are no weights; its sums are always of ``i64``."""
    wide = CastAttributes(DType.I64)
    factors = (builder.op("Cast", match[name], attributes=wide) for name in ("x", "b"))
    return _requantized_wide(match, builder, builder.op("MatMul", *factors), np.array([factor]))


# --- tables -------------------------------------------------------------------------------------


def slopes(
    low: Number, high: Number, function: Callable[[np.ndarray], np.ndarray], steps: Number
) -> np.ndarray:
    """A table for interpolation; entries are off by half of what the middles between them are.

    It is computed in the type of its bounds, ``f32`` or ``f64``.

    Args:
        low: the number that the smallest ``i16`` stands for.
        high: that of the largest.
        function: of numbers.
        steps: what entries count one of the function's numbers as.
    """
    kind = np.result_type(low)
    places = np.arange(SLOPES - 1).astype(kind)

    def rounded(values: np.ndarray) -> np.ndarray:
        return np.copysign(np.floor(np.abs(values) + kind.type(0.5)), values)

    step = (kind.type(high) - kind.type(low)) / kind.type(SLOPES - 1)
    here, middle, next = (
        function(at).astype(kind) * kind.type(steps)
        for at in (low + places * step, low + places * step + step / 2, low + (places + 1) * step)
    )
    off = rounded((next + rounded(here)) / 2) - rounded(middle)
    last = rounded(function(np.array([high], kind)).astype(kind) * kind.type(steps))
    table = np.concatenate([rounded(here) - rounded(off / 2), last])
    return np.clip(table, _LEAST, -_LEAST - 1).astype(np.int16)


def _logarithm(match: Match, x: np.ndarray) -> np.ndarray:
    """The least number of the output where there is none."""
    least = scale_of(match, "ys") * np.float32(_LEAST)
    return np.where(x > 0, np.log(np.where(x > 0, x, 1)), least)


def _reciprocal_root(match: Match, x: np.ndarray) -> np.ndarray:
    """The largest number of the output where there is none."""
    most = scale_of(match, "ys") * np.float32(-_LEAST - 1)
    return np.where(x > 0, 1 / np.sqrt(np.where(x > 0, x, 1)), most)


def _gelu(match: Match, x: np.ndarray) -> np.ndarray:
    node = match.node("u")
    call = call_of(node, {node.inputs[0]: TensorType(DType.F64, x.shape)})
    return np.asarray(OPS["Gelu"].reference(call, x)[0])


_TABLES: dict[str, Callable[[Match, np.ndarray], np.ndarray]] = {
    "Exp": lambda match, x: np.exp(x),
    "Log": _logarithm,
    "Gelu": _gelu,
    "Reciprocal": _reciprocal_root,
}


def _interpolated(match: Match, builder: GraphBuilder) -> str:
    xs, ys = scale_of(match, "xs"), scale_of(match, "ys")
    of_numbers = _TABLES[match.node("u").op]

    def function(x: np.ndarray) -> np.ndarray:
        # As exact as the functions of C's library are in f32.
        with np.errstate(all="ignore"):
            return of_numbers(match, x.astype(np.float64))

    low, high = (np.float32(each) for each in (_LEAST, -_LEAST - 1))
    table = slopes(xs * low, xs * high, function, np.float32(_STEPS + 1) / (ys * high - ys * low))
    return builder.op("Interpolate16", match["x"], builder.constant(table, "table"))


# --- functions ----------------------------------------------------------------------------------


def _not_half(match: Match) -> str | None:
    if not is_int16(match):
        return "it is not in 16 bits"
    if problem := not_fixed(match, "x"):
        return problem
    if zero_of(match, "xz") or zero_of(match, "yz"):
        return "a zero point is not 0"
    return None


def _not_whole(match: Match) -> str | None:
    """Why outputs do not count 1/32768."""
    if problem := _not_half(match):
        return problem
    return None if scale_of(match, "ys") == 1 / 32768 else "its output's steps are not 1/32768"


def _not_sigmoid(match: Match) -> str | None:
    if problem := _not_whole(match):
        return problem
    multiplier, shift = _sigmoid_factor(scale_of(match, "xs"))
    return None if 0 < multiplier < 1 << 15 and shift < 31 else "its input's steps are too large"


def _sigmoid_factor(scale: np.float32) -> tuple[int, int]:
    """What brings the input to steps of 1/12288: a multiplier and a shift to the right.

    Powers of two have a factor of 3; others one of 15 bits, cut off.
    """
    fraction, exponent = frexp(float(scale))
    left = 12 + exponent - 1
    if fraction == 0.5 and left in (0, 1):
        return 3 << left, 0
    multiplier, shift = float(scale) * 4096 * 3, 0
    while multiplier <= 32767 / 2 and shift <= 30:
        multiplier, shift = multiplier * 2, shift + 1
    return int(multiplier), shift


def _sigmoid(match: Match, builder: GraphBuilder) -> str:
    multiplier, shift = _sigmoid_factor(scale_of(match, "xs"))
    table = builder.constant(sigmoid_table(), "logistic")
    attributes = FixedPointSigmoidAttributes(multiplier, shift, int(match.node("u").op == "Tanh"))
    return builder.op("FixedPointSigmoid", match["x"], table, attributes=attributes)


def _leaky(match: Match, builder: GraphBuilder) -> str:
    x, xs, ys = centred(builder, match["x"], 0), scale_of(match, "xs"), scale_of(match, "ys")
    alpha = np.float32(match.attributes("u").alpha)
    positive = builder.op("GreaterOrEqual", x, builder.constant(np.array(0, np.int32), "zero"))
    kept = requantized(match, builder, x, np.array([xs / ys]))
    bent = requantized(match, builder, x, np.array([xs * alpha / ys]))
    return builder.op("Where", positive, kept, bent)


def _root(match: Match, builder: GraphBuilder) -> str:
    attributes = QuantizedSqrtAttributes(*(float(scale_of(match, each)) for each in ("xs", "ys")))
    return builder.op("QuantizedSqrt", match["x"], attributes=attributes)


def _absolute(match: Match, builder: GraphBuilder) -> str:
    x = builder.op("Abs", centred(builder, match["x"], 0))
    factor = np.float64(scale_of(match, "xs")) / np.float64(scale_of(match, "ys"))
    return requantized(match, builder, x, np.array([factor]))


# --- softmax ------------------------------------------------------------------------------------


def not_int16_softmax(match: Match) -> str | None:
    """Why a softmax of ``i16`` is not one of integers."""
    if match.has("beta") and match.array("beta").size != 1:
        return "its input is scaled by several numbers"
    return _not_whole(match)


def int16_softmax(match: Match, builder: GraphBuilder) -> str:
    """A softmax; differences from the largest count 10 / 65535."""
    scale = float(scale_of(match, "xs"))
    if match.has("beta"):
        scale *= float(match.array("beta").item())
    multiplier, shift = fixed_point(scale / (10.0 / _STEPS))
    tables = (
        builder.constant(slopes(10.0 / _STEPS * -_STEPS, 0.0, np.exp, UNITS), "powers"),
        builder.constant(slopes(0.0, 1.0, lambda value: 1 / (1 + value), UNITS), "shares"),
    )
    attributes = FixedPointSoftmax16Attributes(match.attributes("s").axis, multiplier, shift)
    return builder.op("FixedPointSoftmax16", match["x"], *tables, attributes=attributes)


_FUNCTIONS = {
    "Sigmoid": (_not_sigmoid, _sigmoid),
    "Tanh": (_not_sigmoid, _sigmoid),
    "LeakyRelu": (_not_half, _leaky),
    "Abs": (_not_half, _absolute),
    "Sqrt": (_not_half, _root),
    **dict.fromkeys(_TABLES, (_not_half, _interpolated)),
}
_EITHER = " | ".join(
    f"Reciprocal(Sqrt({DATA}) [users=1]) [users=1]"
    if name == "Reciprocal"
    else f"{name}({DATA}) [users=1]"
    for name in _FUNCTIONS
)

RULES: tuple[Rule, ...] = (
    Rule(
        name="fixed-point-function-16",
        before=f"u = {_EITHER}\ny = QuantizeLinear(u, {REST})",
        where=lambda match: _FUNCTIONS[match.node("u").op][0](match),
        after=lambda match, builder: _FUNCTIONS[match.node("u").op][1](match, builder),
        exactness=Exactness.APPROXIMATE,
        doc="The logistic function and tanh between DequantizeLinear and QuantizeLinear of i16 "
        "interpolate in a table of 256 entries, Exp, Log, Gelu and reciprocal square roots in one "
        "of 513; LeakyRelu and Abs are Requantize, fractions of square roots are cut off. Scales "
        "are those that LiteRT takes.",
    ),
)
