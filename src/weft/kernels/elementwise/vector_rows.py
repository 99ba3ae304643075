"""Rows whose elements lie side by side: vectors along the row, folded at the end.

A reduction runs on several accumulators at once, each a vector; what is left at the end of
the row takes narrower vectors.  Then halves are combined until one number is left::

    for rows:
      for chunk: total_v0[lane] += x[32 chunk + lane]; total_v1[lane] += x[32 chunk + 16 + lane]
      total_w4[lane] += x[192 + lane]
      fold16[lane] = total_v0[lane] + total_v1[lane]
      fold8[lane] = fold16[lane] + fold16[lane + 8]
      fold4[lane] = total_w4[lane] + (fold8[lane] + fold8[lane + 4])
      ...
      total = fold2[0] + fold2[1]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import prod

from weft.dtypes import DType
from weft.kernels.elementwise.lanes import lanes_of
from weft.kernels.elementwise.passes import Pass, Rows
from weft.kernels.tiling import LaneBlock, blocks_of
from weft.kernels.writer import (
    CHEAP,
    COSTLY,
    LANE,
    integer,
    nested,
    plus,
    spans,
    times,
    vector,
    with_locals,
)
from weft.loops.definition import COMBINE, neutral
from weft.loops.nodes import Access, Axis, Binary, Buffer, Expr, Load, LoopKind, Stmt, Store, Var
from weft.loops.statements import rename_buffers, substitute_stmts
from weft.loops.walk import dtype_of, substitute
from weft.records import dataclass

SHORT = 256
"""Elements of rows that run several at once."""


def applies(rows: Rows) -> bool:
    """Whether some reduction runs along a contiguous axis."""
    return any(_vector_axis(rows, each) is not None for each in rows.passes[:-1])


def body(rows: Rows) -> tuple[Stmt, ...]:
    """The loops of a task."""
    count = _together(rows)
    if count == 1:
        return nested(rows.outer, side_by_side(rows, [{}]), LoopKind.PARALLEL)
    *outer, last = rows.outer
    at = [{last.var: plus(times(Var(last.var), count), row)} for row in range(count)]
    axes = (*outer, Axis(last.var, last.extent // count))
    return nested(axes, side_by_side(rows, at), LoopKind.PARALLEL)


def side_by_side(rows: Rows, places: Sequence[Mapping[str, Expr]]) -> tuple[Stmt, ...]:
    """What is done for several rows, pass by pass.

    So there is work to do while a row waits for its folds.

    Args:
        rows: the task.
        places: values of the axes that tell rows apart, for each row.
    """
    row = _Row(rows)
    parts = row.parts()
    buffers = list(row.locals.values())
    if len(places) == 1:
        found = substitute_stmts([stmt for part in parts for stmt in part], places[0])
        return with_locals(buffers, found)
    names = [{b.name: f"{b.name}_r{number}" for b in buffers} for number in range(len(places))]
    found = tuple(
        stmt
        for part in parts
        for own, place in zip(names, places, strict=True)
        for stmt in rename_buffers(substitute_stmts(part, place), own)
    )
    return with_locals([replace(b, name=own[b.name]) for own in names for b in buffers], found)


def _together(rows: Rows) -> int:
    """How many short rows run side by side."""
    elements = max(prod(axis.extent for axis in each.axes) for each in rows.passes[:-1])
    if elements > SHORT or not rows.outer or rows.task.target.lanes(rows.task.output.dtype) == 1:
        return 1
    return next((count for count in (4, 3, 2) if rows.outer[-1].extent % count == 0), 1)


def _vector_axis(rows: Rows, each: Pass) -> Axis | None:
    """The axis of a pass that its vectors run along, if there is one."""
    if each.op:
        found = [axis for axis in each.axes if rows.streams(each, axis.var)]
        return max(found, key=lambda axis: axis.extent, default=None)
    steps = zip(rows.task.compute.axes, rows.task.output.steps, strict=True)
    return next((axis for axis, step in steps if step == 1 and axis.var in each.vars), None)


@dataclass(frozen=True)
class _Walk:
    """How a pass walks a row: the axis of its vectors, and how it is cut."""

    each: Pass
    axis: Axis | None
    blocks: tuple[LaneBlock, ...]

    @property
    def dtype(self) -> DType:
        """The type of the accumulators."""
        return dtype_of(self.each.value)

    def name(self, piece: int, width: int) -> str:
        """The accumulator of a vector of a block; wide ones serve all blocks."""
        widest = width == self.blocks[0].widths[0]
        return f"{self.each.name}_v{piece}" if widest else f"{self.each.name}_w{width}"

    def accumulators(self) -> dict[str, int]:
        """Names and widths."""
        return {
            self.name(piece, width): width
            for block in self.blocks
            for piece, width in enumerate(block.widths)
        }


@dataclass
class _Row:
    """Writes what is done for one row."""

    rows: Rows
    locals: dict[str, Buffer] = field(default_factory=dict[str, Buffer])

    def parts(self) -> list[tuple[Stmt, ...]]:
        """The statements of every pass."""
        parts: list[tuple[Stmt, ...]] = []
        held = self.rows.held
        if held and held.local:
            self.locals[held.local.name] = held.local
        for place, each in enumerate(self.rows.passes):
            found: list[Stmt] = []
            for name, value in each.before:
                self.local(name, dtype_of(value))
                found.append(Store(name, (), value))
            kept: list[Store] = []
            if held and held.maker == place:
                kept.append(Store(held.load.buffer, held.load.index, held.value))
            found += self.reduction(each, kept) if each.op else self.output(each)
            parts.append(tuple(found))
        return parts

    def local(self, name: str, dtype: DType, *shape: int) -> None:
        self.locals[name] = Buffer(name, dtype, shape, Access.LOCAL)

    def walk(self, each: Pass, vectors: int) -> _Walk:
        """How a pass walks the row, by so many vectors at once."""
        axis = _vector_axis(self.rows, each)
        if axis is None:
            return _Walk(each, None, (LaneBlock(0, 1, (1,)),))
        lanes = lanes_of(self.rows.task.target, each.value)
        return _Walk(each, axis, tuple(blocks_of(axis.extent, lanes, vectors if lanes > 1 else 1)))

    def reduction(self, each: Pass, kept: list[Store]) -> Iterator[Stmt]:
        """Clear, accumulate, fold."""
        walk = self.walk(each, COSTLY if kept or each.costly else CHEAP)
        dtype, lane = walk.dtype, (Var(LANE),)
        value = each.value
        for name, width in walk.accumulators().items():
            self.local(name, dtype, width)
            yield vector(width, Store(name, lane, neutral(each.op, dtype)))

        def update(piece: int, width: int, first: Expr) -> list[Stmt]:
            name = walk.name(piece, width)
            sum = Binary(COMBINE[each.op], Load(name, lane, dtype), value)
            return _at(walk, first, width, [*kept, Store(name, lane, sum)])

        yield from self.along(walk, tuple(spans(walk.blocks, update)))
        yield from self.fold(walk)

    def along(self, walk: _Walk, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Loops over the other axes of a row."""
        return nested([axis for axis in walk.each.axes if axis != walk.axis], body)

    def fold(self, walk: _Walk) -> Iterator[Stmt]:
        """Combines the lanes of all accumulators."""
        lane, dtype, op = Var(LANE), walk.dtype, COMBINE[walk.each.op]
        accumulators = walk.accumulators()
        width, wider = max(accumulators.values()), ""
        while True:
            terms: list[Expr] = [
                Load(name, (lane,), dtype) for name, own in accumulators.items() if own == width
            ]
            if wider:
                terms += [Load(wider, (place,), dtype) for place in (lane, plus(lane, width))]
            value = _balanced(op, terms)
            if width == 1:
                break
            wider = f"fold{width}_{dtype.value}"
            self.local(wider, dtype, width)
            yield vector(width, Store(wider, (lane,), value))
            width //= 2
        self.local(walk.each.name, dtype)
        yield Store(walk.each.name, (), substitute(value, {LANE: integer(0)}))

    def output(self, each: Pass) -> tuple[Stmt, ...]:
        """Writes the row."""
        walk = self.walk(each, 1)
        point = tuple(Var(axis.var) for axis in self.rows.task.compute.axes)
        store = Store("out", point, each.value)
        return self.along(
            walk,
            tuple(spans(walk.blocks, lambda _, width, first: _at(walk, first, width, [store]))),
        )


def _at(walk: _Walk, first: Expr, width: int, stores: list[Store]) -> list[Stmt]:
    """Stores for the lanes from ``first`` on."""
    at = {walk.axis.var: plus(first, Var(LANE))} if walk.axis else {}
    return [
        vector(width, Store(store.buffer, _placed(store.index, at), substitute(store.value, at)))
        for store in stores
    ]


def _placed(index: tuple[Expr, ...], at: dict[str, Expr]) -> tuple[Expr, ...]:
    return tuple(substitute(part, at) for part in index)


def _balanced(op: str, terms: list[Expr]) -> Expr:
    """All terms combined, by halves."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return Binary(op, _balanced(op, terms[:middle]), _balanced(op, terms[middle:]))
