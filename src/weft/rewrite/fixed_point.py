"""What rules in fixed point share: factors of scales, bounds in steps, requantization."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.cast import CastAttributes
from weft.ops.quantization import is_single
from weft.ops.requantization import RequantizeAttributes, fixed_point
from weft.rewrite.dequantized import bounded, scale_of, target, zero_of, zeros_problem

LEFT_SHIFT = {DType.I8: 20, DType.U8: 20, DType.I16: 15}
"""By how much LiteRT shifts what it adds."""


def steps(value: float, scale: np.float32) -> float:
    """A number in steps of a scale, halves away from zero."""
    quotient = np.float32(value) / scale
    return float(np.copysign(np.floor(np.abs(np.float64(quotient)) + 0.5), quotient))


def requantized(
    match: Match, builder: GraphBuilder, value: str, factors: np.ndarray, axis: int = -1
) -> str:
    """Sums in steps of the output, and bounds of an activation.

    Args:
        match: the layer, whose output is ``y``.
        builder: gets the nodes.
        value: ``i32``.
        factors: what it is multiplied by, one or one for each position along an axis.
        axis: of several factors.
    """
    return scaled(match, builder, value, [fixed_point(float(each)) for each in factors], axis)


def scaled(
    match: Match,
    builder: GraphBuilder,
    value: str,
    found: list[tuple[int, int]],
    axis: int = -1,
    zero: int | None = None,
) -> str:
    """The same for multipliers and shifts, and maybe another zero point than the output's."""
    multipliers, shifts = (np.array([each[place] for each in found], np.int32) for place in (0, 1))
    added = zero_of(match, "yz") if zero is None else zero
    inputs = (
        builder.constant(multipliers, "multiplier"),
        builder.constant(shifts, "shift"),
        builder.constant(np.array(added, target(match).numpy), "zero_point"),
    )
    made = builder.op("Requantize", value, *inputs, attributes=RequantizeAttributes(axis))
    return bounded(match, builder, made, steps)


def not_fixed(match: Match, *names: str) -> str | None:
    """Why quantized tensors are not those of integer kernels."""
    types = {match.type(name).dtype for name in (*names, "y")}
    if len(types) > 1 or not types & LEFT_SHIFT.keys():
        return "it is not in 8 or 16 bits all through"
    for name in (*names, "y"):
        if not is_single(match.type(f"{name}s")):
            return "there are several scales"
        if match.type(f"{name}s").dtype is not DType.F32:
            return "a scale is not f32"
    given = match.attributes("y")
    if given.block_size or given.precision not in (None, DType.F32):
        return "the output is quantized in blocks or with another precision"
    return zeros_problem(match, *(f"{name}z" for name in (*names, "y")))


def centred(builder: GraphBuilder, value: str, zero: int) -> str:
    """Quantized values less their zero point, ``i32``."""
    whole = builder.op("Cast", value, attributes=CastAttributes(DType.I32))
    if not zero:
        return whole
    return builder.op("Sub", whole, builder.constant(np.array(zero, np.int32), "zero_point"))


def not_rescaled(match: Match) -> str | None:
    """Why a quantized value cannot be given another scale."""
    types = {match.type("x").dtype, target(match)}
    if not types <= LEFT_SHIFT.keys():
        return "it is not in 8 or 16 bits"
    if not (is_single(match.type("xs")) and is_single(match.type("ys"))):
        return "there are several scales"
    return zeros_problem(match, "xz", "yz")


def rescaled(match: Match, builder: GraphBuilder) -> str:
    """A quantized value in steps of another scale."""
    whole = centred(builder, match["x"], zero_of(match, "xz"))
    factor = np.float64(scale_of(match, "xs")) / np.float64(scale_of(match, "ys"))
    return requantized(match, builder, whole, np.array([factor]))
