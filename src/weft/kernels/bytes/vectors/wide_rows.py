"""Rows of an image of bytes, widened for an instruction: borders filled in, columns packed.

What an output reads of a row then lies side by side, in the type that the instruction multiplies:
``x - zero``, plus a shift for types without a sign; outside of the image it is the shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from weft.dtypes import DType
from weft.kernels.bytes.windows import ByteWindow
from weft.kernels.integer.output import fits
from weft.kernels.row_copies import WIDE, RowCopies, Side
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
from weft.loops.instruction import Instruction
from weft.loops.nodes import (
    Access,
    Axis,
    Buffer,
    Const,
    Expr,
    Load,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import loads, map_expr
from weft.records import dataclass


def wide_rows(window: ByteWindow, row: Instruction) -> WideRows:
    """The widened input of a contraction for an instruction that takes it."""
    _, lhs, _ = row.meaning.params
    side = Side(window.columns[1] if window.columns else None)
    taps = side.window.taps if side.window and side.joins_taps else 1
    shift = fits(window.found, row)
    assert shift is not None
    return WideRows(window, lhs.dtype, shift, -(taps * window.depth) % prod(lhs.shape))


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

    @property
    def copies(self) -> RowCopies:
        """How rows of the buffer are filled."""
        border = Const(self.shift, self.dtype)
        return RowCopies(self.down, self.height, self.length, border, self._lanes)

    def fill(self, first: Expr, rows: int, extent: int) -> Stmt:
        """Fills rows of the buffer.

        Args:
            first: output row that reads the buffer's first row.
            rows: of outputs in a band.
            extent: of the buffer.
        """
        low, high = self.across.inside(self.width)
        inside, depth = self._copied(first, low, high), self.window.depth
        return self.copies.fill(first, rows, extent, inside, low * depth, high * depth)

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
        index = [
            self.copies.source(first)
            if window.rows and at == window.rows[0]
            else window.image.index[at]
            for at in outer
        ]

        def value(lane: Expr) -> Expr:
            # The first place that exists is the image's first.
            load = Load(source.name, (*index, lane), source.dtype)
            return window.shifted(load, self.dtype, self.shift)

        return tuple(self.copies.run(low * depth, (high - low) * depth, value))

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
