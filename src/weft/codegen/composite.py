"""Formulas that one function on vectors computes in fewer operations than their parts."""

from __future__ import annotations

from math import sqrt

import numpy as np

from weft.dtypes import DType
from weft.loops.nodes import Binary, Const, Expr, Unary
from weft.loops.walk import dtype_of

_ROOT_HALF = (float(np.float32(sqrt(0.5))), sqrt(0.5))


def gelu_of(expr: Binary) -> Expr | None:
    """``x`` where an expression is ``x * 0.5 * (erf(x * sqrt(0.5)) + 1)`` in ``f32``."""
    match expr:
        case Binary(
            "mul",
            Binary("mul", x, Const(half)),
            Binary("add", Unary("erf", Binary("mul", same, Const(root))), Const(one)),
        ) if half == 0.5 and one == 1 and root in _ROOT_HALF and dtype_of(x) is DType.F32:
            return x if x is same or x == same else None
        case _:
            return None
