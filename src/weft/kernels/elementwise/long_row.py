"""One row that a core's caches do not hold, as of a norm over an image: line by line.

The sums of each line are kept, a number for every lane, and added up when all lines are done;
threads share the lines.  What a norm sums next, squares of distances from the mean, takes no walk
along the row of its own: around the mean of each line they are summed while the line is near, and
moved to the mean of all when that is known (T. Chan, G. Golub, R. LeVeque, 1979)::

    for line:
      lines[line, lane] = sum over the line of x
      means[line, lane] = lines[line, lane] / count
      squares[line, lane] = sum over the line of (x - means[line, lane])^2
    mean = sum of lines / (count lanes)
    squared = sum of squares + count (means - mean)^2
    for line: out = (x - mean) * f(squared)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from weft.dtypes import DType
from weft.kernels.elementwise.lanes import lanes_of
from weft.kernels.elementwise.passes import Pass, Rows
from weft.kernels.tiling import blocks_of
from weft.kernels.writer import (
    CHEAP,
    LANE,
    for_range,
    integer,
    nested,
    plus,
    spans,
    vector,
    with_locals,
)
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import dtype_of, free_vars, substitute
from weft.records import dataclass

_FLOAT = DType.F32


def applies(rows: Rows) -> bool:
    """Whether the task is one such row of sums, in lines of whole vectors."""
    return _shape(rows) is not None


def body(rows: Rows) -> tuple[Stmt, ...]:
    """The loops of a task."""
    shape = _shape(rows)
    assert shape is not None
    return _LongRow(rows, *shape).body()


def _shape(rows: Rows) -> tuple[Axis, tuple[Axis, ...], Axis, int] | None:
    """The axis of lines, those inside, the one of lanes, and how many lanes there are."""
    *sums, last = rows.passes
    target, output = rows.task.target, rows.task.output
    if rows.outer or rows.held or not target.caches or len(last.axes) < 2:
        return None
    if any(each.op != "sum" or dtype_of(each.value) is not _FLOAT for each in sums):
        return None
    size = output.dtype.bytes * prod(axis.extent for axis in last.axes)
    if size <= target.caches[-1] // 2 or any(each.vars != last.vars for each in sums):
        return None
    steps = zip(rows.task.compute.axes, output.steps, strict=True)
    along = next((axis for axis, step in steps if step == 1), None)
    lanes = min(lanes_of(target, each.value) for each in rows.passes)
    if along is None or lanes == 1 or along.extent % lanes:
        return None
    if not all(rows.streams(each, along.var) for each in rows.passes):
        return None
    line, *inner = (axis for axis in last.axes if axis != along)
    return line, tuple(inner), along, lanes


def _squared(each: Pass) -> tuple[Expr, Expr] | None:
    """``x`` and ``m`` of a sum of ``(x - m) * (x - m)`` where ``m`` is the same for all."""
    match each.value:
        case Binary("mul", Binary("sub", x, Load(index=()) as mean) as left, right) if (
            left == right and free_vars(x) & each.vars
        ):
            return x, mean
        case _:
            return None


@dataclass(frozen=True)
class _LongRow:
    """Writes the loops.

    Attributes:
        rows: the task.
        line: the axis whose elements are lines; inner: other axes of a line.
        along: the axis of the lanes; lanes: of a vector.
    """

    rows: Rows
    line: Axis
    inner: tuple[Axis, ...]
    along: Axis
    lanes: int

    def body(self) -> tuple[Stmt, ...]:
        """All lines for each sum, then for the output."""
        found: list[Stmt] = []
        kept: list[Buffer] = []
        *sums, _ = self.rows.passes
        place = 0
        while place < len(sums):
            taken = 2 if place + 1 < len(sums) and self.follows(*sums[place : place + 2]) else 1
            found += self.sum(place, taken, kept)
            place += taken
        found.append(self.lines(self.known(place, self.output())))
        return with_locals(kept, tuple(found))

    def follows(self, first: Pass, second: Pass) -> bool:
        """Whether squares around a mean can be summed along with another sum."""
        squared = _squared(second)
        return squared is not None and _times(first.value, squared[0]) is not None

    @property
    def count(self) -> int:
        """Elements that a lane has of a line."""
        return prod(axis.extent for axis in self.inner) * self.along.extent // self.lanes

    def sum(self, place: int, taken: int, kept: list[Buffer]) -> Iterator[Stmt]:
        """One sum, and that of squares which follows it if two are taken."""
        each, *squares = self.rows.passes[place : place + taken]
        inside = self.added(each.name, each.value)
        kept.append(self.buffer(each.name))
        totals: list[tuple[str, Expr]] = [(each.name, self.kept(each.name))]
        for other in squares:
            squared = _squared(other)
            assert squared is not None
            x, mean = squared
            means = f"{other.name}_mean"
            kept += [self.buffer(means), self.buffer(other.name)]
            times = _times(each.value, x)
            assert times is not None
            mean_of = Binary("mul", self.kept(each.name), Const(1 / (times * self.count), _FLOAT))
            inside += (vector(self.lanes, Store(_kept(means), self.kept(means).index, mean_of)),)
            inside += self.added(other.name, _square(x, self.kept(means)))
            moved = Binary("mul", Const(self.count, _FLOAT), _square(self.kept(means), mean))
            totals.append((other.name, Binary("add", self.kept(other.name), moved)))
        yield self.lines(self.known(place, inside))
        for number, (name, value) in enumerate(totals):
            yield from self.known(place + number, self.total(name, value))

    def known(self, place: int, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Statements of a pass with what the sums before it determine."""
        before: list[tuple[str, Expr]] = []
        for number, each in enumerate(self.rows.passes[: place + 1]):
            before += each.before
            if number < place:
                total = Load(_kept(each.name), (integer(self.line.extent), integer(0)), _FLOAT)
                before.append((each.name, total))
        stores = [Store(name, (), value) for name, value in before]
        buffers = [_local(name, dtype_of(value)) for name, value in before]
        return with_locals(buffers, (*stores, *body))

    def lines(self, body: tuple[Stmt, ...]) -> Stmt:
        """For every line."""
        return for_range(self.line.var, self.line.extent, body, LoopKind.PARALLEL)

    def buffer(self, name: str) -> Buffer:
        """What is kept of every line for each lane, and at its end the total."""
        return _local(_kept(name), _FLOAT, self.line.extent + 1, self.lanes)

    def kept(self, name: str) -> Load:
        """What is kept of a line for a lane."""
        return Load(_kept(name), (Var(self.line.var), Var(LANE)), _FLOAT)

    def added(self, name: str, value: Expr) -> tuple[Stmt, ...]:
        """Sums a value along a line, and keeps it."""
        blocks = blocks_of(self.along.extent, self.lanes, CHEAP)
        pieces = len(blocks[0].widths)
        sums = [f"{name}_v{piece}" for piece in range(pieces)]

        def update(piece: int, width: int, first: Expr) -> list[Stmt]:
            more = substitute(value, {self.along.var: plus(first, Var(LANE))})
            return [
                vector(width, Store(sums[piece], (Var(LANE),), _plus(_lane(sums[piece]), more)))
            ]

        total: Expr = _lane(sums[0])
        for each in sums[1:]:
            total = _plus(total, _lane(each))
        cleared = [
            vector(self.lanes, Store(each, (Var(LANE),), Const(0.0, _FLOAT))) for each in sums
        ]
        walk = nested(self.inner, tuple(spans(blocks, update)))
        keep = vector(self.lanes, Store(_kept(name), (Var(self.line.var), Var(LANE)), total))
        buffers = [_local(each, _FLOAT, self.lanes) for each in sums]
        return with_locals(buffers, (*cleared, *walk, keep))

    def total(self, name: str, value: Expr) -> tuple[Stmt, ...]:
        """Adds up what is kept of all lines, then all lanes."""
        own, end = f"{name}_v", (integer(self.line.extent), integer(0))
        lane = (Var(LANE),)
        total = Load(_kept(name), end, _FLOAT)
        return with_locals(
            [_local(own, _FLOAT, self.lanes)],
            (
                vector(self.lanes, Store(own, lane, Const(0.0, _FLOAT))),
                for_range(
                    self.line.var,
                    self.line.extent,
                    (vector(self.lanes, Store(own, lane, _plus(_lane(own), value))),),
                ),
                Store(_kept(name), end, Const(0.0, _FLOAT)),
                for_range(LANE, self.lanes, (Store(_kept(name), end, _plus(total, _lane(own))),)),
            ),
        )

    def output(self) -> tuple[Stmt, ...]:
        """Writes a line."""
        last = self.rows.passes[-1]
        point = tuple(Var(axis.var) for axis in self.rows.task.compute.axes)

        def write(_: int, width: int, first: Expr) -> list[Stmt]:
            at = {self.along.var: plus(first, Var(LANE))}
            index = tuple(substitute(part, at) for part in point)
            return [vector(width, Store("out", index, substitute(last.value, at)))]

        blocks = blocks_of(self.along.extent, self.lanes, 1)
        return nested(self.inner, tuple(spans(blocks, write)))


def _times(value: Expr, x: Expr) -> float | None:
    """The constant that multiplies ``x`` in a value, ``None`` where it is something else."""
    match value:
        case Binary("mul", lhs, Const(factor)) if lhs == x and factor:
            return float(factor)
        case _:
            return 1.0 if value == x else None


def _square(x: Expr, mean: Expr) -> Expr:
    distance = Binary("sub", x, mean)
    return Binary("mul", distance, distance)


def _plus(lhs: Expr, rhs: Expr) -> Expr:
    return Binary("add", lhs, rhs)


def _lane(name: str) -> Load:
    return Load(name, (Var(LANE),), _FLOAT)


def _kept(name: str) -> str:
    return f"{name}_lines"


def _local(name: str, dtype: DType, *shape: int) -> Buffer:
    return Buffer(name, dtype, shape, Access.LOCAL)
