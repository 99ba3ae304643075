"""Sums of two bytes in fixed point (LiteRT's ADD), by a table and a shift.

Each of two bytes is shifted, less its zero point, and scaled; so is their sum. What depends on one
byte alone is a table of 256 words. The byte with the larger scale is scaled by one half, which
makes it a shift, so that a single table is enough.
"""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.kernels.bytes.byte_sum import BYTES, byte_sum
from weft.kernels.writer import integer
from weft.loops.fixed_point import LARGEST_SHIFT, LARGEST_SUM, saturated
from weft.loops.instruction import families, member
from weft.loops.nodes import Expr, Instruct, Load
from weft.records import dataclass
from weft.targets.target import Target

_I8, _I32 = DType.I8, DType.I32
_FAMILY = "add_i8"


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
    found = byte_sum(inner)
    if found is None or found.left or not 1 <= found.right <= LARGEST_SHIFT:
        return None
    (x, table_x), (y, table_y) = found.sides
    if not (isinstance(x, Load) and isinstance(y, Load)):
        return None
    for (first, table), (second, other) in (
        ((x, table_x), (y, table_y)),
        ((y, table_y), (x, table_x)),
    ):
        shift = _shift(other)
        most = np.abs(table).max() + np.abs(other).max()
        if shift is None or most >= LARGEST_SUM:
            continue
        # Twice the sums, of which the instruction takes the high halves of products.
        doubled = 2 * (table + other[BYTES // 2])
        term = (found.zero << found.right) + (1 << (found.right - 1))
        arrays = {
            "table": doubled.astype(np.int32),
            "adds": np.array([found.multiplier, term], np.int32),
        }
        below = int(found.zero > _I8.limits[0])
        return ByteAdd(first, second, arrays, (shift + 1, found.right, below))
    return None


def _shift(table: np.ndarray) -> int | None:
    """By how much bytes are shifted in a table, but for something that is added."""
    step = int(table[1] - table[0])
    if step <= 0 or step & (step - 1) or np.any(np.diff(table) != step):
        return None
    return step.bit_length() - 1
