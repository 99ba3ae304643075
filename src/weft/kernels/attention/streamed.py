"""Attention with keys in chunks, for more scores of a few queries than a near cache holds.

The maximum and the sum so far are kept, and what was summed is scaled when the maximum grows
(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018)::

    for block of queries:
      for chunk of keys:
        scores = ...;  new = max(top, their maximum);  factor = exp(top - new);  top = new
        total = total * factor + sum of (scores = exp(scores - top))
        mixed = mixed * factor + sum of scores * values
      out = mixed / total

A row of which only minus infinity was seen keeps a sum of zero, so that it ends as the
definition has it: NaN, or what a guard puts there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from weft.dtypes import DType
from weft.errors import InternalError
from weft.kernels.attention.panels import Chunk
from weft.kernels.attention.query_blocks import OUT, SCORES, TOTALS, AttentionWriter
from weft.kernels.elementwise.passes import Held, take_apart
from weft.kernels.products.microkernel import replaced
from weft.kernels.tiling import LaneBlock, blocks_of, even_tiles
from weft.kernels.writer import (
    LANE,
    for_range,
    integer,
    nested,
    plus,
    spans,
    times,
    vector,
    with_locals,
)
from weft.loops.definition import Compute
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.statements import rename_buffers
from weft.loops.walk import substitute
from weft.plan.attention import TOTAL
from weft.records import dataclass

_F32 = DType.F32
TOPS, BASES, FACTORS, GAINS, MIXED = "tops", "bases", "factors", "gains", "mixed"
_LOWEST = Const(float("-inf"), _F32)
_ZERO = Const(0.0, _F32)


@dataclass
class Streamed(AttentionWriter):
    """Writes the loops for some rows of queries and ``span`` panels of keys at a time."""

    span: int

    def chunks(self, body: Callable[[Chunk], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """What is done for every chunk, in loops."""
        found: list[Stmt] = []
        for number, block in enumerate(self.keys.blocks):
            if block.count == 1:  # maybe wider than what is left
                count = min(block.width, self.found.key.extent - block.start)
                pieces = ((number, integer(0), replace(block, start=0)),)
                found += body(Chunk(integer(block.start), count, pieces))
                continue
            for tile in even_tiles(block.count, self.span):
                panel = plus(times(Var("slice"), tile.size), tile.start)
                piece = (number, panel, LaneBlock(0, tile.size, block.widths))
                inner = Chunk(times(panel, block.width), tile.size * block.width, (piece,))
                found.append(for_range("slice", tile.count, body(inner)))
        return tuple(found)

    def block(self, first: Expr | None, size: int) -> tuple[Stmt, ...] | None:
        """The outputs of some queries."""
        column = self.found.column
        buffers = [
            Buffer(name, _F32, (size,), Access.LOCAL)
            for name in (TOPS, BASES, FACTORS, GAINS, TOTALS)
        ]
        mixed = Buffer(MIXED, _F32, (size, column.extent), Access.LOCAL)
        body = (
            *self.each_row(size, (TOPS, _LOWEST), (TOTALS, _ZERO)),
            *self.each_mixed(size, lambda point: Store(MIXED, point, _ZERO)),
            *self.chunks(lambda chunk: self.chunk(chunk, first, size, mixed)),
            *self.each_mixed(size, lambda point: self.finished(first, point)),
        )
        return with_locals([*buffers, mixed], body)

    def chunk(self, chunk: Chunk, first: Expr | None, size: int, mixed: Buffer) -> tuple[Stmt, ...]:
        """Adds a chunk of keys to what was summed so far."""
        scores = self.scores(size, chunk)
        key, point = Axis(self.found.key.var, chunk.count), (Var("row"),)
        score = Load(SCORES, (Var("row"), Var(key.var)), _F32)
        place = (Var(LANE),)
        top, new, factor, total, gain = (
            Load(name, place, _F32) for name in (TOPS, BASES, FACTORS, TOTALS, GAINS)
        )
        # A row of which nothing was seen yet takes off nothing.
        base = Select(Binary("eq", new, _LOWEST), _ZERO, new)
        most = Binary("max", Load(TOPS, point, _F32), Reduce("max", (key,), score))
        power = Unary("exp", Binary("sub", score, Load(BASES, point, _F32)))
        body = (
            *self.products(scores, first, chunk),
            *self.reduced(most, scores, BASES),
            *self.each_row(size, (FACTORS, Unary("exp", Binary("sub", top, base)))),
            *self.each_row(size, (TOPS, new)),
            *self.each_row(size, (BASES, base)),
            *self.reduced(Reduce("sum", (key,), power), scores, GAINS, held=power),
            *self.each_row(size, (TOTALS, Binary("add", Binary("mul", total, factor), gain))),
            *self.accumulated(scores, first, chunk, mixed),
        )
        return with_locals([scores], body)

    def reduced(
        self, value: Expr, scores: Buffer, name: str, held: Expr | None = None
    ) -> tuple[Stmt, ...]:
        """A reduction of every row of scores, which may become what is reduced."""
        size = scores.shape[0]
        output = Buffer(OUT, _F32, (size,), Access.WRITE)
        inputs = (scores, *(Buffer(each, _F32, (size,)) for each in (TOPS, BASES)))
        compute = Compute((Axis("row", size),), value)
        rows = take_apart(replace(self.task, compute=compute, inputs=inputs, output=output))
        if rows is None:
            raise InternalError(f"attention: the rows of {value} cannot be taken apart")
        if held is not None:
            summed, *rest = rows.passes
            place = Load(SCORES, (Var("row"), Var(summed.axes[0].var)), _F32)
            kept = Held(0, summed.value, place, None)
            rows = replace(rows, passes=(replace(summed, value=place), *rest), held=kept)
        return rename_buffers(self.along(rows, size), {OUT: name})

    def accumulated(
        self, scores: Buffer, first: Expr | None, chunk: Chunk, mixed: Buffer
    ) -> Iterator[Stmt]:
        """``mixed = mixed * factor + weights * values``."""
        spot, column = Axis("spot", mixed.shape[0]), self.found.column
        reduce = self.mixture(Var("spot"), chunk)
        before = Load(MIXED, (Var("spot"), Var(column.var)), _F32)
        value = Binary("mul", before, Load(FACTORS, (Var("spot"),), _F32))
        compute = Compute((spot, column), Binary("add", value, reduce))
        inner = replace(self.task, compute=compute, output=mixed)
        yield from self.mixing(inner, reduce, scores, spot, integer(0))

    def finished(self, first: Expr | None, point: tuple[Expr, Expr]) -> Store:
        """The output at a place of a block of queries."""
        found, compute = self.found, self.task.compute
        total = replaced(found.total, TOTAL, Load(TOTALS, point[:1], _F32))
        value = replaced(compute.value, found.mixed, Binary("div", Load(MIXED, point, _F32), total))
        at = {found.column.var: point[1]}
        if found.row and first:
            at[found.row.var] = plus(first, point[0])
        index = tuple(at.get(axis.var, Var(axis.var)) for axis in compute.axes)
        return Store(OUT, index, substitute(value, at))

    def each_row(self, size: int, *values: tuple[str, Expr]) -> Iterator[Stmt]:
        """Vectors along the rows of a block."""
        for block in blocks_of(size, self.lanes, 1):
            start = block.start
            for width in block.widths * block.count:
                at = {LANE: plus(integer(start), Var(LANE))}
                for name, value in values:
                    store = Store(name, (at[LANE],), substitute(value, at))
                    yield vector(width, store)
                start += width

    def each_mixed(
        self, size: int, store: Callable[[tuple[Expr, Expr]], Store]
    ) -> tuple[Stmt, ...]:
        """Stores for all rows of a block and all columns, vectors along the columns."""
        blocks = blocks_of(self.found.column.extent, self.lanes, 1)
        inner = spans(
            blocks,
            lambda _, width, start: [
                vector(width, store((Var("row"), plus(start, Var(LANE))))),
            ],
        )
        return nested((Axis("row", size),), tuple(inner))
