"""The type in which sums are taken."""

from __future__ import annotations

from weft.dtypes import DType
from weft.loops.nodes import Expr
from weft.ops.expr import cast


def accumulator(dtype: DType) -> DType:
    """The type in which sums of ``dtype`` are taken: ``f32`` for the half types."""
    return DType.F32 if dtype in (DType.F16, DType.BF16) else dtype


def widened(value: Expr, dtype: DType) -> Expr:
    """A value of ``dtype`` in the accumulator's type."""
    exact = accumulator(dtype)
    return value if exact is dtype else cast(exact, value)


def narrowed(value: Expr, dtype: DType) -> Expr:
    """A value in the accumulator's type of ``dtype``, rounded to ``dtype``."""
    return value if accumulator(dtype) is dtype else cast(dtype, value)
