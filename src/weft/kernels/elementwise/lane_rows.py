"""Rows across the output's fastest axis: every lane has a row of its own, nothing to fold.

::

    for outer axes:
      for block of lanes:
        for k: top_v0[lane] = max(top_v0[lane], x[k, lane]); top_v1[lane] = max(...)
        for k: total_v0[lane] += (held_v0[k, lane] = exp(x[k, lane] - top_v0[lane])); ...
        for k: out[k, lane] = held_v0[k, lane] / total_v0[lane]; ...
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

from weft.kernels.elementwise.lanes import lanes_of
from weft.kernels.elementwise.passes import HELD, MOST_HELD, Held, Pass, Rows
from weft.kernels.tiling import LaneBlock, blocks_of
from weft.kernels.writer import (
    CHEAP,
    CHUNK,
    COSTLY,
    LANE,
    block_origin,
    for_range,
    nested,
    plus,
    vector,
    with_locals,
)
from weft.loops.definition import COMBINE, neutral
from weft.loops.nodes import Access, Axis, Binary, Buffer, Expr, Load, LoopKind, Stmt, Store, Var
from weft.loops.walk import dtype_of, map_expr, substitute
from weft.records import dataclass


def applies(rows: Rows) -> bool:
    """Whether all reductions read vectors along the output's fastest axis."""
    lanes = _lanes(rows)
    return lanes is not None and all(rows.streams(each, lanes.var) for each in rows.passes[:-1])


def body(rows: Rows) -> tuple[Stmt, ...]:
    """The loops of a task."""
    lanes = _lanes(rows)
    assert lanes is not None
    vectors = COSTLY if any(each.costly for each in rows.passes) else CHEAP
    width = min(lanes_of(rows.task.target, each.value) for each in rows.passes)
    blocks = blocks_of(lanes.extent, width, vectors if width > 1 else 1)
    if rows.held and rows.held.local and _bytes(rows.held.local, blocks[0]) > MOST_HELD:
        rows = rows.recomputing()
    outer = [axis for axis in rows.outer if axis != lanes]
    # Threads share perfect nests of loops only.
    kind = LoopKind.PARALLEL if len(blocks) == 1 or not outer else LoopKind.SERIAL
    found: list[Stmt] = []
    for block in blocks:
        inner = _Lanes(rows, lanes, block, block_origin(block, CHUNK)).statements()
        if block.count > 1:
            inner = (for_range(CHUNK, block.count, inner, kind),)
        found += inner
    return nested(outer, tuple(found), LoopKind.PARALLEL)


def _lanes(rows: Rows) -> Axis | None:
    axes = rows.task.compute.axes
    contiguous = axes and rows.task.output.steps[-1] == 1 and axes[-1] in rows.outer
    return axes[-1] if contiguous else None


def _bytes(held: Buffer, block: LaneBlock) -> int:
    size = held.dtype.bytes * block.width
    for extent in held.shape:
        size *= extent
    return size


@dataclass
class _Lanes:
    """Writes what is done for the rows of a block of lanes."""

    rows: Rows
    lanes: Axis
    block: LaneBlock
    first: Expr
    locals: dict[str, Buffer] = field(default_factory=dict[str, Buffer])

    def statements(self) -> tuple[Stmt, ...]:
        """All passes."""
        found: list[Stmt] = []
        held = self.rows.held
        for place, each in enumerate(self.rows.passes):
            for name, value in each.before:
                found += self.vectors(Store(name, (), value))
            kept = [self.keep(held)] if held and held.maker == place else []
            found += self.reduction(each, kept) if each.op else self.output(each)
        return with_locals(list(self.locals.values()), tuple(found))

    def keep(self, held: Held) -> Store:
        """Stores what later passes want of an element."""
        return Store(held.load.buffer, held.load.index, held.value)

    def reduction(self, each: Pass, kept: list[Store]) -> Iterator[Stmt]:
        """Clear and accumulate."""
        dtype = dtype_of(each.value)
        yield from self.vectors(Store(each.name, (), neutral(each.op, dtype)))
        old = Load(each.name, (), dtype)
        sum = Binary(COMBINE[each.op], old, each.value)
        yield from nested(each.axes, self.vectors(*kept, Store(each.name, (), sum)))

    def output(self, each: Pass) -> tuple[Stmt, ...]:
        """Writes the rows."""
        point = tuple(Var(axis.var) for axis in self.rows.task.compute.axes)
        return nested(each.axes, self.vectors(Store("out", point, each.value)))

    def vectors(self, *stores: Store) -> tuple[Stmt, ...]:
        """Stores for every vector of the block."""
        found: list[Stmt] = []
        for piece, offset, width in self.block.pieces():
            for store in stores:
                value = self.at(store.value, piece, offset)
                place = self.at(Load(store.buffer, store.index, dtype_of(value)), piece, offset)
                assert isinstance(place, Load)
                self.declare(store, place, width)
                found.append(vector(width, Store(place.buffer, place.index, value)))
        return tuple(found)

    def declare(self, store: Store, place: Load, width: int) -> None:
        """Makes room for a local that is stored to."""
        if place.buffer != store.buffer and place.buffer not in self.locals:
            held = self.rows.held
            local = held.local if held and store.buffer == HELD else None
            shape = (*local.shape, width) if local else (width,)
            self.locals[place.buffer] = Buffer(place.buffer, place.dtype, shape, Access.LOCAL)

    def at(self, value: Expr, piece: int, offset: int) -> Expr:
        """An expression for the lanes of a vector: accumulators have one for each."""
        buffers = {buffer.name for buffer in (*self.rows.task.inputs, self.rows.task.output)}

        def own(node: Expr) -> Expr:
            if isinstance(node, Load) and node.buffer not in buffers:
                return replace(
                    node, buffer=f"{node.buffer}_v{piece}", index=(*node.index, Var(LANE))
                )
            return node

        lane = plus(plus(self.first, offset), Var(LANE))
        return substitute(map_expr(value, own), {self.lanes.var: lane})
