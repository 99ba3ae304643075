"""Attention: the scores of a few queries at a time, which never leave the nearest cache.

Keys and values are laid out for the products once, then some rows of queries go through
three stages::

    for outer axes (batch, heads):                                           (parallel)
      keys[panel][width][lane], values[panel][key][lane]
      for block of queries:
        scores[query][key] = sum over width of query * keys
        totals[query] = sum over keys of (scores[query][key] = exp(scores - their maximum))
        out[query][lane] = (sum over keys of scores * values) / totals[query]

So there is no matrix of the scores of all queries, and softmax reads what the product left in
cache (Dao et al., "FlashAttention: fast and memory-efficient exact attention", 2022).  The
division comes after the second product, where it is of fewer elements; sums are otherwise
those of the definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from math import ceil, prod

from weft.cached import cached_property
from weft.dtypes import DType
from weft.kernels.attention.pair_panels import PairPanels
from weft.kernels.attention.panels import Chunk, Panels
from weft.kernels.contraction import Contraction
from weft.kernels.elementwise import vector_rows
from weft.kernels.elementwise.passes import Held, Pass, Rows, take_apart
from weft.kernels.products.microkernel import Microkernel, replaced
from weft.kernels.products.pair_cells import PairCell
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock, blocks_of, even_tiles, tile_shape
from weft.kernels.writer import for_range, integer, nested, plus, times, with_locals
from weft.loops.definition import Compute
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    For,
    Kernel,
    Load,
    LoopKind,
    Reduce,
    Stmt,
    Unary,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import rename_buffers
from weft.loops.walk import free_vars, loads, rename_loads, substitute
from weft.plan.attention import TOP, TOTAL, Attention
from weft.records import dataclass

_F32 = DType.F32
FEW_ROWS = 8
"""Queries for which laying out anew does not pay, unless lanes lie apart."""
_TOGETHER = 4
"""Rows of scores whose maxima and sums run side by side."""
SCORES, TOTALS, KEYS, VALUES = "scores", "totals", "keys", "values"
OUT = "out"


@dataclass
class AttentionWriter:
    """Writes the loops for some rows of queries at a time."""

    task: Task
    found: Attention
    rows: int
    lanes: int = field(init=False)

    def __post_init__(self) -> None:
        self.lanes = self.task.target.lanes(_F32)

    # --- what is laid out -----------------------------------------------------------------

    @cached_property
    def packs_keys(self) -> bool:
        """Whether keys are laid out anew: for many queries, or where lanes would lie apart."""
        return self.packs_values or self.apart(self.found.keys, self.found.key)

    @cached_property
    def packs_values(self) -> bool:
        """Whether values are laid out anew."""
        return self.found.row is not None and self.found.row.extent >= FEW_ROWS

    def apart(self, value: Expr, lanes: Axis) -> bool:
        """Whether elements that lanes would load together are apart in memory."""
        steps = {each.name: each.steps for each in self.task.inputs}
        return self.lanes > 1 and any(
            step != 1 and lanes.var in free_vars(part)
            for load in loads(value)
            for part, step in zip(load.index, steps.get(load.buffer, ()), strict=False)
        )

    @cached_property
    def bare(self) -> Expr:
        """The scores, with a load of ``TOTAL`` for the product in them."""
        return replaced(self.found.scores, self.found.product, TOTAL)

    @cached_property
    def keys(self) -> Panels | PairPanels:
        """The keys, lanes side by side."""
        key, vectors = self.found.key, self.shape[1]
        blocks = blocks_of(key.extent, self.lanes, vectors)
        if (
            self.packs_keys
            and key.extent > self.lanes
            and not any(load.index for load in loads(self.bare))
        ):
            # Nothing but keys is read, so that lanes past the last one do no harm.
            *whole, rest = blocks
            if rest.count == 1:
                count = -(-rest.width // self.lanes)
                blocks = [*whole, LaneBlock(rest.start, 1, (self.lanes,) * count)]
        return Panels(KEYS, self.found.keys, key, self.found.width, tuple(blocks))

    @cached_property
    def values(self) -> Panels | PairPanels:
        """The values, lanes side by side."""
        blocks = blocks_of(self.found.column.extent, self.lanes, self.shape[1])
        return Panels(VALUES, self.found.values, self.found.column, self.found.key, tuple(blocks))

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and vectors of a register tile."""
        return register_tile(self.task, self.found, self.rows)

    @cached_property
    def whole(self) -> Chunk:
        """All keys."""
        pieces = tuple((number, integer(0), block) for number, block in enumerate(self.keys.blocks))
        return Chunk(integer(0), self.found.key.extent, pieces)

    # --- loops ----------------------------------------------------------------------------

    def kernel(self) -> Kernel | None:
        """Everything, or ``None`` where the rows' loops do not apply."""
        body = self.queries()
        if body is None:
            return None
        body = self.with_panels(body)
        shares = self.shares()
        if shares > 1:
            body = (for_range("share", shares, body, LoopKind.PARALLEL),)
        body = nested(self.found.outer, body, LoopKind.PARALLEL)
        params = (*self.task.inputs, self.task.output)
        return simplify_kernel(Kernel(self.task.name, params, body))

    def with_panels(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The loops over queries of one head, behind those that lay its keys and values out."""
        panels = [self.keys] * self.packs_keys + [self.values] * self.packs_values
        fill = [stmt for each in panels for stmt in each.laid_out(self.task)]
        buffers = [b for each in panels for b in map(each.buffer, range(len(each.blocks)))]
        return with_locals(buffers, (*fill, *body))

    def shares(self) -> int:
        """Into how many parts the queries of one head are cut, for threads."""
        threads, heads = self.task.threads, prod(axis.extent for axis in self.found.outer)
        if self.found.row is None or heads >= 2 * threads or heads % threads == 0:
            return 1
        return min(-(-2 * threads // heads), -(-self.found.row.extent // self.rows))

    def queries(self) -> tuple[Stmt, ...] | None:
        """The loops over blocks of queries."""
        row = self.found.row
        if row is None:
            return self.block(None, 1)
        found: list[Stmt] = []
        shares = self.shares()
        for tiles in even_tiles(row.extent, self.rows):
            first = plus(times(Var("block"), tiles.size), tiles.start)
            body = self.block(first, tiles.size)
            if body is None:
                return None
            start, stop = (
                Binary("floordiv", times(plus(share, more), tiles.count), integer(shares))
                for share, more in ((Var("share"), 0), (Var("share"), 1))
            )
            if shares == 1:
                start, stop = integer(0), integer(tiles.count)
            found.append(For("block", start, stop, body))
        return tuple(found)

    def block(self, first: Expr | None, size: int) -> tuple[Stmt, ...] | None:
        """The outputs of some queries."""
        chunk = self.whole
        softmax = self.softmax(size)
        if softmax is None:
            return None
        scores = self.scores(size, chunk)
        totals = Buffer(TOTALS, _F32, (size,), Access.LOCAL)
        buffers = [scores] if self.task.exact else [scores, totals]
        stages = (
            *self.products(scores, first, chunk),
            *softmax,
            *self.mixtures(scores, first, chunk),
        )
        return with_locals(buffers, stages)

    @staticmethod
    def scores(size: int, chunk: Chunk) -> Buffer:
        """The scores of some queries and a chunk of keys."""
        padded = sum(block.count * block.width for _, _, block in chunk.pieces)
        return Buffer(SCORES, _F32, (size, padded), Access.LOCAL)

    # --- scores ---------------------------------------------------------------------------

    def products(self, scores: Buffer, first: Expr | None, chunk: Chunk) -> Iterator[Stmt]:
        """``scores = queries * keys``, scaled and masked."""
        found, spot, wide = self.found, Axis("spot", scores.shape[0]), Axis("wide", chunk.count)
        own = {found.key.var: plus(chunk.start, Var("wide"))}
        if found.row and first:
            own[found.row.var] = plus(first, Var("spot"))
        keys = Load(KEYS, (Var(found.width.var), Var("wide")), _F32)
        factor = Binary("mul", found.queries, keys if self.packs_keys else found.keys)
        reduce = Reduce("sum", (found.width,), factor)
        value = substitute(replaced(found.scores, found.product, reduce), own)
        reduce = substitute(reduce, own)
        assert isinstance(reduce, Reduce)
        inner = replace(
            self.task,
            compute=Compute((spot, wide), value),
            inputs=(*self.task.inputs, shaped(KEYS, found.width, wide)),
            output=scores,
        )
        weight = KEYS if self.packs_keys else None
        parts = Contraction(inner, reduce, reduce.value, (), wide, spot, (), weight)
        yield from self.tiles(parts, self.keys, chunk.pieces, integer(0), spot.extent)

    def tiles(
        self,
        parts: Contraction,
        panels: Panels | PairPanels,
        pieces: Sequence[tuple[int, Expr, LaneBlock]],
        origin: Expr | None,
        size: int,
    ) -> Iterator[Stmt]:
        """A product, panel by panel, a register tile of rows at a time."""
        for number, base, block in pieces:
            counter: Expr = Var("group") if block.count > 1 else integer(0)
            lane = plus(times(counter, block.width), block.start)
            weight = panels.buffer(number).name if parts.weight else ""
            body: list[Stmt] = []
            for tile in even_tiles(size, self.shape[0]):
                start = plus(times(Var("tile"), tile.size), tile.start)
                if tile.count == 1:
                    start = integer(tile.start)
                place = None if origin is None else plus(origin, start)
                kind = PairCell if parts.pairs else Microkernel
                cell = kind(parts, block, lane, plus(base, counter), weight, place, tile.size)
                inner = cell.statements()
                if tile.count > 1:
                    inner = (for_range("tile", tile.count, inner),)
                body += inner
            if block.count > 1:
                yield for_range("group", block.count, tuple(body))
            else:
                yield from body

    # --- softmax --------------------------------------------------------------------------

    def softmax(self, size: int) -> tuple[Stmt, ...] | None:
        """Scores become weights, or exponentials beside their totals."""
        rows = self.row_task(size)
        if rows is None or rows.held is None:
            return None
        if not self.task.exact:
            rows = self.undivided(rows, rows.held, size)
        found = self.along(rows, size)
        return rename_buffers(found, {OUT: SCORES if self.task.exact else TOTALS})

    def along(self, rows: Rows, size: int) -> tuple[Stmt, ...]:
        """The loops over rows of scores, some of them side by side."""
        found: list[Stmt] = []
        count = _TOGETHER if self.lanes > 1 and self.found.key.extent <= vector_rows.SHORT else 1
        whole, rest = divmod(size, count)
        for number, start, together in ((whole, 0, count), (rest, whole * count, 1)):
            if number:
                base = plus(times(Var("patch"), together), start)
                places = [{"row": plus(base, offset)} for offset in range(together)]
                body = vector_rows.side_by_side(rows, places)
                found.append(for_range("patch", number, body))
        return tuple(found)

    def score(self, row: Expr) -> Expr:
        """What the softmax reads of a query."""
        return Load(SCORES, (row, Var(self.found.key.var)), _F32)

    def row_task(self, size: int) -> Rows | None:
        """``exp(scores - top) / total``, along a row."""
        key, row = self.found.key, Axis("row", size)
        score = self.score(Var("row"))
        top = replaced(self.found.top, TOP, Reduce("max", (key,), score))
        power = Unary("exp", Binary("sub", score, top))
        total = replaced(self.found.total, TOTAL, Reduce("sum", (key,), power))
        padded = self.scores(size, self.whole).shape[1]
        scores = Buffer(SCORES, _F32, (size, key.extent), Access.READ, (padded, 1))
        task = replace(
            self.task,
            compute=Compute((row, key), Binary("div", power, total)),
            inputs=(scores,),
            output=replace(scores, name=OUT, access=Access.WRITE),
        )
        return take_apart(task)

    def undivided(self, rows: Rows, held: Held, size: int) -> Rows:
        """The rows with exponentials in place of scores, and divisors in place of weights."""
        *reductions, _ = (
            replace(each, value=rename_loads(each.value, {OUT: SCORES})) for each in rows.passes
        )
        total = replaced(self.found.total, TOTAL, Load(reductions[-1].name, (), _F32))
        total = self.divisor(total)
        kept = Load(SCORES, held.load.index, _F32)
        output = Buffer(OUT, _F32, (size,), Access.WRITE)
        compute = Compute((Axis("row", size),), total)
        return Rows(
            replace(rows.task, compute=compute, output=output),
            rows.outer,
            (*reductions, Pass("", (), total, "")),
            replace(held, load=kept),
        )

    def divisor(self, total: Expr) -> Expr:
        """What is kept of the sum of a query's weights."""
        return total

    # --- means of values ------------------------------------------------------------------

    def mixtures(self, scores: Buffer, first: Expr | None, chunk: Chunk) -> Iterator[Stmt]:
        """``out = weights * values``, divided where weights were not."""
        row = self.local_row(first)
        reduce = self.mixture(row, chunk)
        mean: Expr = reduce
        if not self.task.exact:
            mean = Binary("div", reduce, Load(TOTALS, (row,), _F32))
        compute = self.task.compute
        value = replaced(compute.value, self.found.mixed, mean)
        inner = replace(self.task, compute=replace(compute, value=value))
        yield from self.mixing(inner, reduce, scores, self.found.row, first)

    def local_row(self, first: Expr | None) -> Expr:
        """The number of a query within its block."""
        row = self.found.row
        return Binary("sub", Var(row.var), first) if row and first else integer(0)

    def mixture(self, row: Expr, chunk: Chunk) -> Reduce:
        """The sum over a chunk of keys of weights times values."""
        found = self.found
        key = plus(chunk.start, Var(found.key.var))
        weight = Load(SCORES, (row, Var(found.key.var)), _F32)
        values: Expr = Load(VALUES, (key, Var(found.column.var)), _F32)
        if not self.packs_values:
            values = substitute(found.values, {found.key.var: key})
        axis = Axis(found.key.var, chunk.count)
        return Reduce("sum", (axis,), Binary("mul", weight, values))

    def mixing(
        self, inner: Task, reduce: Reduce, scores: Buffer, row: Axis | None, first: Expr | None
    ) -> Iterator[Stmt]:
        """The register tiles of a product with values."""
        found = self.found
        values = shaped(VALUES, found.key, found.column)
        inner = replace(inner, inputs=(*inner.inputs, scores, values))
        name = VALUES if self.packs_values else None
        parts = Contraction(inner, reduce, reduce.value, (), found.column, row, (), name)
        pieces = [(n, integer(0), block) for n, block in enumerate(self.values.blocks)]
        yield from self.tiles(parts, self.values, pieces, first, scores.shape[0])


def shaped(name: str, *axes: Axis) -> Buffer:
    """A packed buffer over some axes."""
    return Buffer(name, _F32, tuple(axis.extent for axis in axes))


def register_tile(task: Task, found: Attention, rows: int) -> tuple[int, int]:
    """Rows and vectors of a register tile of the products."""
    lanes = task.target.lanes(_F32)
    spot, wide = Axis("spot", rows), Axis("wide", max(2 * lanes, found.key.extent // lanes * lanes))
    value = Binary(
        "mul",
        Load(SCORES, (Var("spot"), Var("point")), _F32),
        Load(KEYS, (Var("point"), Var("wide")), _F32),
    )
    reduce = Reduce("sum", (Axis("point", found.width.extent),), value)
    inner = replace(task, compute=Compute((spot, wide), reduce))
    parts = Contraction(inner, reduce, value, (), wide, spot, (), None)
    positions, vectors = tile_shape(parts, lanes)
    if not task.target.fused:
        return positions, vectors
    waiting = ceil(task.target.issue.latency * task.target.multiply_adds)
    return positions, min(max(2, waiting // positions), vectors)
