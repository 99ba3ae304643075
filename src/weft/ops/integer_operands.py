"""What products of quantized tensors share: zero points, scales, and requantization in ``f32``."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.loops.nodes import Expr
from weft.loops.walk import dtype_of
from weft.ops.elementwise import Domain, fitted
from weft.ops.expr import binary, cast, index, unary
from weft.ops.quantization import is_single, saturate, saturated
from weft.ops.record import Call, NoGrad, Param

BYTES = Domain("i8 or u8", frozenset({DType.I8, DType.U8}))
NARROW = Domain("i8, u8 or i16", frozenset({DType.I8, DType.U8, DType.I16}))
"""Types of quantized operands."""
INTEGERS_ONLY = NoGrad("integers have no derivative")
"""Why there are no gradients."""
ACCUMULATED = TensorType(DType.I32, ())
"""The type of one sum."""


def single(call: Call, position: int) -> Expr:
    """The one number of an input."""
    return call.load(position, *(index(0) for _ in call.type(position).shape))


def check_zero_point(call: Call, operand: int, position: int) -> None:
    """Refuses a zero point of another type than its operand."""
    if call.has(position) and call.type(position).dtype is not call.type(operand).dtype:
        raise call.error(
            f"input {position}, a zero point, must have the element type of input {operand}"
        )


def check_single(call: Call, position: int) -> None:
    """Refuses an input that is given and not one number."""
    if call.has(position) and not is_single(call.type(position)):
        raise call.error(f"input {position} must be one number", got=str(call.type(position)))


def _as_f32(x: Expr) -> Expr:
    return fitted(DType.F32, x, dtype_of(x))


def requantized(value: Expr, lhs: Expr, rhs: Expr, result: Expr, zero_point: Expr) -> Expr:
    """``round(value * lhs * rhs / result) + zero point`` of an ``i32`` value, saturated."""
    scales = binary("div", binary("mul", _as_f32(lhs), _as_f32(rhs)), _as_f32(result))
    scaled = binary("mul", cast(DType.F32, value), scales)
    return saturate(unary("round", scaled), zero_point, dtype_of(zero_point))


def requantize(
    value: np.ndarray, lhs: np.ndarray, rhs: np.ndarray, result: np.ndarray, zero: np.ndarray
) -> np.ndarray:
    """The same of arrays."""
    narrow = np.float32
    scales = lhs.astype(narrow) * rhs.astype(narrow) / result.astype(narrow).reshape(())
    whole = np.rint(value.astype(narrow) * scales)
    return saturated(whole, zero.reshape(()), DType.of(zero.dtype))


def wrapped(value: np.ndarray) -> np.ndarray:
    """Sums as ``i32`` holds them."""
    return np.asarray(value).astype(np.int64).astype(np.int32)


_QUANTIZED_INPUTS = "{0} {0}_scale {0}_zero_point {1} {1}_scale {1}_zero_point y_scale y_zero_point"


def quantized_params(left: str, right: str) -> tuple[Param, ...]:
    """Two operands and the result, each with its scale and zero point."""
    return tuple(Param(name) for name in _QUANTIZED_INPUTS.format(left, right).split())


def params_with_zero_points(left: str, right: str) -> tuple[Param, ...]:
    """Two operands and what may be given: their zero points."""
    return (
        Param(left),
        Param(right),
        Param(f"{left}_zero_point", optional=True),
        Param(f"{right}_zero_point", optional=True),
    )
