"""Numbers in fixed point, recognized in definitions (``weft.ops.requantization``)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.dtypes import DType
from weft.loops.nodes import Binary, Cast, Const, Expr

_I64 = DType.I64
LARGEST_SUM, LARGEST_SHIFT = 1 << 30, 22
"""Sums that may be doubled, and shifts by which a zero point still fits 31 bits."""


@dataclass(frozen=True)
class FixedPoint:
    """A number times a multiplier, divided by a power of two and rounded, plus a zero point.

    Attributes:
        sum: the number; multiplier; left, right: shifts before and after; zero: what is added.
    """

    sum: Expr
    multiplier: Expr
    left: Expr
    right: Expr
    zero: int


def saturated(value: Expr) -> Expr | None:
    """What a value is before it is held within the limits of bytes."""
    match value:
        case Cast(DType.I8, Binary("min", Binary("max", Const(value=low), x), Const(value=high))):
            pass
        case Cast(DType.I8, Binary("min", Binary("max", x, Const(value=low)), Const(value=high))):
            pass
        case _:
            return None
    return x if (low, high) == DType.I8.limits else None


def fixed_point(value: Expr) -> FixedPoint | None:
    """The parts of ``weft.ops.requantization.requantization`` and a zero point."""
    match value:
        case Binary("add", scaled, Const(number, DType.I64)):
            zero = int(number)
        case Binary("sub", scaled, Const(number, DType.I64)):
            zero = -int(number)
        case scaled:
            zero = 0
    match scaled:
        case Binary("shr", Binary("sub", Binary("add", high, half), below), right):
            if not _rounds(high, half, below, right):
                return None
        case Binary("shr", high, Const(0) as right):
            pass
        case _:
            return None
    match high:
        case Binary(
            "shr",
            Binary(
                "add",
                Binary("mul", Cast(DType.I64, Binary("shl", sum, left)), multiplier),
                Const(value=nudge),
            ),
            Const(31),
        ) if nudge == 1 << 30:
            return FixedPoint(sum, multiplier, left, right, zero)
        case _:
            return None


def _rounds(high: Expr, half: Expr, below: Expr, right: Expr) -> bool:
    """Whether a half and what is below zero round a division by a power of two."""
    one = Const(1, _I64)
    if half != Binary("shr", Binary("shl", one, right), one):
        return False
    negative = Cast(_I64, Binary("lt", high, Const(0, _I64)))
    always = isinstance(right, Const) and int(right.value) >= 1
    return below == Binary("min", half, negative) or (always and below == negative)
