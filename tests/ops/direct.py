"""Evaluates a definition at all of its points at once, by NumPy broadcasting.

Every variable has a dimension of its own, counted from the right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

import numpy as np
from scipy.special import erf

from weft.dtypes import DType
from weft.loops.definition import Compute
from weft.loops.nodes import Binary, Cast, Const, Expr, Load, Reduce, Select, Unary, Var
from weft.loops.walk import dtype_of


def signed_shift(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def shift(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        bits = lhs.dtype.itemsize * 8
        return np.where(rhs < bits, function(lhs, np.minimum(rhs, bits - 1)), 0).astype(lhs.dtype)

    return shift


def divide(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    if lhs.dtype.kind not in "iu":
        return lhs / rhs
    down = lhs // rhs
    return down + ((lhs % rhs != 0) & ((lhs < 0) != (rhs < 0)))


def wide(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "neg": np.negative,
    "not": lambda x: ~x,
    "round": np.rint,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": wide(erf),
    **{
        name: getattr(np, name)
        for name in (
            "abs sign sqrt exp log sin cos tan sinh cosh tanh floor ceil trunc isnan isinf"
        ).split()
    },
}
BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "fmod": np.fmod,
    "pow": np.power,
    "min": lambda a, b: np.where(b < a, b, a),
    "max": lambda a, b: np.where(a < b, b, a),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": signed_shift(np.left_shift),
    "shr": signed_shift(np.right_shift),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
REDUCE: dict[str, tuple[np.ufunc, int | bool]] = {
    "sum": (np.add, 0),
    "prod": (np.multiply, 1),
    "and": (np.bitwise_and, -1),
    "or": (np.bitwise_or, 0),
}


class Direct:
    """Evaluation of one definition."""

    def __init__(self, buffers: Mapping[str, np.ndarray]) -> None:
        self.buffers = buffers
        self.places: dict[str, tuple[int, int]] = {}

    def compute(self, compute: Compute) -> np.ndarray:
        for axis in reversed(compute.axes):
            self.places[axis.var] = (len(self.places), axis.extent)
        shape = tuple(axis.extent for axis in compute.axes)
        if 0 in shape:
            return np.empty(shape, dtype_of(compute.value).numpy)
        value = self.value(compute.value)
        # Dimensions left of the axes are those of reductions, now of extent 1.
        kept = value.shape[max(0, value.ndim - len(shape)) :]
        return np.broadcast_to(value.reshape(kept), shape)

    def value(self, expr: Expr) -> np.ndarray:
        match expr:
            case Const(value, dtype):
                return np.array(value).astype(dtype.numpy)
            case Var(name):
                place, extent = self.places[name]
                return np.arange(extent).reshape((extent,) + (1,) * place)
            case Load(buffer, index, dtype):
                array = self.buffers[buffer]
                assert DType.of(array.dtype) is dtype
                assert len(index) == array.ndim
                points = [self.value(each) for each in index]
                assert all(point.dtype == np.int64 for point in points)
                return array[
                    tuple(np.clip(p, 0, n - 1) for p, n in zip(points, array.shape, strict=True))
                ]
            case Unary(op, x):
                return UNARY[op](self.value(x))
            case Binary(op, lhs, rhs):
                left, right = self.value(lhs), self.value(rhs)
                assert left.dtype == right.dtype, expr
                return np.asarray(BINARY[op](left, right))
            case Select(condition, then, otherwise):
                left, right = self.value(then), self.value(otherwise)
                assert left.dtype == right.dtype, expr
                return np.where(self.value(condition), left, right)
            case Cast(dtype, x):
                return self.value(x).astype(dtype.numpy)
            case Reduce():
                return self.reduce(expr)
        assert_never(expr)

    def reduce(self, expr: Reduce) -> np.ndarray:
        for axis in expr.axes:
            self.places[axis.var] = (len(self.places), axis.extent)
        if any(axis.extent == 0 for axis in expr.axes):
            raise ValueError("empty reduction")
        value = self.value(expr.value)
        rank = max(value.ndim, len(self.places))
        value = value.reshape((1,) * (rank - value.ndim) + value.shape)
        shape = list(value.shape)
        for axis in expr.axes:
            shape[rank - 1 - self.places[axis.var][0]] = axis.extent
        over = tuple(rank - 1 - self.places[axis.var][0] for axis in expr.axes)
        full = np.broadcast_to(value, shape)
        match expr.op:
            case "min":
                return full.min(axis=over, keepdims=True)
            case "max":
                return full.max(axis=over, keepdims=True)
        function, _ = REDUCE[expr.op]
        return function.reduce(full, axis=over, keepdims=True, dtype=full.dtype)
