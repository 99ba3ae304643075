"""Folding of operations on constants, in the arithmetic of their type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.loops.nodes import Binary, Cast, Const, Expr, Unary

TRUE, FALSE = Const(True, DType.BOOL), Const(False, DType.BOOL)


def fold_constants(expr: Expr) -> Expr:
    """Evaluates an operation on constants, in the arithmetic of their type."""
    match expr:
        case Binary(op, Const(left, dtype), Const(right, _)):
            if dtype.is_integer and op in _INTEGER:
                if right == 0 and op in ("floordiv", "mod"):
                    return expr
                return Const(wrap(_INTEGER[op](int(left), int(right)), dtype), dtype)
            if dtype.is_float and op in _FLOAT:
                return _float(op, left, right, dtype)
        case Unary("neg", Const(value, dtype)) if dtype is not DType.BOOL:
            return Const(wrap(-int(value), dtype) if dtype.is_integer else -value, dtype)
        case Unary("not", Const(value, DType.BOOL)):
            return FALSE if value else TRUE
        case Cast(dtype, Const() as const):
            return _cast(dtype, const)
        case _:
            pass
    return expr


_INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
}
_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "min": lambda a, b: b if b < a else a,
    "max": lambda a, b: b if a < b else a,
}


def wrap(value: int, dtype: DType) -> int:
    """An integer modulo the width of its type."""
    low, high = dtype.limits
    return (value - low) % (high - low + 1) + low


def _float(op: str, left: float, right: float, dtype: DType) -> Const:
    convert = dtype.numpy.type
    with np.errstate(all="ignore"):
        return Const(float(_FLOAT[op](convert(left), convert(right))), dtype)


def _cast(dtype: DType, const: Const) -> Expr:
    value = const.value
    if dtype is DType.BOOL:
        return Const(value != 0, dtype)
    if dtype.is_float:
        # Through the source type, so that what is folded is what would be computed.
        with np.errstate(all="ignore"):
            source = np.array(value, const.dtype.numpy)
            return Const(float(source.astype(dtype.numpy)), dtype)
    if const.dtype.is_float:
        low, high = dtype.limits
        inside = np.isfinite(value) and low <= int(value) <= high
        return Const(int(value), dtype) if inside else Cast(dtype, const)
    return Const(wrap(int(value), dtype), dtype)
