"""Short ways to write index expressions for definitions."""

from __future__ import annotations

from collections.abc import Sequence

from weft.dtypes import DType
from weft.loops.nodes import Axis, Binary, Cast, Const, Expr, Reduce, Select, Unary, Var

Index = Expr | int


def index(value: Index) -> Expr:
    """An ``i64`` expression from a number or an expression."""
    return Const(value, DType.I64) if isinstance(value, int) else value


def const(value: float | int | bool, dtype: DType) -> Const:
    """A literal, its Python type fitted to ``dtype``."""
    if dtype.is_float:
        return Const(float(value), dtype)
    return Const(bool(value) if dtype is DType.BOOL else int(value), dtype)


def add(lhs: Index, rhs: Index) -> Expr:
    """``lhs + rhs``, leaving out zeros."""
    if lhs == 0:
        return index(rhs)
    if rhs == 0:
        return index(lhs)
    if isinstance(lhs, int) and isinstance(rhs, int):
        return index(lhs + rhs)
    return Binary("add", index(lhs), index(rhs))


def mul(lhs: Index, rhs: Index) -> Expr:
    """``lhs * rhs``, leaving out ones."""
    if lhs == 1:
        return index(rhs)
    if rhs == 1:
        return index(lhs)
    if isinstance(lhs, int) and isinstance(rhs, int):
        return index(lhs * rhs)
    return Binary("mul", index(lhs), index(rhs))


def binary(op: str, lhs: Index, rhs: Index) -> Expr:
    """Any ``Binary``; Python integers stand for ``i64`` literals."""
    return Binary(op, index(lhs), index(rhs))


def unary(op: str, x: Expr) -> Expr:
    """Any ``Unary``."""
    return Unary(op, x)


def cast(dtype: DType, x: Expr) -> Expr:
    """Conversion to ``dtype``."""
    return Cast(dtype, x)


def select(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """``then if condition else otherwise``."""
    return Select(condition, then, otherwise)


def clamp(value: Index, low: Index, high: Index) -> Expr:
    """``value`` held within ``[low, high]``."""
    return binary("min", binary("max", value, low), high)


def inside(value: Index, extent: int) -> Expr:
    """Whether ``0 <= value < extent``."""
    return binary("and", binary("le", 0, value), binary("lt", value, extent))


def axes(shape: Sequence[int], prefix: str = "i") -> tuple[Axis, ...]:
    """One axis for each dimension: ``i0``, ``i1``, ..."""
    return tuple(Axis(f"{prefix}{place}", extent) for place, extent in enumerate(shape))


def variables(ranges: Sequence[Axis]) -> tuple[Expr, ...]:
    """The variables of the axes."""
    return tuple(Var(axis.var) for axis in ranges)


def total(op: str, ranges: Sequence[Axis], value: Expr) -> Expr:
    """``Reduce`` over ``ranges``; the value itself when there are none."""
    return Reduce(op, tuple(ranges), value) if ranges else value


def broadcast(
    shape: Sequence[int], target: Sequence[int], point: Sequence[Expr]
) -> tuple[Expr, ...]:
    """Where a broadcast operand of ``shape`` is read for the output's ``point``.

    Numpy's rule: aligned at the right, extents of 1 are repeated.
    """
    offset = len(target) - len(shape)
    return tuple(
        index(0) if extent == 1 else point[offset + axis] for axis, extent in enumerate(shape)
    )
