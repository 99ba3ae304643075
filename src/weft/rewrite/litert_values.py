"""Products and means of quantized values, with the bits of LiteRT's reference kernels."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import call_of
from weft.ops.reduction import ReduceAttributes
from weft.ops.requantization import fixed_point
from weft.ops.support import axes_of
from weft.rewrite.dequantized import ACTIVATION, BYTES, DATA, REST, scale_of, target, zero_of
from weft.rewrite.fixed_point import centred, not_fixed, requantized, scaled
from weft.rewrite.litert_int16 import int16_product, is_int16
from weft.rewrite.rule import Exactness, Rule

OTHER = "DequantizeLinear(b, const bs, bz?)"
_MOST_SHIFT = 32


# --- products -----------------------------------------------------------------------------------


def _not_product(match: Match) -> str | None:
    return not_fixed(match, "x", "b")


def _product(match: Match, builder: GraphBuilder) -> str:
    factors = [centred(builder, match[name], zero_of(match, f"{name}z")) for name in ("x", "b")]
    a, b, y = (scale_of(match, name) for name in ("xs", "bs", "ys"))
    # In f32, as LiteRT has it.
    factor = np.array([a * b / y])
    return requantized(match, builder, builder.op("Mul", *factors), factor)


def _not_matrices(match: Match) -> str | None:
    return not_fixed(match, "x", "b")


def _of_matrices(match: Match, builder: GraphBuilder) -> str:
    a, b, y = (scale_of(match, name) for name in ("xs", "bs", "ys"))
    factor = float(a * b) / float(y)
    if is_int16(match):
        return int16_product(match, builder, factor)
    zeros = [match[name] if match.has(name) else "" for name in ("xz", "bz")]
    while zeros and not zeros[-1]:
        zeros.pop()
    sums = builder.op("MatMulInteger", match["x"], match["b"], *zeros)
    return requantized(match, builder, sums, np.array([factor]))


# --- means --------------------------------------------------------------------------------------


def _axes(match: Match) -> tuple[int, ...]:
    node, rank = match.node("m"), len(match.type("x").shape)
    if node.op == "GlobalAveragePool":
        return tuple(range(2, rank))
    if node.op == "GlobalAveragePoolChannelsLast":
        return tuple(range(1, rank - 1))
    return axes_of(call_of(node, match.view.types), node.attributes.axes, rank)


def _not_mean(match: Match) -> str | None:
    if not match.type("x").is_static:
        return "it is not known how many values are added"
    if getattr(match.attributes("m"), "noop_with_empty_axes", 0):
        return "which axes are reduced depends on whether any are named"
    return not_fixed(match, "x")


def _mean(match: Match, builder: GraphBuilder) -> str:
    node, axes = match.node("m"), _axes(match)
    keep = getattr(node.attributes, "keepdims", 1)
    whole = centred(builder, match["x"], zero_of(match, "xz"))
    sums = builder.op("ReduceSum", whole, attributes=ReduceAttributes(axes, keepdims=keep))
    multiplier, shift = fixed_point(float(scale_of(match, "xs")) / float(scale_of(match, "ys")))
    count = prod(match.type("x").dims[axis] for axis in axes)
    more = min(count.bit_length() - 1, _MOST_SHIFT, 31 + shift)
    return scaled(match, builder, sums, [((multiplier << more) // count, shift - more)])


# --- PRelu --------------------------------------------------------------------------------------


def _not_prelu(match: Match) -> str | None:
    return not_fixed(match, "x", "b") or (None if target(match) in BYTES else "it is not in 8 bits")


def _prelu(match: Match, builder: GraphBuilder) -> str:
    x, slope = (centred(builder, match[name], zero_of(match, f"{name}z")) for name in ("x", "b"))
    xs, bs, ys = (scale_of(match, name) for name in ("xs", "bs", "ys"))
    positive = builder.op("GreaterOrEqual", x, builder.constant(np.array(0, np.int32), "zero"))
    kept = requantized(match, builder, x, np.array([xs / ys]))
    bent = requantized(match, builder, builder.op("Mul", x, slope), np.array([xs * bs / ys]))
    return builder.op("Where", positive, kept, bent)


RULES: tuple[Rule, ...] = (
    Rule(
        name="fixed-point-mul",
        before=f"""
            a = Mul({DATA}, {OTHER}) [users=1]
            y = QuantizeLinear(a -> {ACTIVATION}, {REST})
        """,
        where=_not_product,
        after=_product,
        exactness=Exactness.APPROXIMATE,
        doc="The product of two quantized tensors, quantized, is a product of integers and "
        "Requantize.",
    ),
    Rule(
        name="fixed-point-matrices",
        before=f"""
            c = MatMul({DATA}, {OTHER}) [users=1]
            y = QuantizeLinear(c -> {ACTIVATION}, {REST})
        """,
        where=_not_matrices,
        after=_of_matrices,
        exactness=Exactness.APPROXIMATE,
        doc="The product of quantized matrices that are no weights is MatMulInteger and "
        "Requantize.",
    ),
    Rule(
        name="fixed-point-mean",
        before=f"""
            m = ReduceMean({DATA}) [users=1] | GlobalAveragePool({DATA}) [users=1]
              | GlobalAveragePoolChannelsLast({DATA}) [users=1]
            y = QuantizeLinear(m -> {ACTIVATION}, {REST})
        """,
        where=_not_mean,
        after=_mean,
        exactness=Exactness.APPROXIMATE,
        doc="A mean between DequantizeLinear and QuantizeLinear is a sum of integers and "
        "Requantize, whose multiplier holds the count.",
    ),
    Rule(
        name="fixed-point-prelu",
        before=f"a = PRelu({DATA}, {OTHER}) [users=1]\ny = QuantizeLinear(a, {REST})",
        where=_not_prelu,
        after=_prelu,
        exactness=Exactness.APPROXIMATE,
        doc="PRelu of quantized tensors scales what is below zero by another Requantize.",
    ),
)
