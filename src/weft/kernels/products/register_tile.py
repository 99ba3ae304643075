"""The accumulators of one register tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from weft.kernels.contraction import Contraction
from weft.kernels.products.sum_blocks import BLOCK
from weft.kernels.tiling import LaneBlock
from weft.kernels.writer import LANE, for_lanes, integer
from weft.loops.definition import neutral
from weft.loops.nodes import Access, Binary, Buffer, Expr, For, Load, LoopKind, Stmt, Store, Var
from weft.loops.walk import dtype_of
from weft.records import dataclass


@dataclass
class RegisterTile:
    """A register tile and what it sums.

    Attributes:
        parts: of the task.
        block: its lanes, of which ``first`` is the first and ``number`` counts the blocks.
        weight: the packed parameter, if there is one.
        origin: the first of ``size`` positions.
        clear: whether all guards along the tile hold.
        ahead: parts of the packed weight's index, by place, that lead to what is read after
            this tile; prefetched while this one is computed.
        share: which of how many turns this tile is that fetch parts of the same weights.
        spans: first and one past the last of reduction axes that are not summed whole.
        sums: what the accumulators are called.
        block_terms: about how many terms of a sum with weights make a block.
    """

    parts: Contraction
    block: LaneBlock
    first: Expr
    number: Expr
    weight: str
    origin: Expr | None
    size: int
    clear: bool = True
    ahead: Mapping[int, Expr] = field(default_factory=dict[int, Expr])
    share: tuple[Expr, int] = (integer(0), 1)
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    sums: str = "acc"
    block_terms: int = BLOCK

    def accumulators(self) -> tuple[Buffer, ...]:
        """The local buffers, one for each vector: positions by lanes."""
        reduce = self.parts.reduce
        assert reduce is not None
        dtype = dtype_of(reduce.value)
        return tuple(
            Buffer(f"{self.sums}{piece}", dtype, (self.size, width), Access.LOCAL)
            for piece, _, width in self.block.pieces()
        )

    def positions(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements for every position of the tile."""
        return body if self.size == 1 else (self.over(0, self.size, body),)

    def spanned(self, body: tuple[Stmt, ...], span: tuple[int, int] | None) -> tuple[Stmt, ...]:
        """Statements for the positions of a span, or for all."""
        low, high = span or (0, self.size)
        if (low, high) == (0, self.size):
            return self.positions(body)
        return (self.over(low, high, body),) if low < high else ()

    def over(self, first: int, stop: int, body: tuple[Stmt, ...]) -> Stmt:
        """A loop over some positions: unrolled if that keeps the tile in registers."""
        kind = LoopKind.UNROLL if self.held else LoopKind.SERIAL
        return For("p", integer(first), integer(stop), body, kind)

    @property
    def held(self) -> bool:
        """Whether the accumulators can stay in registers."""
        if self.parts.reduce is None:
            return True
        dtype = dtype_of(self.parts.reduce.value)
        return self.parts.task.target.holds(max(self.block.widths), dtype)

    @property
    def position(self) -> Expr:
        """The variable of the positions."""
        return integer(0) if self.size == 1 else Var("p")

    def vector(self, width: int, store: Store) -> Stmt:
        """A store for all lanes of a vector."""
        return for_lanes(width, store)

    def starts(self, span: tuple[int, int] | None = None) -> tuple[Stmt, ...]:
        """Sets the accumulators to what changes nothing, all or those of a span of positions."""
        reduce = self.parts.reduce
        assert reduce is not None
        start = neutral(reduce.op, dtype_of(reduce.value))
        place = (self.position, Var(LANE))
        found = (
            self.vector(width, Store(f"{self.sums}{piece}", place, start))
            for piece, _, width in self.block.pieces()
        )
        return self.spanned(tuple(found), span)

    def moved(self, to: str, *of: str, span: tuple[int, int] | None = None) -> tuple[Stmt, ...]:
        """``to = sum of of`` for the accumulators of all positions, or of a span of them."""
        assert self.parts.reduce is not None
        dtype, place = dtype_of(self.parts.reduce.value), (self.position, Var(LANE))
        found: list[Stmt] = []
        for piece, _, width in self.block.pieces():
            value, *more = (Load(f"{each}{piece}", place, dtype) for each in of)
            value = Binary("add", value, more[0]) if more else value
            found.append(self.vector(width, Store(f"{to}{piece}", place, value)))
        return self.spanned(tuple(found), span)
