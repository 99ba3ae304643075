"""Index arithmetic that leaves out what does nothing."""

from __future__ import annotations

from weft.dtypes import DType
from weft.loops.nodes import Binary, Const, Expr


def integer(value: int) -> Const:
    """An ``i64`` literal."""
    return Const(value, DType.I64)


def plus(lhs: Expr, rhs: Expr | int) -> Expr:
    """``lhs + rhs``, leaving out zeros."""
    rhs = integer(rhs) if isinstance(rhs, int) else rhs
    if rhs == integer(0):
        return lhs
    if lhs == integer(0):
        return rhs
    return Binary("add", lhs, rhs)


def times(lhs: Expr, factor: int) -> Expr:
    """``lhs * factor``, leaving out ones."""
    if isinstance(lhs, Const):
        return integer(int(lhs.value) * factor)
    return lhs if factor == 1 else Binary("mul", lhs, integer(factor))
