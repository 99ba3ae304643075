"""Formulas that one function on vectors computes in fewer operations than their parts."""

from __future__ import annotations

from math import sqrt

import numpy as np

from weft.dtypes import DType
from weft.loops.nodes import Binary, Const, Expr, Unary
from weft.loops.walk import dtype_of

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
