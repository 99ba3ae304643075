"""Convolutions and matrix products of bytes for Helium (VMLADAVA), in loops that layers share.

Bytes are multiplied as they are, so windows are read where they lie.  One instruction of a family
makes the outputs of a line of positions, in all channels::

    local band[row][column, channel]               (with borders: the zero point; if there are any)
    for strip of rows:
      fill the band
      local patch[position][window]                 (where its rows are much shorter than vectors)
      for row:  out[row] = requantized(sums(band or patch, weights))

What the zero point adds to a sum is part of where it starts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.cached import cached_property
from weft.dtypes import DType
from weft.kernels.bytes.dual.products import zero_of
from weft.kernels.bytes.helium.addend import TOTAL, Addend, addend
from weft.kernels.bytes.helium.shape import VECTOR, HeliumOutput, Shape
from weft.kernels.bytes.scaling import replace_loads
from weft.kernels.integer.output import ACCUMULATOR, IntegerOutput
from weft.kernels.writer import for_range, integer, nested, plus, times, with_locals
from weft.loops.instruction import member
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    If,
    Instruct,
    Kernel,
    Load,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import blocks, map_stmts, substitute_stmts, with_blocks
from weft.loops.walk import map_expr
from weft.plan.implementation import Implementation

_I32, _I8 = DType.I32, DType.I8
_BAND, _PATCH, _ROW, _WEIGHTS, _TABLE = "band", "patch", "row", "weights", "bytes"


def write(shape: Shape) -> Implementation:
    """The kernel."""
    made = _Writer(shape)
    kernel = made.kernel()
    return Implementation(kernel, made.output.operands(lambda _, array: array), name_of(shape))


def name_of(shape: Shape) -> str:
    """What the alternative is called."""
    return "helium-patch" if shape.patched else "helium"


class _Writer:
    def __init__(self, shape: Shape) -> None:
        self.shape, self.window = shape, shape.window
        self.lines, self.found = shape.lines, shape.window.found
        self.task = self.found.task
        self.zero = zero_of(self.found.inside)
        weights = self.window.ordered(self.found.weights.astype(np.int64))
        start = self.found.bias - self.zero * weights.sum((1, 2, 3))
        self.output = IntegerOutput(self.found, start)
        self.end = HeliumOutput(self.output, shape.group)
        cut = weights.reshape(len(weights), 1 if shape.patched else shape.taps, -1)
        self.rows, self.run = cut.shape[1:]
        self.output.arrays[_WEIGHTS] = self._packed(cut)
        self.channels = len(cut)
        self.out = self._out_buffer()
        self.image = self._image()
        self.addend = self._addend()
        if shape.table is not None:
            # The byte alone decides: nothing else is read.
            self.output.read_only(self.lines.buffer.name)
            self.output.arrays[_TABLE] = shape.table

    def _packed(self, weights: np.ndarray) -> np.ndarray:
        """Weights ``[channel][row][run]`` in vectors of a group's channels."""
        group = self.shape.group
        pads = [(0, -len(weights) % group), (0, 0), (0, -weights.shape[2] % VECTOR)]
        cut = np.pad(weights, pads).astype(np.int8)
        cut = cut.reshape(-1, group, self.rows, cut.shape[2] // VECTOR, VECTOR)
        return np.ascontiguousarray(cut.transpose(0, 2, 3, 1, 4))

    # --- buffers --------------------------------------------------------------------------------

    def _out_buffer(self) -> Buffer:
        """The output: other axes, rows (if lines do not go on), positions, channels."""
        task, shape = self.task, self.shape
        axes, steps = task.compute.axes, task.output.steps
        extents = [(each.extent, steps[axes.index(each)]) for each in self.window.outer]
        down, across = shape.down, shape.across
        wide = (across.out.extent, steps[axes.index(across.out)]) if across else (1, self.channels)
        if down is not None:
            tall = (down.out.extent, steps[axes.index(down.out)])
            merged = (tall[0] * wide[0], wide[1])
            extents += [merged] if self.goes_on else [tall, wide]
        else:
            extents.append(wide)
        extents.append((self.channels, 1))
        sizes, strides = zip(*extents, strict=True)
        return Buffer(task.output.name, task.output.dtype, sizes, Access.WRITE, strides)

    @property
    def goes_on(self) -> bool:
        """Whether positions of several rows are stored at a time."""
        return self.shape.flat or self.shape.patched

    def _image(self) -> Buffer:
        """The input: other dimensions, rows, rows of a window, and lines.

        Rows of which a window has one are all the same; or all rows are in one line.
        """
        lines, shape = self.lines.buffer, self.shape
        sizes, steps = list(lines.shape), list(lines.steps)
        if shape.flat:
            sizes[-2:], steps[-2:] = [sizes[-2] * sizes[-1]], [1]
        if shape.taps == 1:
            sizes.insert(-1, 1)
            steps.insert(-1, shape.run)
        return Buffer(lines.name, lines.dtype, tuple(sizes), lines.access, tuple(steps))

    def at(self, row: Expr, place: int) -> Load:
        """A byte of the image."""
        return self.moved(self.lines.load(row, integer(place)))

    def moved(self, load: Load) -> Load:
        """An element of the image as lines, in the buffer that instructions read."""
        index = list(load.index)
        if self.shape.flat:
            del index[-2]
        if self.shape.taps == 1:
            index.insert(-1, integer(0))
        return replace(load, index=tuple(index))

    def _addend(self) -> Addend | None:
        """What is added to the bytes of a line, by an instruction."""
        shape = self.shape
        if not shape.added or not shape.across:
            return None
        windows = (shape.down, shape.across)
        axes = [*(each.out for each in windows if each), self.found.channel]
        return addend(self.end.rounding, self.output, axes, self.image.name)

    # --- loops ----------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """All lines."""
        shape = self.shape
        if shape.down is None and shape.bordered:
            body = self.single()
        elif shape.flat or shape.down is None:
            read = self.at(integer(0), self._first())
            body = self.line(integer(0), read, self.image.steps[-2], shape.positions)
        else:
            body = self.strips()
        loops = nested(self.window.outer, body)
        source = self.lines.buffer.name
        views = {source: self.image}
        if self.addend:
            views[self.addend.buffer.name] = self.addend.buffer
        inputs = (views.get(each.name, each) for each in self.output.inputs)
        params = (*inputs, *self.output.buffers(), self.out)
        return simplify_kernel(Kernel(self.task.name, params, loops))

    def _first(self) -> int:
        """Where the first position of a line reads, if that is in the image."""
        across = self.shape.across
        return -across.before * self.lines.depth if across else 0

    def single(self) -> tuple[Stmt, ...]:
        """A line with borders that is no row of several."""
        zero, length = integer(0), self.shape.length
        whole = Load(_BAND, (zero, zero), _I8)
        to, count, skipped = self.middle(zero)
        copy = Instruct(member("mve_copy", count), (to, self.at(zero, skipped)))
        made = self.line(zero, whole, length, self.lines.width)
        return with_locals((self.band,), (self.fill(whole, length), copy, *made))

    def strips(self) -> tuple[Stmt, ...]:
        """All strips of rows."""
        shape, rows = self.shape, self.shape.strip
        whole, rest = divmod(shape.height, rows)
        body: list[Stmt] = []
        if shape.bordered:
            line = Load(_BAND, (Var("row"), integer(0)), _I8)
            body.append(for_range("row", self.band.shape[0], (self.fill(line, shape.length),)))
        first = times(Var("chunk"), rows)
        body.append(for_range("chunk", whole, self.rows_from(first, rows)))
        if rest:
            body += self.rows_from(integer(whole * rows), rest)
        return with_locals((self.band,), tuple(body)) if shape.bordered else tuple(body)

    def rows_from(self, first: Expr, rows: int) -> tuple[Stmt, ...]:
        """So many rows of outputs from one on."""
        shape, down = self.shape, self.shape.down
        assert down is not None
        filled: tuple[Stmt, ...] = ()
        spot = times(Var("spot"), down.stride)
        if shape.bordered:
            filled = (for_range("row", down.reach(rows), self.copied(first)),)
            read, step = Load(_BAND, (spot, integer(0)), _I8), shape.length
        else:
            row = plus(plus(times(first, down.stride), spot), -down.before)
            read, step = self.at(row, self._first()), self.image.steps[-2]
        if shape.patched:
            return (*filled, *self.from_patch(first, rows, read, step))
        made = self.line(plus(first, Var("spot")), read, step, shape.lines.width)
        return (*filled, for_range("spot", rows, made))

    def from_patch(self, first: Expr, rows: int, read: Load, step: int) -> tuple[Stmt, ...]:
        """Rows of outputs by way of a patch."""
        shape, width, run = self.shape, self.lines.width, self.run
        patch = Buffer(_PATCH, _I8, (1, rows * width * run), Access.LOCAL)
        sizes = (width, shape.step, shape.length, shape.taps, step, shape.run, run, width * run)
        window = Load(_PATCH, (integer(0), times(Var("spot"), width * run)), _I8)
        fill = for_range("spot", rows, (Instruct(member("mve_patch", *sizes), (window, read)),))
        line = Load(_PATCH, (integer(0), integer(0)), _I8)
        made = self.line(times(first, width), line, rows * width * run, rows * width)
        return with_locals((patch,), (fill, *made))

    # --- the band -------------------------------------------------------------------------------

    @cached_property
    def band(self) -> Buffer:
        """Rows of the image with their borders."""
        shape = self.shape
        height = shape.down.reach(shape.strip) if shape.down else 1
        return Buffer(_BAND, _I8, (height, shape.length), Access.LOCAL)

    def middle(self, row: Expr) -> tuple[Load, int, int]:
        """Where a row of the image begins in the band, its bytes there, and those left out."""
        across, depth = self.shape.across, self.lines.depth
        before = across.before * depth if across else 0
        left, skipped = max(0, before), max(0, -before)
        count = min(self.lines.length - skipped, self.shape.length - left)
        return Load(_BAND, (row, integer(left)), _I8), count, skipped

    def copied(self, first: Expr) -> tuple[Stmt, ...]:
        """A row of the band."""
        down = self.shape.down
        assert down is not None
        to, count, skipped = self.middle(Var("row"))
        row = plus(plus(times(first, down.stride), Var("row")), -down.before)
        copy = Instruct(member("mve_copy", count), (to, self.at(row, skipped)))
        if down.before <= 0 and down.behind <= 0:
            return (copy,)
        low = Binary("le", integer(0), row)
        inside = Binary("and", low, Binary("lt", row, integer(down.size)))
        return (If(inside, (copy,), (self.fill(to, count),)),)

    def fill(self, window: Load, count: int) -> Stmt:
        """So many bytes of the zero point."""
        return Instruct(member("mve_fill", count, self.zero & 255), (window,))

    # --- outputs --------------------------------------------------------------------------------

    def line(self, first: Expr, read: Load, step: int, positions: int) -> tuple[Stmt, ...]:
        """The outputs of a line.

        Args:
            first: the row of outputs, or the first position where lines go on.
            read: the first byte that it reads.
            step: bytes from a row of a window to the next.
            positions: of the line.
        """
        at = [Var(axis.var) for axis in self.window.outer]
        if self.goes_on or self.shape.down is None:
            place = (*at, first, integer(0))
        else:
            place = (*at, first, integer(0), integer(0))
        if self.end.whole:
            target = Load(self.out.name, place, _I8)
            return (self.sums(target, self.out.steps[-2], read, step, positions),)
        made = self.end.rounding.made is not None
        kind, name = (_I8, _ROW) if made else (_I32, ACCUMULATOR)
        buffer = Buffer(name, kind, (positions, self.channels), Access.LOCAL)
        target = Load(name, (integer(0), integer(0)), kind)
        sums = self.sums(target, self.channels, read, step, positions)
        if self.shape.table is not None:
            to, table = Load(self.out.name, place, _I8), Load(_TABLE, (integer(0),), _I8)
            sizes = (positions, self.channels, self.out.steps[-2], self.channels)
            looked_up = Instruct(member("mve_lookup", *sizes), (to, target, table))
            return with_locals((buffer,), (sums, looked_up))
        if self.addend is None:
            stores = self.stored(first, place, name, positions)
            return with_locals((buffer,), (sums, *stores))
        row = first if self.shape.down else None
        if self.addend.whole:
            to = Load(self.out.name, place, _I8)
            added = self.addend.add(to, self.out.steps[-2], target, row, positions)
            return with_locals((buffer,), (sums, added))
        total = Load(TOTAL, target.index, _I8)
        added = self.addend.add(total, self.channels, target, row, positions)
        stores = self.stored(first, place, TOTAL, positions)
        return with_locals((buffer, replace(buffer, name=TOTAL)), (sums, added, *stores))

    def sums(self, target: Load, out: int, read: Load, step: int, positions: int) -> Stmt:
        """The instruction that makes the outputs of a line, or what they are computed from."""
        shape, group = self.shape, self.shape.group
        across = self.run if shape.patched else shape.step
        sizes = (
            *(positions, across, across * (positions - 1) + self.run),
            *(self.rows, step, self.run, -(-self.run // VECTOR)),
            *(self.channels, out, -(-self.channels // group), group, self.channels % group),
            step if self.rows > 1 else 0,
        )
        constants = [_first_of(name, self.output.arrays[name]) for name in self.end.operands]
        weights = _first_of(_WEIGHTS, self.output.arrays[_WEIGHTS])
        name = member(self.end.family, *sizes, *self.end.sizes)
        return Instruct(name, (target, read, weights, *constants))

    def stored(
        self, first: Expr, place: tuple[Expr, ...], name: str, positions: int
    ) -> tuple[Stmt, ...]:
        """Stores the outputs of a line, whose first one lies at a place."""
        at, shape = (Var("point"), Var("lane")), self.shape
        row, column = first, at[0]
        if self.goes_on:
            position, width = plus(first, at[0]), integer(self.lines.width)
            row, column = Binary("floordiv", position, width), Binary("mod", position, width)
        values: dict[str, Expr] = {self.found.channel.var: at[1]}
        for window, value in ((shape.down, row), (shape.across, column)):
            if window is not None:
                values[window.out.var] = value
        store = replace_loads(self.output.store(at), name, at)
        (moved,) = map_stmts(
            (self.lines.changed(*substitute_stmts((store,), values)),),
            lambda expr: map_expr(expr, self._read),
        )
        stored = _placed(moved, self.out.name, (*place[:-2], plus(place[-2], at[0]), at[1]))
        return nested([Axis("point", positions), Axis("lane", self.channels)], (stored,))

    def _read(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer == self.image.name:
            return self.moved(node)
        return node


def _placed(stmt: Stmt, name: str, index: tuple[Expr, ...]) -> Stmt:
    """A statement that stores to a buffer elsewhere."""
    if isinstance(stmt, Store):
        return replace(stmt, index=index) if stmt.buffer == name else stmt
    inner = [tuple(_placed(each, name, index) for each in block) for block in blocks(stmt)]
    return with_blocks(stmt, inner)


def _first_of(name: str, array: np.ndarray) -> Load:
    return Load(name, (integer(0),) * array.ndim, DType.of(array.dtype))
