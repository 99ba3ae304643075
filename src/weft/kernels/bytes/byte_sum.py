"""Sums of two bytes in fixed point (LiteRT's ADD and SUB), recognized in definitions."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.kernels.writer import integer
from weft.loops.fixed_point import fixed_point
from weft.loops.interpret import run
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Kernel,
    Load,
    Reduce,
    Store,
    Unary,
    Var,
)
from weft.loops.walk import children, with_children
from weft.records import dataclass

_I8, _I32 = DType.I8, DType.I32
BYTES = 256


@dataclass(frozen=True, eq=False)
class ByteSum:
    """A sum in fixed point of what depends on one byte each, requantized, before it is held.

    Attributes:
        sides: each byte, which may be computed, and what it adds for all its values, the smallest
            first: ``i64[256]``.
        multiplier; left, right: shifts before and after it; zero: what is added at last.
    """

    sides: tuple[tuple[Expr, np.ndarray], tuple[Expr, np.ndarray]]
    multiplier: int
    left: int
    right: int
    zero: int


def byte_sum(value: Expr) -> ByteSum | None:
    """The sum of two bytes that a value is, before it is held within the limits of bytes."""
    found = fixed_point(value)
    if found is None or not isinstance(found.sum, Binary) or found.sum.op not in ("add", "sub"):
        return None
    parts = (found.sum.lhs, found.sum.rhs)
    factors = [_constant(each) for each in (found.multiplier, found.left, found.right)]
    x, y = map(_byte, parts)
    if None in factors or x is None or y is None or x == y:
        return None
    multiplier, left, right = (each for each in factors if each is not None)
    tables = [_table(side, byte) for side, byte in zip(parts, (x, y), strict=True)]
    if found.sum.op == "sub":
        tables[1] = -tables[1]
    return ByteSum(((x, tables[0]), (y, tables[1])), multiplier, left, right, found.zero)


def _byte(side: Expr) -> Expr | None:
    """The one byte that an expression depends on."""
    bytes_: list[Expr] = []
    left: list[Expr] = [side]
    while left:
        node = left.pop()
        if isinstance(node, Load | Cast) and node.dtype is _I8:
            bytes_.append(node)
        elif isinstance(node, Load | Var | Reduce):
            return None
        else:
            left += children(node)
    byte = bytes_[0] if bytes_ else None
    return byte if all(each is byte or each == byte for each in bytes_) else None


def _table(side: Expr, byte: Expr) -> np.ndarray:
    """What an expression is for every value of a byte in it, the smallest first."""
    value = _with(side, byte, Cast(_I8, Binary("sub", Var("v"), integer(BYTES // 2))))
    out = Buffer("table", _I32, (BYTES,), Access.WRITE)
    loop = For("v", integer(0), integer(BYTES), (Store(out.name, (Var("v"),), value),))
    table = np.zeros(BYTES, np.int32)
    run(Kernel("table", (out,), (loop,)), {out.name: table})
    return table.astype(np.int64)


def _with(side: Expr, byte: Expr, other: Expr) -> Expr:
    if side is byte or side == byte:
        return other
    return with_children(side, tuple(_with(each, byte, other) for each in children(side)))


def _constant(expr: Expr) -> int | None:
    match expr:
        case Const(value):
            return int(value)
        case Cast(_, x):
            return _constant(x)
        case Unary("neg", x):
            found = _constant(x)
            return None if found is None else -found
        case _:
            return None
