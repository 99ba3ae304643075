"""Formulas that one function on vectors computes in fewer operations than their parts."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import numpy as np

from weft.dtypes import DType
from weft.loops.fixed_point import Requantization, requantization_of
from weft.loops.nodes import Binary, Cast, Const, Expr, Unary
from weft.loops.walk import children, dtype_of

_MOST_ZERO = 255
_ROOT_HALF = (float(np.float32(sqrt(0.5))), sqrt(0.5))


def composite_of(expr: Binary) -> tuple[str, tuple[Expr, ...], tuple[Expr, ...]] | None:
    """The helper on ``f32`` vectors that computes a formula as a whole.

    Returns:
        Its name, its operands, and the parts of the formula that nothing else may need.
    """
    x = gelu_of(expr)
    if x is not None:
        return "gelu", (x,), (expr.rhs,)
    found = gate_of(expr)
    return None if found is None else ("gate", found, (expr, *children(expr)))


def gate_of(expr: Binary) -> tuple[Expr, Expr] | None:
    """``x`` and ``y`` where an expression is ``tanh(x) * (1 / (exp(-y) + 1))`` in ``f32``."""
    match expr:
        case Binary("mul", Unary("tanh", x), curve) | Binary("mul", curve, Unary("tanh", x)):
            y = _logistic_argument(curve)
            fits = y is not None and dtype_of(x) is dtype_of(y) is DType.F32
            return (x, y) if y is not None and fits else None
        case _:
            return None


def _logistic_argument(curve: Expr) -> Expr | None:
    """``y`` of a logistic function."""
    match curve:
        case Binary(
            "div", Const(top), Binary("add", Unary("exp", Unary("neg", y)), Const(bottom))
        ) if top == bottom == 1:
            return y
        case _:
            return None


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


def saturated_of(expr: Cast) -> tuple[Expr, str] | None:
    """An ``i32`` that a byte saturates, and the helper's name: ``saturate_i8``."""
    match expr:
        case Cast(
            DType.I8 | DType.U8 as dtype,
            Binary("min", Binary("max", Const(least), whole), Const(most)),
        ) if (least, most) == dtype.limits and dtype_of(whole) is DType.I32:
            return whole, f"saturate_{dtype.value}"
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


def requantized_of(expr: Cast) -> tuple[Requantization, str] | None:
    """The parts of a byte, or of an ``i32``, requantized in fixed point.

    Returns:
        They, and the helper's name: ``requantize_i8``, or ``requantize_i8_wide`` where the byte is
        made an ``i32`` again; ``requantize_i32`` does not saturate.
    """
    match expr:
        case Cast(DType.I32, Cast(DType.I8 | DType.U8) as byte):
            inner = requantized_of(byte)
            return None if inner is None else (inner[0], f"{inner[1]}_wide")
        case _:
            found = requantization_of(expr)
            return None if found is None else (found, f"requantize_{expr.dtype.value}")


def vector_parts(expr: Expr) -> Iterable[Expr]:
    """What an expression is computed from when it is written as a vector."""
    found = requantization_of(expr) if isinstance(expr, Cast) else None
    return children(expr) if found is None else found.operands
