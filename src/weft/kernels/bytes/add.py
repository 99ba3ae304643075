"""Sums of two bytes in fixed point (LiteRT's ADD), by a table and a shift.

Each of two bytes is shifted, less its zero point, and scaled; so is their sum. What depends on one
byte alone is a table of 256 words. The byte with the larger scale is scaled by one half, which
makes it a shift, so that a single table is enough.
"""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.kernels.writer import integer
from weft.loops.fixed_point import LARGEST_SHIFT, LARGEST_SUM, fixed_point, saturated
from weft.loops.instruction import families, member
from weft.loops.interpret import run
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Instruct,
    Kernel,
    Load,
    Reduce,
    Store,
    Unary,
    Var,
)
from weft.loops.walk import free_vars, loads, map_expr, walk
from weft.records import dataclass
from weft.targets.target import Target

_I8, _I32, _I64 = DType.I8, DType.I32, DType.I64
_FAMILY, _BYTES = "add_i8", 256


@dataclass(frozen=True)
class ByteAdd:
    """A sum of two bytes, requantized.

    Attributes:
        x: a byte, which a table scales; y: one that is only shifted.
        arrays: the table, and multiplier and term.
        sizes: shifts of y and of the sum, and whether sums below zero take one less.
    """

    x: Load
    y: Load
    arrays: dict[str, np.ndarray]
    sizes: tuple[int, int, int]

    def instruct(self, count: int, out: Load, x: Load, y: Load) -> Instruct:
        """The sums of so many neighbours."""
        zero = integer(0)
        tables = (Load(name, (zero,), _I32) for name in self.arrays)
        return Instruct(member(_FAMILY, count, *self.sizes), (out, x, y, *tables))


def byte_add(value: Expr, target: Target) -> ByteAdd | None:
    """The sum of two bytes that a definition is, if the target has instructions for it."""
    inner = saturated(value)
    if inner is None or families()[_FAMILY][0] not in target.features:
        return None
    found = fixed_point(inner)
    if found is None or not isinstance(found.sum, Binary) or found.sum.op not in ("add", "sub"):
        return None
    factors = [_constant(each) for each in (found.multiplier, found.left, found.right)]
    sides = [_byte(side) for side in (found.sum.lhs, found.sum.rhs)]
    if None in factors or None in sides or len({*sides}) < len(sides):
        return None
    multiplier, left, right = (each for each in factors if each is not None)
    x, y = (each for each in sides if each is not None)
    tables = [_table(side) for side in (found.sum.lhs, found.sum.rhs)]
    if found.sum.op == "sub":
        tables[1] = -tables[1]
    if left or not 1 <= right <= LARGEST_SHIFT:
        return None
    for (first, table), (second, other) in (
        ((x, tables[0]), (y, tables[1])),
        ((y, tables[1]), (x, tables[0])),
    ):
        shift = _shift(other)
        most = np.abs(table).max() + np.abs(other).max()
        if shift is None or most >= LARGEST_SUM:
            continue
        # Twice the sums, of which the instruction takes the high halves of products.
        doubled = 2 * (table + other[_BYTES // 2])
        term = (found.zero << right) + (1 << (right - 1))
        arrays = {
            "table": doubled.astype(np.int32),
            "adds": np.array([multiplier, term], np.int32),
        }
        below = int(found.zero > _I8.limits[0])
        return ByteAdd(first, second, arrays, (shift + 1, right, below))
    return None


def _byte(side: Expr) -> Load | None:
    """The one byte that an expression depends on."""
    found = set(loads(side))
    if len(found) != 1 or any(isinstance(node, Reduce) for node in walk(side)):
        return None
    (load,) = found
    outside = map_expr(side, lambda node: Const(0, _I8) if node == load else node)
    return load if load.dtype is _I8 and not free_vars(outside) else None


def _table(side: Expr) -> np.ndarray:
    """What an expression is for every byte, the smallest first."""
    byte = Cast(_I8, Binary("sub", Var("v"), integer(_BYTES // 2)))
    value = map_expr(side, lambda node: byte if isinstance(node, Load) else node)
    out = Buffer("table", _I32, (_BYTES,), Access.WRITE)
    loop = For("v", integer(0), integer(_BYTES), (Store(out.name, (Var("v"),), value),))
    table = np.zeros(_BYTES, np.int32)
    run(Kernel("table", (out,), (loop,)), {out.name: table})
    return table.astype(np.int64)


def _shift(table: np.ndarray) -> int | None:
    """By how much bytes are shifted in a table, but for something that is added."""
    step = int(table[1] - table[0])
    if step <= 0 or step & (step - 1) or np.any(np.diff(table) != step):
        return None
    return step.bit_length() - 1


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
