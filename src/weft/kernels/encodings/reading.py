"""What an encoding provides to kernels, and the block of a product that it is read in.

A kernel that multiplies a matrix by one vector walks blocks of lanes (columns of the packed
matrix).  The statements between clearing and storing a block's sums are the encoding's: it
loads what it stored, makes weights of it, and adds their products with ``EncodedBlock.add``::

    for block of lanes:
      acc[lane] = 0
      <Encoding.read>         acc[lane] += x[row] * decode(stored[row][lane])
      out[lane] = epilogue(acc[lane])

So the meaning of an encoding is loops like any others: the interpreter runs them, the
verifier bounds them, and the C, scalar and vector, is generated from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from weft.dtypes import DType
from weft.kernels.tiling import LaneBlock
from weft.kernels.writer import LANE, for_lanes, integer, plus, times
from weft.loops.nodes import Binary, Buffer, Expr, For, Load, Prefetch, Stmt, Store, Var
from weft.loops.walk import substitute
from weft.plan.implementation import WeightEncoding
from weft.records import dataclass
from weft.targets.target import Target

SUM = "acc"
"""The local buffers of a block's sums, one for each vector."""


class Encoding(WeightEncoding, Protocol):
    """A weight encoding that kernels can read."""

    @property
    def bits(self) -> float:
        """Stored for a weight."""
        ...

    @property
    def in_order(self) -> bool:
        """Whether products add up weight by weight, as those of unencoded weights do."""
        ...

    @property
    def key(self) -> str:
        """What tells layers of equal shapes apart whose weights have this encoding."""
        ...

    @property
    def registers(self) -> int:
        """That each vector of a block takes while weights are decoded."""
        ...

    def for_target(self, target: Target) -> Encoding:
        """The variant of the encoding that is fastest to decode on a target."""
        ...

    def operations(self, target: Target) -> float:
        """On a vector of weights beside loading it, its multiply-add included."""
        ...

    def read(self, block: EncodedBlock) -> tuple[Stmt, ...]:
        """Adds the products of a block's weights to its sums."""
        ...


@dataclass(frozen=True, slots=True)
class EncodedBlock:
    """A block of lanes of a product of a matrix and a vector.

    Attributes:
        block: the lanes; number: the variable that counts such blocks.
        rows: terms of a sum.
        axis: the variable of the sum, in ``scale``: what a weight is multiplied by.
        target: the machine.
        stored: the encoding's parts, by name.
    """

    block: LaneBlock
    number: Expr
    rows: int
    axis: str
    scale: Expr
    target: Target
    stored: dict[str, Buffer]

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """Number, first lane within the block and width of every vector."""
        return self.block.pieces()

    def load(self, part: str, row: Expr, offset: int) -> Expr:
        """A vector of a part, from a place in a row of all streams."""
        buffer = self.stored[part]
        stream, place = divmod(offset, buffer.shape[-1])
        number = plus(times(self.number, self.block.streams), stream)
        return Load(buffer.name, (number, row, plus(integer(place), Var(LANE))), buffer.dtype)

    def store(self, name: str, piece: int, width: int, value: Expr, *at: Expr) -> For:
        """Writes one of the local vectors ``name0``, ``name1``, ..."""
        return for_lanes(width, Store(f"{name}{piece}", (*at, Var(LANE)), value))

    def sum(self, piece: int) -> Expr:
        """What a vector's sums have come to."""
        return Load(f"{SUM}{piece}", (integer(0), Var(LANE)), DType.F32)

    def set_sum(self, piece: int, width: int, value: Expr) -> For:
        """Writes a vector's sums."""
        return self.store(SUM, piece, width, value, integer(0))

    def factor(self, row: Expr) -> Expr:
        """``x[row]``."""
        return substitute(self.scale, {self.axis: row})

    def product(self, row: Expr, weight: Expr) -> Expr:
        """``x[row] * weight``."""
        return Binary("mul", self.factor(row), weight)

    def add(self, piece: int, width: int, row: Expr, weight: Expr) -> For:
        """``acc = acc + x[row] * weight``."""
        total = Binary("add", self.sum(piece), self.product(row, weight))
        return self.set_sum(piece, width, total)

    def fetches(self, part: str, counter: Expr, count: int, rows: int, row: Expr) -> list[Stmt]:
        """Hints for what comes some groups later, if that is in one stream.

        Args:
            part: that is read.
            counter: of the groups.
            count: how many groups there are.
            rows: of the part that a group has.
            row: which of them is read now.
        """
        if not self.target.caches or self.block.streams > 1:
            return []
        buffer = self.stored[part]
        width = buffer.shape[-1]
        far = max(1, round(self.target.costs.ahead / (width * buffer.dtype.bytes * rows)))
        if count <= far:
            return []
        later = Binary("min", plus(counter, far), integer(count - 1))
        at = plus(later if rows == 1 else Binary("mul", later, integer(rows)), row)
        step = self.target.line // buffer.dtype.bytes
        return [
            Prefetch(buffer.name, (self.number, at, integer(lane)))
            for lane in range(0, width, step)
        ]
