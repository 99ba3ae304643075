"""Rows of an image of bytes, widened for an instruction: borders filled in, columns packed.

What an output reads of a row then lies side by side, in the type that the instruction multiplies:
``x - zero``, plus a shift for types without a sign; outside of the image it is the shift.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from weft.dtypes import DType
from weft.kernels.byte_windows import ByteWindow
from weft.kernels.contraction import SlidingWindow
from weft.kernels.integer_output import fits
from weft.kernels.tiling import blocks_of
from weft.kernels.writer import (
    LANE,
    for_lanes,
    for_range,
    integer,
    nested,
    plus,
    spans,
    times,
)
from weft.loops.guards import conjunction
from weft.loops.instruction import Instruction
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    If,
    Load,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import loads, map_expr

WIDE = "wide"


def wide_rows(window: ByteWindow, row: Instruction) -> WideRows:
    """The widened input of a contraction for an instruction that takes it."""
    _, lhs, _ = row.meaning.params
    side = Side(window.columns[1] if window.columns else None)
    taps = side.window.taps if side.window and side.joins_taps else 1
    shift = fits(window.found, row)
    assert shift is not None
    return WideRows(window, lhs.dtype, shift, -(taps * window.depth) % prod(lhs.shape))


@dataclass(frozen=True)
class Side:
    """One dimension of the widened input, along rows or columns.

    Attributes:
        window: how outputs move along it; ``None``: it has one place.
    """

    window: SlidingWindow | None

    @property
    def packed(self) -> bool:
        """Whether places that no output reads are left out: each output has one of its own."""
        return self.window is None or self.window.taps == 1

    @property
    def joins_taps(self) -> bool:
        """Whether the taps that an output reads lie side by side."""
        return self.window is None or self.window.dilation == 1 or self.window.taps == 1

    def extent(self, outs: int) -> int:
        """Places that so many outputs read."""
        return outs if self.window is None or self.packed else self.window.reach(outs)

    def place(self, out: Expr, tap: Expr | int) -> Expr:
        """Where an output reads a tap."""
        if self.window is None or self.packed:
            return out
        tap = integer(tap) if isinstance(tap, int) else tap
        moved = Binary("mul", tap, integer(self.window.dilation))
        return Binary("add", times(out, self.window.stride), moved)

    def source(self, first: Expr, place: Expr) -> Expr:
        """The input's index of a place, counted from what output ``first`` reads at tap 0."""
        assert self.window is not None
        step, before = self.window.stride, self.window.before
        if self.packed:
            return plus(times(Binary("add", first, place), step), -before)
        return plus(Binary("add", times(first, step), place), -before)

    def inside(self, outs: int) -> tuple[int, int]:
        """Of the places that all outputs read, the first of the input and the end."""
        if self.window is None:
            return 0, 1
        step = self.window.stride if self.packed else 1
        low = -(-self.window.before // step)
        high = -(-(self.window.size + self.window.before) // step)
        return low, min(high, self.extent(outs))


@dataclass(frozen=True)
class WideRows:
    """The buffer of a band of rows.

    Attributes:
        window: what is read of the image.
        dtype: of the buffer; shift: what is added to the image.
        over: elements behind every row that instructions read but do not count.
    """

    window: ByteWindow
    dtype: DType
    shift: int
    over: int = 0

    @property
    def down(self) -> Side:
        """Along rows."""
        return Side(self.window.rows[1] if self.window.rows else None)

    @property
    def across(self) -> Side:
        """Along columns."""
        return Side(self.window.columns[1] if self.window.columns else None)

    @property
    def width(self) -> int:
        """Outputs of a row."""
        return self.window.columns[1].out.extent if self.window.columns else 1

    @property
    def height(self) -> int:
        """Rows of outputs."""
        return self.window.rows[1].out.extent if self.window.rows else 1

    @property
    def places(self) -> int:
        """Columns of the buffer."""
        return self.across.extent(self.width)

    @property
    def length(self) -> int:
        """Elements of a row of the buffer."""
        return self.places * self.window.depth + self.over

    def buffer(self, extent: int) -> Buffer:
        """Storage of so many rows."""
        return Buffer(WIDE, self.dtype, (extent, self.length), Access.LOCAL)

    @property
    def direct(self) -> Buffer | None:
        """The input with channels as one dimension, the last, if outputs can read it as it is."""
        window = self.window
        sides = [each for each in (self.down.window, self.across.window) if each]
        same = window.image.dtype is self.dtype and window.moves(self.dtype, self.shift)
        if not same or self.over or self._read_elsewhere:
            return None
        if any(side.taps > 1 or side.before for side in sides):
            return None
        return window.pixels()

    def place(self, row: Expr, column: Expr, channel: Expr) -> Load:
        """What is read of the input itself, for an output: from a channel on."""
        source, window = self.direct, self.window
        assert source is not None
        at = {
            each[0]: times(place, each[1].stride)
            for each, place in ((window.rows, row), (window.columns, column))
            if each
        }
        inner = {place for place, _ in window.channels}
        index = [at.get(i, part) for i, part in enumerate(window.image.index) if i not in inner]
        return Load(source.name, (*index, channel), source.dtype)

    def fill(self, first: Expr, rows: int, extent: int) -> Stmt:
        """Fills rows of the buffer.

        Args:
            first: output row that reads the buffer's first row.
            rows: of outputs in a band.
            extent: of the buffer.
        """
        return for_range("row", extent, self._filled(first, rows, extent))

    def _filled(self, first: Expr, rows: int, extent: int) -> tuple[Stmt, ...]:
        """A row of the buffer."""
        low, high = self.across.inside(self.width)
        depth = self.window.depth
        inside = (
            *self._zeros(0, low * depth),
            *self._copied(first, low, high),
            *self._zeros(high * depth, (self.places - high) * depth + self.over),
        )
        conditions = self._leaving(first, rows, extent)
        if not conditions:
            return inside
        return (If(conjunction(conditions), inside, tuple(self._zeros(0, self.length))),)

    def _leaving(self, first: Expr, rows: int, extent: int) -> list[Expr]:
        """What must hold for a row of the input to exist, unless it always does."""
        window = self.down.window
        if window is None:
            return []
        at, found = self.down.source(first, Var("row")), list[Expr]()
        if window.before > 0:
            found.append(Binary("ge", at, integer(0)))
        step = window.stride if self.down.packed else 1
        last = (self.height - rows) * window.stride + (extent - 1) * step
        if last - window.before >= window.size:
            found.append(Binary("lt", at, integer(window.size)))
        return found

    def _zeros(self, start: int, count: int) -> Iterator[Stmt]:
        """Stores what padding counts as."""
        zero = Const(self.shift, self.dtype)

        def store(_: int, width: int, first: Expr) -> Sequence[Stmt]:
            index = (Var("row"), plus(plus(first, Var(LANE)), start))
            return (for_lanes(width, Store(WIDE, index, zero)),)

        return spans(blocks_of(count, self._lanes, 1), store, var="slice")

    @property
    def _lanes(self) -> int:
        """Elements that are computed at a time."""
        kept = self.window.moves(self.dtype, self.shift)
        return self.window.found.task.target.lanes(DType.I8 if kept else DType.I16)

    def _copied(self, first: Expr, low: int, high: int) -> tuple[Stmt, ...]:
        """Stores the places that exist, vectors of channels or, of one channel, of places."""
        if self.window.depth == 1 and self._contiguous:
            return tuple(
                spans(
                    blocks_of(high - low, self._lanes, 1),
                    lambda _, width, start: (
                        for_lanes(width, self._copy(first, plus(plus(start, Var(LANE)), low), {})),
                    ),
                    var="slice",
                )
            )
        if self.joined is not None:
            return self._copied_runs(first, low, high)
        *slower, (place, fastest) = self.window.channels or ((-1, Axis("slice", 1)),)
        column = plus(Var("column"), low)

        def piece(_: int, width: int, start: Expr) -> Sequence[Stmt]:
            channel = {place: plus(start, Var(LANE))}
            return (for_lanes(width, self._copy(first, column, channel)),)

        lanes = self._lanes if self.window.contiguous else 1
        body = tuple(spans(blocks_of(fastest.extent, lanes, 1), piece, var="slice"))
        body = nested([axis for _, axis in slower], body)
        return (for_range("column", high - low, body),)

    @property
    def joined(self) -> Buffer | None:
        """The input with columns and channels as one dimension, if it is read so."""
        window = self.window
        strided = self.across.packed and window.columns and window.columns[1].stride > 1
        if strided or self._read_elsewhere or not window.runs:
            return None
        return window.joined()[0]

    @property
    def _read_elsewhere(self) -> bool:
        """Whether outputs read the input beside their sums."""
        window, found = self.window, self.window.found
        zero = Const(0, DType.I32)
        whole = found.task.compute.value
        value = map_expr(whole, lambda node: zero if node == found.whole else node)
        return window.source.name in {load.buffer for load in loads(value)}

    def inputs(self, buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """Parameters of a kernel, the image as it is read."""
        read = self.direct or self.joined
        return tuple(read if read and each.name == read.name else each for each in buffers)

    def _copied_runs(self, first: Expr, low: int, high: int) -> tuple[Stmt, ...]:
        """Stores all places that exist as one run."""
        window, depth = self.window, self.window.depth
        source, outer = window.joined()

        def piece(_: int, width: int, start: Expr) -> Sequence[Stmt]:
            lane = plus(start, Var(LANE))
            index: list[Expr] = [
                self.down.source(first, Var("row"))
                if window.rows and at == window.rows[0]
                else window.image.index[at]
                for at in outer
            ]
            # The first place that exists is the image's first.
            load = Load(source.name, (*index, lane), source.dtype)
            value = window.shifted(load, self.dtype, self.shift)
            return (for_lanes(width, Store(WIDE, (Var("row"), plus(lane, low * depth)), value)),)

        return tuple(spans(blocks_of((high - low) * depth, self._lanes, 1), piece, var="slice"))

    @property
    def _contiguous(self) -> bool:
        window = self.across.window
        return (
            window is not None
            and window.step == 1
            and not (self.across.packed and window.stride > 1)
        )

    def _copy(self, first: Expr, column: Expr, channel: dict[int, Expr]) -> Store:
        """Stores one element: of a place, and of a channel."""
        at = dict(channel)
        if self.window.rows:
            at[self.window.rows[0]] = self.down.source(first, Var("row"))
        if self.window.columns:
            at[self.window.columns[0]] = self.across.source(integer(0), column)
        offset: Expr = times(column, self.window.depth)
        step = self.window.depth
        for place, axis in self.window.channels:
            step //= axis.extent
            offset = plus(offset, times(at.get(place, Var(axis.var)), step))
        value = self.window.value(at, self.dtype, self.shift)
        return Store(WIDE, (Var("row"), offset), value)
