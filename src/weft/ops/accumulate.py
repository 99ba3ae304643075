"""The type in which sums are taken."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.loops.nodes import Expr
from weft.ops.expr import cast
from weft.ops.record import Call


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


def exact(x: np.ndarray) -> np.ndarray:
    """The array in the accumulator's type."""
    return x.astype(accumulator(DType.of(x.dtype)).numpy)


def floating(call: Call) -> TensorType:
    """The type of the first input, which must be floating-point."""
    x = call.type(0)
    if not x.dtype.is_float:
        raise call.error("input must be of a floating-point type", got=f"x {x}")
    return x
