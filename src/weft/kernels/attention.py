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

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from weft.dtypes import DType
from weft.kernels import maps, vector_rows
from weft.kernels.arithmetic import integer, plus, times
from weft.kernels.cell import Cell, replaced
from weft.kernels.loops_of_rows import LANE, nested, vector, with_locals
from weft.kernels.parts import Parts
from weft.kernels.passes import Held, Pass, Rows, take_apart
from weft.kernels.task import Task
from weft.kernels.tiling import Block, blocks_of, even_tiles, tile_shape
from weft.loops.definition import Compute
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    Kind,
    Load,
    Reduce,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import loads, map_expr, rename_buffers, rename_loads, substitute
from weft.plan.attention import TOP, TOTAL, Attention, attention_of
from weft.plan.implementation import Implementation, Operand

_F32 = DType.F32
_FEW_ROWS = 8
"""Queries for which laying out keys and values anew does not pay."""
_TOGETHER = 4
"""Rows of scores whose maxima and sums run side by side."""
SCORES, TOTALS, KEYS, VALUES = "scores", "totals", "keys", "values"
_OUT = "out"


@dataclass(frozen=True)
class Panels:
    """A factor of a product, laid out for it: ``[panel][step of the sum][lane]``.

    Attributes:
        name: of the first buffer; value: of an element.
        lanes: the axis of vectors; depth: of the sum.
        blocks: of lanes, the last maybe wider than what is left.
    """

    name: str
    value: Expr
    lanes: Axis
    depth: Axis
    blocks: tuple[Block, ...]

    def buffer(self, number: int) -> Buffer:
        """The panels of a block."""
        block = self.blocks[number]
        shape = (block.count, self.depth.extent, block.width)
        return Buffer(f"{self.name}_{number}", _F32, shape, Access.LOCAL)

    def laid_out(self, task: Task) -> Iterator[Stmt]:
        """The loops that fill the panels."""
        for number, block in enumerate(self.blocks):
            buffer = self.buffer(number)
            own = min(block.width, self.lanes.extent - block.start)
            if own < block.width:
                yield self.cleared(buffer, block)
            lane = plus(plus(times(Var("group"), block.width), block.start), Var("spot"))
            axes = (Axis("group", block.count), self.depth, Axis("spot", own))
            compute = Compute(axes, substitute(self.value, {self.lanes.var: lane}))
            inner = replace(task, compute=compute, output=replace(buffer, name=_OUT))
            yield from rename_buffers(maps.loops(inner) or _plainly(inner), {_OUT: buffer.name})

    def cleared(self, buffer: Buffer, block: Block) -> Stmt:
        """Zeros in the lanes that nothing belongs to, and in others."""
        body: list[Stmt] = []
        lane = 0
        for width in block.widths:
            place = (integer(0), Var(self.depth.var), plus(integer(lane), Var(LANE)))
            body.append(vector(width, Store(buffer.name, place, Const(0.0, _F32))))
            lane += width
        return For(self.depth.var, integer(0), integer(self.depth.extent), tuple(body))


def _plainly(task: Task) -> tuple[Stmt, ...]:
    """One element after another."""
    point = tuple(Var(axis.var) for axis in task.compute.axes)
    return nested(task.compute.axes, (Store(_OUT, point, task.compute.value),))


@dataclass
class _Writer:
    """Writes the loops for some rows of queries at a time."""

    task: Task
    found: Attention
    rows: int
    lanes: int = field(init=False)

    def __post_init__(self) -> None:
        self.lanes = self.task.target.lanes(_F32)

    # --- what is laid out -----------------------------------------------------------------

    @cached_property
    def packs(self) -> bool:
        """Whether keys and values are laid out anew."""
        return self.found.row is not None and self.found.row.extent >= _FEW_ROWS

    @cached_property
    def keys(self) -> Panels:
        """The keys, lanes side by side."""
        key, vectors = self.found.key, self.shape[1]
        blocks = blocks_of(key.extent, self.lanes, vectors)
        bare = map_expr(
            self.found.scores, lambda node: TOTAL if node == self.found.product else node
        )
        if self.packs and key.extent > self.lanes and not any(load.index for load in loads(bare)):
            # Nothing but keys is read, so that lanes past the last one do no harm.
            *whole, rest = blocks
            if rest.count == 1:
                count = -(-rest.width // self.lanes)
                blocks = [*whole, Block(rest.start, 1, (self.lanes,) * count)]
        return Panels(KEYS, self.found.keys, key, self.found.width, tuple(blocks))

    @cached_property
    def values(self) -> Panels:
        """The values, lanes side by side."""
        blocks = blocks_of(self.found.column.extent, self.lanes, self.shape[1])
        return Panels(VALUES, self.found.values, self.found.column, self.found.key, tuple(blocks))

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and vectors of a register tile."""
        return register_tile(self.task, self.found, self.rows)

    @property
    def padded(self) -> int:
        """Places for the scores of one query."""
        return sum(block.count * block.width for block in self.keys.blocks)

    # --- loops ----------------------------------------------------------------------------

    def kernel(self) -> Kernel | None:
        """Everything, or ``None`` where the rows' loops do not apply."""
        body = self.queries()
        if body is None:
            return None
        if self.packs:
            panels = (self.keys, self.values)
            fill = [stmt for each in panels for stmt in each.laid_out(self.task)]
            buffers = [b for each in panels for b in map(each.buffer, range(len(each.blocks)))]
            body = with_locals(buffers, (*fill, *body))
        shares = self.shares()
        if shares > 1:
            body = (For("share", integer(0), integer(shares), body, Kind.PARALLEL),)
        body = nested(self.found.outer, body, Kind.PARALLEL)
        params = (*self.task.inputs, self.task.output)
        return simplify_kernel(Kernel(self.task.name, params, body))

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
        softmax = self.softmax(size)
        if softmax is None:
            return None
        scores = Buffer(SCORES, _F32, (size, self.padded), Access.LOCAL)
        totals = Buffer(TOTALS, _F32, (size,), Access.LOCAL)
        buffers = [scores] if self.task.exact else [scores, totals]
        return with_locals(
            buffers, (*self.products(scores, first), *softmax, *self.mixtures(scores, first))
        )

    # --- scores ---------------------------------------------------------------------------

    def products(self, scores: Buffer, first: Expr | None) -> Iterator[Stmt]:
        """``scores = queries * keys``, scaled and masked."""
        found, size = self.found, scores.shape[0]
        spot = Axis("spot", size)
        own = {found.row.var: plus(first, Var("spot"))} if found.row and first else {}
        keys = Load(KEYS, (Var(found.width.var), Var(found.key.var)), _F32)
        factor = Binary("mul", found.queries, keys if self.packs else found.keys)
        reduce = Reduce("sum", (found.width,), factor)
        value = substitute(replaced(found.scores, found.product, reduce), own)
        reduce = substitute(reduce, own)
        assert isinstance(reduce, Reduce)
        inner = replace(
            self.task,
            compute=Compute((spot, found.key), value),
            inputs=(*self.task.inputs, _shaped(KEYS, found.width, found.key)),
            output=scores,
        )
        weight = KEYS if self.packs else None
        parts = Parts(inner, reduce, reduce.value, (), found.key, spot, (), weight)
        yield from self.tiles(parts, self.keys, integer(0), size)

    def tiles(self, parts: Parts, panels: Panels, origin: Expr | None, size: int) -> Iterator[Stmt]:
        """A product, panel by panel, a register tile of rows at a time."""
        for number, block in enumerate(panels.blocks):
            counter: Expr = Var("group") if block.count > 1 else integer(0)
            lane = plus(times(counter, block.width), block.start)
            weight = panels.buffer(number).name if parts.weight else ""
            body: list[Stmt] = []
            for tile in even_tiles(size, self.shape[0]):
                start = plus(times(Var("tile"), tile.size), tile.start)
                if tile.count == 1:
                    start = integer(tile.start)
                place = None if origin is None else plus(origin, start)
                cell = Cell(parts, block, lane, counter, weight, place, tile.size)
                inner = cell.statements()
                if tile.count > 1:
                    inner = (For("tile", integer(0), integer(tile.count), inner),)
                body += inner
            if block.count > 1:
                yield For("group", integer(0), integer(block.count), tuple(body))
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
        found: list[Stmt] = []
        count = _TOGETHER if self.lanes > 1 and self.found.key.extent <= vector_rows.SHORT else 1
        whole, rest = divmod(size, count)
        for number, start, together in ((whole, 0, count), (rest, whole * count, 1)):
            if number:
                base = plus(times(Var("patch"), together), start)
                places = [{"row": plus(base, offset)} for offset in range(together)]
                body = vector_rows.side_by_side(rows, places)
                found.append(For("patch", integer(0), integer(number), body))
        return rename_buffers(found, {_OUT: SCORES if self.task.exact else TOTALS})

    def row_task(self, size: int) -> Rows | None:
        """``exp(scores - top) / total``, along a row."""
        key, row = self.found.key, Axis("row", size)
        score = Load(SCORES, (Var("row"), Var(key.var)), _F32)
        top = _given(self.found.top, TOP, Reduce("max", (key,), score))
        power = Unary("exp", Binary("sub", score, top))
        total = _given(self.found.total, TOTAL, Reduce("sum", (key,), power))
        scores = Buffer(SCORES, _F32, (size, key.extent), Access.READ, (self.padded, 1))
        task = replace(
            self.task,
            compute=Compute((row, key), Binary("div", power, total)),
            inputs=(scores,),
            output=replace(scores, name=_OUT, access=Access.WRITE),
        )
        return take_apart(task)

    def undivided(self, rows: Rows, held: Held, size: int) -> Rows:
        """The rows with exponentials in place of scores, and divisors in place of weights."""
        *reductions, _ = (
            replace(each, value=rename_loads(each.value, {_OUT: SCORES})) for each in rows.passes
        )
        total = _given(self.found.total, TOTAL, Load(reductions[-1].name, (), _F32))
        kept = Load(SCORES, held.load.index, _F32)
        output = Buffer(_OUT, _F32, (size,), Access.WRITE)
        compute = Compute((Axis("row", size),), total)
        return Rows(
            replace(rows.task, compute=compute, output=output),
            rows.outer,
            (*reductions, Pass("", (), total, "")),
            replace(held, load=kept),
        )

    # --- means of values ------------------------------------------------------------------

    def mixtures(self, scores: Buffer, first: Expr | None) -> Iterator[Stmt]:
        """``out = weights * values``, divided where weights were not."""
        found, task = self.found, self.task
        row: Expr = integer(0)
        if found.row and first:
            row = Binary("sub", Var(found.row.var), first)
        weight = Load(SCORES, (row, Var(found.key.var)), _F32)
        values = Load(VALUES, (Var(found.key.var), Var(found.column.var)), _F32)
        factor = Binary("mul", weight, values if self.packs else found.values)
        reduce = Reduce("sum", (found.key,), factor)
        mean: Expr = reduce
        if not task.exact:
            mean = Binary("div", reduce, Load(TOTALS, (row,), _F32))
        value = replaced(task.compute.value, found.mixed, mean)
        inner = replace(
            task,
            compute=replace(task.compute, value=value),
            inputs=(*task.inputs, scores, _shaped(VALUES, found.key, found.column)),
        )
        name = VALUES if self.packs else None
        parts = Parts(inner, reduce, factor, (), found.column, found.row, (), name)
        yield from self.tiles(parts, self.values, first, scores.shape[0])


def _given(value: Expr, old: Expr, new: Expr) -> Expr:
    return map_expr(value, lambda node: new if node == old else node)


def _shaped(name: str, *axes: Axis) -> Buffer:
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
    parts = Parts(inner, reduce, value, (), wide, spot, (), None)
    positions, vectors = tile_shape(parts, lanes)
    return positions, min(2, vectors) if task.target.fused else vectors


def write(task: Task, rows: int) -> Implementation | None:
    """The kernel of a task that is attention, ``rows`` queries at a time.

    ``None`` where it is not, or where its softmax is none that these loops know.
    """
    found = attention_of(task.compute)
    if found is None:
        return None
    kernel = _Writer(task, found, rows).kernel()
    if kernel is None:
        return None
    return Implementation(kernel, tuple(map(Operand, task.values)), f"attention-{rows}")
