"""Numbers in fixed point, recognized in definitions (``weft.ops.requantization``)."""

from __future__ import annotations

from weft.dtypes import DType
from weft.loops.nodes import Binary, Cast, Const, Expr, Unary
from weft.loops.walk import dtype_of
from weft.records import dataclass

_I32, _I64 = DType.I32, DType.I64
_WORD, _MOST_ZERO = 32, 255
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


@dataclass(frozen=True)
class Requantization:
    """An integer requantized, to a byte or to ``i32``.

    Attributes:
        operands: the integer, its multiplier and its shift to the left, all ``i32``.
        zero: what is added.
    """

    operands: tuple[Expr, Expr, Expr]
    zero: int


def requantization_of(value: Cast) -> Requantization | None:
    """The parts of ``weft.ops.requantization.requantization``, held within a byte or in ``i32``.

    In ``i32`` no zero point is added.
    """
    most_zero = _MOST_ZERO
    match value:
        case Cast(DType.I8 | DType.U8, Binary("min", Binary("max", lhs, rhs), Const(most))):
            whole, low = (rhs, lhs) if isinstance(lhs, Const) else (lhs, rhs)
            if not isinstance(low, Const) or (low.value, most) != value.dtype.limits:
                return None
        case Cast(DType.I32, whole):
            most_zero = 0
        case _:
            return None
    found = fixed_point(whole) if dtype_of(whole) is _I64 else None
    if found is None or abs(found.zero) > most_zero or dtype_of(found.sum) is not _I32:
        return None
    multiplier, shift = _narrow(found.multiplier), _shift(found)
    if multiplier is None or shift is None:
        return None
    return Requantization((found.sum, multiplier, shift), found.zero)


def shifts(made: Requantization) -> tuple[Expr, ...]:
    """What a requantization computes from its shift: to the left, and to the right.

    Where these are replaced one by one, it is not recognized any more.
    """
    none, shift = Const(0, _I32), made.operands[2]
    back = Unary("neg", shift)
    return Binary("max", shift, none), back, Binary("max", back, none)


def _narrow(multiplier: Expr) -> Expr | None:
    """A multiplier in ``i32``; the op has none below zero."""
    match multiplier:
        case Cast(DType.I64, Const(value)) if value < 0:
            return None
        case Cast(DType.I64, x) if dtype_of(x) is _I32:
            return x
        case Const(value) if 0 <= value <= _I32.limits[1]:
            return Const(int(value), _I32)
        case _:
            return None


def _shift(found: FixedPoint) -> Expr | None:
    """The shift to the left that both shifts are made of."""
    match found.left, found.right:
        case Const(left), Const(right) if 0 in (left, right) and 0 <= left + right < _WORD:
            return Const(int(left - right), _I32)
        case (
            Binary("max", shift, Const(0)),
            Cast(DType.I64, Binary("max", Unary("neg", other), Const(0))),
        ) if shift == other and dtype_of(shift) is _I32:
            return shift
        case _:
            return None
