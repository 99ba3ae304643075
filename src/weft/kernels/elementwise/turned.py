"""Operands that lie across the vectors of the output, such as a transpose's.

Their fastest axis is not the output's, so they would be gathered element by element.  They are
read in square blocks, rows along their own fastest axis, and turned in registers::

    for outer axes, run of blocks of the operand's axis:
      for block of lanes, block of the run:
        x[i][lane] = in[block of lanes + i, operand's block + lane]
        log2(lanes) times: pairs of vectors exchange halves, quarters, ... of their lanes
        out[operand's block + i, block of lanes + lane] = f(x[i][lane])

A row of the operand is far from the next one, so runs make memory fetch neighbouring lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import TypeVar

from weft.dtypes import DType
from weft.kernels.elementwise.lanes import distinct
from weft.kernels.elementwise.passes import step_of
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock, blocks_of
from weft.kernels.writer import LANE, integer, nested, plus, times, vector, with_locals
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    Load,
    LoopKind,
    Select,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import children, dtype_of, map_expr, substitute
from weft.records import dataclass

NARROWEST = 4
"""Lanes of the narrowest blocks that are turned in registers."""
RUN = 1024
"""Bytes that are read of a row of such an operand before the next rows' are."""
_OUTER, _INNER, _SEVERAL, _RUN = "column", "patch", "spot", "block"
TURNED = frozenset({DType.F32, DType.I32, DType.U32})
"""Element types that are turned."""
T = TypeVar("T")


@dataclass(frozen=True)
class Across:
    """Operands that lie along another axis than the output.

    Attributes:
        axis: that they lie along, or several that they walk as one, taken together.
        loads: the operands.
        parts: the axes of the output that it stands for, the fastest first.
        place: the dimension of the operand that several of them walk.
    """

    axis: Axis
    loads: tuple[Load, ...]
    parts: tuple[Axis, ...]
    place: int = 0

    def at(self, position: Expr) -> dict[str, Expr]:
        """The axes of the output at a position along all of them."""
        found: dict[str, Expr] = {}
        size = 1
        for axis in self.parts:
            part = _binary("floordiv", position, size) if size > 1 else position
            size *= axis.extent
            slowest = axis is self.parts[-1]
            found[axis.var] = part if slowest else _binary("mod", part, axis.extent)
        return found

    def read(self, load: Load, at: Mapping[str, Expr], position: Expr) -> Expr:
        """An operand at a position along all of them."""
        if len(self.parts) > 1:
            index = (*load.index[: self.place], position, *load.index[self.place + 1 :])
            load = replace(load, index=index)
        return substitute(load, {**at, **self.at(position)})


def across_of(task: Task, lanes: int) -> Across | None:
    """What is to be turned, if anything is."""
    *outer, last = task.compute.axes
    steps = {buffer.name: buffer.steps for buffer in task.inputs}
    found: dict[str, list[Load]] = {}
    for load in dict.fromkeys(unconditional(task.compute.value)):
        if step_of(load, last.var, steps[load.buffer]) in (None, 0, 1):
            continue
        along = [a for a in outer if step_of(load, a.var, steps[load.buffer]) == 1]
        if along and load.dtype.bytes == task.output.dtype.bytes and load.dtype in TURNED:
            found.setdefault(along[0].var, []).append(load)
    if not found or task.target.flavour != "gnu":
        # Plain C has no shuffles, and loops that spell them out gain nothing.
        return None
    wide = min(lanes, NARROWEST)
    for axis in outer:
        if axis.var in found and axis.extent >= wide and last.extent >= wide:
            return Across(axis, tuple(found[axis.var]), (axis,))
    return None


def joined_of(task: Task, lanes: int) -> tuple[Task, Across] | None:
    """The task with one dimension in place of several that lie in the only operand as one.

    Filters ``[c][3][3]`` lie so: blocks of their elements can be turned where those of one of
    these axes would be too short.
    """
    *outer, last = task.compute.axes
    loads = list(dict.fromkeys(unconditional(task.compute.value)))
    buffers = {buffer.name: buffer for buffer in task.inputs}
    wide = min(lanes, NARROWEST)
    if len(loads) != 1 or len(buffers) != 1 or last.extent < wide or task.target.flavour != "gnu":
        return None
    (load,) = loads
    (source,) = task.inputs
    if load.dtype not in TURNED or load.dtype.bytes != task.output.dtype.bytes:
        return None
    if step_of(load, last.var, source.steps) in (None, 0, 1):
        return None
    run = run_of(source, load, outer)
    if len(run.axes) < 2 or run.size < wide:
        return None
    index: Expr = integer(0)
    for axis, place in zip(run.axes, run.places, strict=True):
        index = plus(index, times(Var(axis.var), source.steps[place]))
    read = run.joined_load(load, index)
    value = map_expr(task.compute.value, lambda node: read if node == load else node)
    inputs = (run.joined_buffer(source),)
    task = replace(task, compute=replace(task.compute, value=value), inputs=inputs)
    return task, Across(Axis(_SEVERAL, run.size), (read,), run.axes, run.place)


@dataclass(frozen=True)
class Run:
    """Dimensions of an operand that lie in memory as one.

    Attributes:
        axes: that walk these dimensions, the fastest first.
        places: the dimensions, likewise.
    """

    axes: tuple[Axis, ...]
    places: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements of all these dimensions."""
        return prod(axis.extent for axis in self.axes)

    @property
    def place(self) -> int:
        """The one dimension that stands for them in a joined buffer."""
        last = self.places[-1]
        return last - sum(place < last for place in self.places[:-1])

    def joined_buffer(self, source: Buffer) -> Buffer:
        """The operand with one dimension in their place."""
        shape, steps = self._joined(source.shape, self.size), self._joined(source.steps, 1)
        return replace(source, shape=shape, strides=steps)

    def joined_load(self, load: Load, index: Expr) -> Load:
        """The load from the joined buffer at a place along that dimension."""
        return replace(load, index=self._joined(load.index, index))

    def _joined(self, values: Sequence[T], one: T) -> tuple[T, ...]:
        *rest, last = self.places
        return tuple(
            one if place == last else value
            for place, value in enumerate(values)
            if place not in rest
        )


def run_of(source: Buffer, load: Load, axes: Sequence[Axis]) -> Run:
    """The longest run of dimensions from the fastest on that whole axes walk."""
    parts: list[Axis] = []
    places: list[int] = []
    size = 1
    for _ in axes:
        for place, part in enumerate(load.index):
            axis = next((each for each in axes if part == Var(each.var)), None)
            whole = axis is not None and source.shape[place] == axis.extent and axis not in parts
            if axis is not None and whole and source.steps[place] == size:
                parts.append(axis)
                places.append(place)
                size *= axis.extent
                break
    return Run(tuple(parts), tuple(places))


def unconditional(value: Expr) -> Iterator[Load]:
    """Loads that are made whatever conditions hold."""

    def parts(node: Expr) -> Sequence[Expr]:
        return (node.condition,) if isinstance(node, Select) else children(node)

    for node in distinct(value, parts):
        if isinstance(node, Load):
            yield node


def turning(task: Task, across: Across, lanes: int) -> tuple[Stmt, ...]:
    """Loops over square blocks, and over what is left of both axes."""
    last = task.compute.axes[-1]
    found: list[Stmt] = []
    for block in _pieces(last.extent, lanes):
        width = block.width
        square = width if width >= NARROWEST else 1
        for part in _parts(across.axis.extent, square):
            found += _blocks(task, across, block, part)
    return tuple(found)


def _pieces(extent: int, lanes: int) -> Iterator[LaneBlock]:
    """Blocks of one vector each."""
    for block in blocks_of(extent, lanes, 1):
        start = block.start
        for width in block.widths:
            yield LaneBlock(start, block.count, (width,))
            start += width


def _parts(extent: int, size: int) -> Iterator[LaneBlock]:
    """Runs of a size, and what is left one by one."""
    count, rest = divmod(extent, size)
    if count:
        yield LaneBlock(0, count, (size,))
    if rest:
        yield LaneBlock(extent - rest, rest, (1,))


def _blocks(task: Task, across: Across, block: LaneBlock, part: LaneBlock) -> Iterator[Stmt]:
    """The loops over blocks of the same shape."""
    last = task.compute.axes[-1]
    first = {
        last.var: plus(times(Var(_INNER), block.width), block.start),
    }
    length = max(1, RUN // (part.width * task.output.dtype.bytes))
    runs, rest = divmod(part.count, length)
    for start, count, blocks in ((0, runs, length), (runs * length, 1, rest)):
        number = plus(plus(times(Var(_RUN), blocks), Var(_OUTER)), start)
        position = plus(times(number, part.width), part.start)
        if part.width == 1:
            body: tuple[Stmt, ...] = (stored(task, {**first, **across.at(position)}, block.width),)
        else:
            body = _square(task, across, first, position, block.width)
        loops = [
            Axis(_RUN, count) if axis == across.parts[-1] else axis
            for axis in task.compute.axes[:-1]
            if axis not in across.parts[:-1]
        ]
        inner = Axis(_INNER, block.count), Axis(_OUTER, blocks)
        if count * blocks:
            yield from nested([*loops, *inner], body, LoopKind.PARALLEL)


def _square(
    task: Task, across: Across, first: Mapping[str, Expr], position: Expr, width: int
) -> tuple[Stmt, ...]:
    """One square block: read along the operands, turn, write along the output."""
    lanes = task.compute.axes[-1].var
    found: list[Stmt] = []
    locals: list[Buffer] = []
    turned: dict[Load, str] = {}
    for number, load in enumerate(across.loads):
        names = [f"turn{number}_{stage}" for stage in range(width.bit_length())]
        locals += [Buffer(name, load.dtype, (width, width), Access.LOCAL) for name in names]
        for row in range(width):
            at = {lanes: plus(first[lanes], row)}
            value = across.read(load, at, plus(position, Var(LANE)))
            found.append(vector(width, Store(names[0], (integer(row), Var(LANE)), value)))
        found += _exchanges(names, load.dtype, width)
        turned[load] = names[-1]
    for row in range(width):
        place = (integer(row), Var(LANE))

        def held(node: Expr, place: tuple[Expr, ...] = place) -> Expr:
            name = turned.get(node) if isinstance(node, Load) else None
            return Load(name, place, dtype_of(node)) if name else node

        at = {lanes: plus(first[lanes], Var(LANE)), **across.at(plus(position, row))}
        value = substitute(map_expr(task.compute.value, held), at)
        point = tuple(at.get(axis.var, Var(axis.var)) for axis in task.compute.axes)
        found.append(vector(width, Store("out", point, value)))
    return with_locals(locals, tuple(found))


def _exchanges(names: Sequence[str], dtype: DType, width: int) -> Iterator[Stmt]:
    """Turns a square of vectors: rows whose numbers differ in one bit exchange lanes."""
    lane = Var(LANE)
    for (old, new), bit in zip(pairwise(names), _halves(width), strict=True):
        clear = Binary("eq", _binary("mod", _binary("floordiv", lane, bit), 2), integer(0))
        # The lane's number without the bit, in a form that stays in range whatever it is.
        low = Binary(
            "add",
            _binary("mul", _binary("floordiv", lane, 2 * bit), 2 * bit),
            _binary("mod", lane, bit),
        )
        for row in range(width):
            if row & bit:
                partner = Load(old, (integer(row - bit), plus(low, bit)), dtype)
                value = Select(clear, partner, Load(old, (integer(row), lane), dtype))
            else:
                partner = Load(old, (integer(row + bit), low), dtype)
                value = Select(clear, Load(old, (integer(row), lane), dtype), partner)
            yield vector(width, Store(new, (integer(row), lane), value))


def _halves(width: int) -> Iterator[int]:
    while width > 1:
        width //= 2
        yield width


def _binary(op: str, lhs: Expr, rhs: int) -> Expr:
    return Binary(op, lhs, integer(rhs))


def stored(task: Task, first: Mapping[str, Expr], width: int) -> Stmt:
    """A vector of the output, from a place on."""
    axes = task.compute.axes
    lanes = axes[-1].var
    at = {**first, lanes: plus(first[lanes], Var(LANE))}
    point = tuple(at.get(axis.var, Var(axis.var)) for axis in axes)
    return vector(width, Store("out", point, substitute(task.compute.value, at)))
