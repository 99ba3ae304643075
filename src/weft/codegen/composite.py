"""Formulas that one function on vectors computes in fewer operations than their parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from weft.dtypes import DType
from weft.loops.fixed_point import FixedPoint, fixed_point
from weft.loops.nodes import Binary, Cast, Const, Expr, Unary
from weft.loops.walk import children, dtype_of

_MOST_ZERO = 255
_WORD = 32
_ROOT_HALF = (float(np.float32(sqrt(0.5))), sqrt(0.5))


def gelu_of(expr: Binary) -> Expr | None:
    """``x`` where an expression is ``x * 0.5 * erfc(x * -sqrt(0.5))`` in ``f32``.

    So it is where ``erf(x * sqrt(0.5)) + 1`` stands for ``erfc``.
    """
    match expr:
        case Binary("mul", Binary("mul", x, Const(half)), curve) if half == 0.5:
            same = _argument(curve)
            fits = same is not None and dtype_of(x) is DType.F32
            return x if fits and (x is same or x == same) else None
        case _:
            return None


def _argument(curve: Expr) -> Expr | None:
    """``x`` of twice its normal distribution function."""
    match curve:
        case Unary("erfc", Binary("mul", x, Const(root))) if -root in _ROOT_HALF:
            return x
        case Binary("add", Unary("erf", Binary("mul", x, Const(root))), Const(one)) if (
            one == 1 and root in _ROOT_HALF
        ):
            return x
        case _:
            return None


def quantized_of(expr: Cast) -> tuple[Expr, int, str] | None:
    """``x`` and the zero point of ``min(max(least, round(x) + zero), most)``, made a byte.

    ``least`` and ``most`` are the limits of the type; on the right of ``max`` a NaN is passed over.

    Returns:
        Both, and the helper's name: ``quantize_u8``, or ``quantize_u8_wide`` where the byte is made
        an ``i32`` again.
    """
    match expr:
        case Cast(
            DType.I8 | DType.U8 as dtype,
            Binary("min", Binary("max", Const(least), whole), Const(most)),
        ) if (least, most) == dtype.limits and dtype_of(whole) is DType.F32:
            rounded = _rounded(whole)
            return None if rounded is None else (*rounded, f"quantize_{dtype.value}")
        case Cast(DType.I32, Cast(DType.I8 | DType.U8) as byte):
            found = quantized_of(byte)
            return None if found is None else (*found[:2], f"{found[2]}_wide")
        case _:
            return None


def _rounded(whole: Expr) -> tuple[Expr, int] | None:
    match whole:
        case Unary("round", x):
            return x, 0
        case Binary("add", Unary("round", x), Const(zero)) if zero == int(zero) and (
            abs(zero) <= _MOST_ZERO
        ):
            return x, int(zero)
        case _:
            return None


@dataclass(frozen=True)
class Requantized:
    """An integer requantized to a byte in fixed point.

    Attributes:
        operands: the integer, its multiplier and its shift to the left, all ``i32``.
        zero: what is added.
        op: the helper's name: ``requantize_i8``, or ``requantize_i8_wide`` where the byte is made
            an ``i32`` again.
    """

    operands: tuple[Expr, Expr, Expr]
    zero: int
    op: str


def requantized_of(expr: Cast) -> Requantized | None:
    """The parts of a byte that holds ``weft.ops.requantization.requantization`` saturated."""
    match expr:
        case Cast(
            DType.I8 | DType.U8 as dtype, Binary("min", Binary("max", lhs, rhs), Const(most))
        ):
            whole, low = (rhs, lhs) if isinstance(lhs, Const) else (lhs, rhs)
            if not isinstance(low, Const) or (low.value, most) != dtype.limits:
                return None
            found = fixed_point(whole) if dtype_of(whole) is DType.I64 else None
            if found is None or abs(found.zero) > _MOST_ZERO:
                return None
            multiplier, shift = _narrow(found.multiplier), _shift(found)
            if multiplier is None or shift is None or dtype_of(found.sum) is not DType.I32:
                return None
            operands = (found.sum, multiplier, shift)
            return Requantized(operands, found.zero, f"requantize_{dtype.value}")
        case Cast(DType.I32, Cast(DType.I8 | DType.U8) as byte):
            inner = requantized_of(byte)
            return None if inner is None else replace(inner, op=f"{inner.op}_wide")
        case _:
            return None


def vector_parts(expr: Expr) -> Iterable[Expr]:
    """What an expression is computed from when it is written as a vector."""
    found = requantized_of(expr) if isinstance(expr, Cast) else None
    return children(expr) if found is None else found.operands


def _narrow(multiplier: Expr) -> Expr | None:
    """A multiplier in ``i32``; the op has none below zero."""
    match multiplier:
        case Cast(DType.I64, Const(value)) if value < 0:
            return None
        case Cast(DType.I64, x) if dtype_of(x) is DType.I32:
            return x
        case Const(value) if 0 <= value <= DType.I32.limits[1]:
            return Const(int(value), DType.I32)
        case _:
            return None


def _shift(found: FixedPoint) -> Expr | None:
    """The shift to the left that both shifts are made of."""
    match found.left, found.right:
        case Const(left), Const(right) if 0 in (left, right) and 0 <= left + right < _WORD:
            return Const(int(left - right), DType.I32)
        case (
            Binary("max", shift, Const(0)),
            Cast(DType.I64, Binary("max", Unary("neg", other), Const(0))),
        ) if shift == other and dtype_of(shift) is DType.I32:
            return shift
        case _:
            return None
