"""Bilinear resizing of quantized images, with the bits of LiteRT's reference kernel.

It counts the places of pixels in steps of 1/1024 and interpolates the integers, first between rows
and then between columns; all sums of bytes fit 32 bits.
"""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.cast import CastAttributes
from weft.ops.indexing import GatherAttributes
from weft.rewrite.dequantized import DATA, REST, other_scale
from weft.rewrite.fixed_point import not_fixed, scaled
from weft.rewrite.rule import Exactness, Rule

_ONE = 1 << 10
_WHOLE = {DType.I8: DType.I32, DType.I16: DType.I64}
"""The type in which pixels are interpolated."""
_TRANSFORMS = ("asymmetric", "half_pixel", "align_corners")


def _axes(match: Match) -> tuple[int, ...]:
    """The axes that change their extent."""
    before, after = match.type("x").dims, match.type("v").dims
    pairs = enumerate(zip(before, after, strict=True))
    return tuple(axis for axis, (old, new) in pairs if old != new)


def _not_resized(match: Match) -> str | None:
    given = match.attributes("v")
    if match.type("x").dtype not in _WHOLE:
        return "it is not of i8 or i16"
    if given.mode != "linear" or given.antialias or given.exclude_outside:
        return "it does not interpolate between neighbours"
    if given.coordinate_transformation_mode not in _TRANSFORMS:
        return "its coordinates are not LiteRT's"
    if not (match.type("x").is_static and match.type("v").is_static):
        return "its size is not known"
    if len(_axes(match)) > 2:
        return "it does not resize rows and columns alone"
    return not_fixed(match, "x") or other_scale(match)


def _places(old: int, new: int, transform: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two neighbours of each pixel, and the second one's weight in steps of 1/1024."""
    corners = transform == "align_corners" and new > 1
    span, steps = (old - 1, new - 1) if corners else (old, new)
    scale = (_ONE * span + steps // 2) // steps
    at = np.arange(new, dtype=np.int64) * scale
    if transform == "half_pixel":
        at += scale // 2 - (1 << 9)
    # C's division, towards zero.
    lower = np.maximum(np.trunc(at / _ONE).astype(np.int64), 0)
    upper = np.minimum(np.trunc((at + _ONE - 1) / _ONE).astype(np.int64), old - 1)
    return lower, upper, (at - _ONE * lower).astype(np.int32)


def _between(match: Match, builder: GraphBuilder, value: str, axis: int, factor: int) -> str:
    """An image with another extent along an axis, in steps of 1/1024 of its values."""
    old, new = (match.type(name).dims[axis] for name in ("x", "v"))
    lower, upper, weight = _places(old, new, match.attributes("v").coordinate_transformation_mode)
    along = (-1,) + (1,) * (len(match.type("x").shape) - axis - 1)
    parts: list[str] = []
    for at, weights in ((lower, _ONE - weight), (upper, weight)):
        taken = builder.op(
            "Gather", value, builder.constant(at, "rows"), attributes=GatherAttributes(axis)
        )
        whole = (weights * factor).astype(_WHOLE[match.type("x").dtype].numpy)
        spread = builder.constant(whole.reshape(along), "weights")
        parts.append(builder.op("Mul", taken, spread))
    return builder.op("Add", *parts)


def _resized(match: Match, builder: GraphBuilder) -> str:
    axes = _axes(match)
    if not axes:
        return match["x"]
    whole = _WHOLE[match.type("x").dtype]
    value = builder.op("Cast", match["x"], attributes=CastAttributes(whole))
    if whole is DType.I64:
        for axis in axes:
            value = _between(match, builder, value, axis, 1)
        return _rounded(builder, value, 10 * len(axes))
    for place, axis in enumerate(axes):
        # Twice in the end: the product with a half of 2^31 then rounds nothing.
        value = _between(match, builder, value, axis, 2 if place == len(axes) - 1 else 1)
    # The zero point is in the values already.
    return scaled(match, builder, value, [(1 << 30, -10 * len(axes))], zero=0)


def _rounded(builder: GraphBuilder, value: str, bits: int) -> str:
    """``i64`` divided by a power of two, halves away from zero; ``i16``."""
    zero, half, below, divisor = (
        builder.constant(np.array(each, np.int64), "number")
        for each in (0, 1 << (bits - 1), -(1 << (bits - 1)), 1 << bits)
    )
    nudge = builder.op("Where", builder.op("Greater", value, zero), half, below)
    quotient = builder.op("Div", builder.op("Add", value, nudge), divisor)
    return builder.op("Cast", quotient, attributes=CastAttributes(DType.I16))


RULES: tuple[Rule, ...] = (
    Rule(
        name="fixed-point-resize",
        before=f"v = Resize({DATA}, ...) [users=1]\ny = QuantizeLinear(v, {REST})",
        where=_not_resized,
        after=_resized,
        exactness=Exactness.APPROXIMATE,
        doc="Bilinear resizing between DequantizeLinear and QuantizeLinear of the same scale "
        "interpolates the integers, with places in steps of 1/1024.",
    ),
)
