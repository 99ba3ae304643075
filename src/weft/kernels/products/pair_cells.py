"""Register tiles whose products are instructions for pairs of bfloat16, or for small matrices.

An instruction on small matrices takes four neighbours of two positions and of four lanes, and adds
to sums in blocks of two positions by two lanes; the tile's end lays them out in rows.  Where
one of two positions lies outside it reads zeros; a last position alone stands for both::

    acc[2 positions][lanes] += none, image[1] * weights             (bfmmla)
    whole[2 positions][lanes] = acc                                 (bfmmla_apart)
    out = epilogue(whole)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.dtypes import DType
from weft.kernels.paired_factors import PairedFactors
from weft.kernels.products.microkernel import Microkernel
from weft.kernels.writer import for_range, integer, with_locals
from weft.loops.instruction import Instruction
from weft.loops.nodes import Access, Buffer, Const, Expr, Instruct, Load, Stmt, Store, Var
from weft.loops.walk import substitute

_NONE, _WHOLE = "none", "whole"


class PairCell(Microkernel):
    """The statements of one register tile of a contraction by pairs."""

    @property
    def factors(self) -> PairedFactors:
        """What the instructions multiply."""
        assert self.parts.pairs is not None
        return self.parts.pairs

    @property
    def rows(self) -> int:
        """Positions that have accumulators: whole instructions of them."""
        return self.size + -self.size % self.factors.positions

    def accumulators(self) -> tuple[Buffer, ...]:
        """The local buffers, one for each vector: positions by lanes."""
        return tuple(
            replace(each, shape=(self.rows, *each.shape[1:])) for each in super().accumulators()
        )

    def starts(self, span: tuple[int, int] | None = None) -> tuple[Stmt, ...]:
        """Sets the accumulators, and what is read outside, to zero."""
        if self.rows != self.size:
            return replace(self, size=self.rows).starts(span)
        found = super().starts(span)
        if not self.fills:
            return found
        zero = Store(_NONE, (Var("k"),), Const(0.0, DType.BF16))
        return (for_range("k", self.factors.depth, (zero,)), *found)

    @property
    def fills(self) -> bool:
        """Whether some positions lie outside for some taps."""
        return self.factors.positions > 1 and not self.clear and bool(self.parts.tile_guards)

    def statements(self) -> tuple[Stmt, ...]:
        """Everything: accumulate, then store."""
        zeros = Buffer(_NONE, DType.BF16, (self.factors.depth,), Access.LOCAL)
        return with_locals((zeros,) * self.fills, super().statements())

    def update(self, position: Expr, taps: Mapping[str, Expr]) -> tuple[Stmt, ...]:
        """``acc = acc + value`` for all lanes of a position."""
        image = self.image(position, taps)
        return tuple(self.products(position, position, taps, (image,)))

    def image(self, position: Expr, taps: Mapping[str, Expr]) -> Load:
        """What a position reads."""
        return _bound(self.factors.image, {**taps, **self.bound(position, 0)})

    def products(
        self, row: Expr, position: Expr, taps: Mapping[str, Expr], images: tuple[Load, ...]
    ) -> Iterator[Stmt]:
        """The instructions that add to the accumulators of some positions from a row on."""
        zero = integer(0)
        for piece, offset, width in self.block.pieces():
            bound = {**taps, **self.bound(position, offset)}
            used = self.factors.rows[width]
            weight = (*self.parts.packed_index(self.number, integer(offset)), zero)
            factor = _bound(Load(self.weight, weight, DType.BF16), bound)
            sums = Load(f"{self.sums}{piece}", (row, zero), DType.F32)
            yield Instruct(used.name, (sums, *images, factor))

    def updates(self, fixed: Mapping[str, int]) -> tuple[Stmt, ...]:
        """The updates of all positions whose guards hold for these taps."""
        count = self.factors.positions
        if count == 1:
            return super().updates(fixed)
        taps: dict[str, Expr] = {name: integer(tap) for name, tap in fixed.items()}
        live = {place for place in range(self.size) if self.inside(place, fixed)}
        found = list(self.prefetches(taps)) if len(live) == self.size else []
        for first in range(0, self.size, count):
            # Behind the last position stands the last once more.
            places = [min(first + each, self.size - 1) for each in range(count)]
            if not live.intersection(places):
                continue
            images = tuple(
                self.image(integer(place), taps)
                if place in live
                else Load(_NONE, (integer(0),), DType.BF16)
                for place in places
            )
            found += self.products(integer(first), integer(first), taps, images)
        return tuple(found)

    def ends(self) -> tuple[Stmt, ...]:
        """Lays the sums out in rows, if they are not, and writes the finished values."""
        if self.factors.positions == 1:
            return super().ends()
        whole = [replace(each, name=f"{_WHOLE}{at}") for at, each in enumerate(self.accumulators())]
        return with_locals(whole, (*self.apart(), *self.stores(_WHOLE)))

    def apart(self) -> Iterator[Stmt]:
        """The instructions that lay sums out in rows."""
        for piece, _, width in self.block.pieces():
            name = apart(self.factors.rows[width])
            for first in range(0, self.rows, self.factors.positions):
                at = integer(first), integer(0)
                names = f"{_WHOLE}{piece}", f"{self.sums}{piece}"
                yield Instruct(name, tuple(Load(each, at, DType.F32) for each in names))


def apart(row: Instruction) -> str:
    """The instruction that lays the sums of another out in rows."""
    return f"{row.name}_apart"


def _bound(load: Load, values: Mapping[str, Expr]) -> Load:
    """A load with its variables replaced."""
    return replace(load, index=tuple(substitute(part, values) for part in load.index))
