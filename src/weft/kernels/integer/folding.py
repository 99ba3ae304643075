"""Parts of a definition that constants alone decide, computed when the kernel is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.nodes import COMPARISONS, Axis, Binary, Cast, Const, Expr, Load, Select, Var
from weft.loops.python_arithmetic import HALVES
from weft.loops.walk import dtype_of, walk


def _larger(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """A NaN on the left stays, one on the right is passed over."""
    return np.where(lhs < rhs, rhs, lhs)


_BINARY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "max": _larger,
    "and": np.logical_and,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


def foldable(expr: Expr, constants: Mapping[str, np.ndarray]) -> bool:
    """Whether an expression reads nothing but constants, by operations known here."""
    return all(_known(node, constants) for node in walk(expr))


def _known(node: Expr, constants: Mapping[str, np.ndarray]) -> bool:
    match node:
        case Const() | Var():
            return True
        case Load(buffer=buffer):
            return buffer in constants
        case Cast(dtype, _):
            return dtype not in HALVES
        case Binary(op, lhs, _):
            return op in _BINARY and not (op == "div" and dtype_of(lhs).is_integer)
        case _:
            return False


def folded(expr: Expr, axes: Sequence[Axis], constants: Mapping[str, np.ndarray]) -> np.ndarray:
    """The values of a foldable expression at every point of some axes, one dimension each."""
    shape = tuple(axis.extent for axis in axes)
    grids = np.indices(shape, np.int64, sparse=True)
    points = {axis.var: grid for axis, grid in zip(axes, grids, strict=True)}
    with np.errstate(all="ignore"):
        return np.broadcast_to(_value(expr, points, constants), shape)


def _value(
    expr: Expr, points: Mapping[str, np.ndarray], constants: Mapping[str, np.ndarray]
) -> np.ndarray:
    match expr:
        case Const(value, dtype):
            return np.asarray(value, dtype.numpy)
        case Var(name):
            return points[name]
        case Load(buffer, index, _):
            return constants[buffer][tuple(_value(each, points, constants) for each in index)]
        case Cast(dtype, x):
            return _value(x, points, constants).astype(dtype.numpy)
        case Binary(op, lhs, rhs):
            values = _value(lhs, points, constants), _value(rhs, points, constants)
            return np.asarray(_BINARY[op](*values))
        case _:
            raise InternalError("this expression cannot be folded")


def interval(expr: Expr) -> tuple[int, int]:
    """The least and the greatest value of an integer expression, before it wraps."""
    match expr:
        case Const(value=value):
            return int(value), int(value)
        case Cast(_, x):
            return interval(x)
        case Select(_, then, otherwise):
            (a, b), (c, d) = interval(then), interval(otherwise)
            return min(a, c), max(b, d)
        case Binary("add" | "sub" as op, lhs, rhs):
            (a, b), (c, d) = interval(lhs), interval(rhs)
            return (a + c, b + d) if op == "add" else (a - d, b - c)
        case Binary("min" | "max" as op, lhs, rhs):
            choose = min if op == "min" else max
            (a, b), (c, d) = interval(lhs), interval(rhs)
            return choose(a, c), choose(b, d)
        case Binary(op, _, _) if op in COMPARISONS:
            return 0, 1
        case Load(dtype=dtype):
            return dtype.limits
        case _:
            return DType.I64.limits
