"""Copies of rows of an image, borders filled in: what an output reads of a row lies side by side.

The image's columns and channels are one dimension of a copy.  Rows outside of the image are
border as a whole, others at their ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from math import prod

from weft.kernels.contraction import SlidingWindow
from weft.kernels.tiling import blocks_of
from weft.kernels.writer import LANE, for_lanes, for_range, integer, plus, spans, times
from weft.loops.guards import conjunction
from weft.loops.nodes import Axis, Binary, Buffer, Const, Expr, If, Stmt, Store, Var
from weft.records import dataclass

WIDE = "wide"
"""The buffer of the copies."""


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
class RowCopies:
    """Copies of the rows that a band of outputs reads.

    Attributes:
        down: along rows.
        height: rows of outputs.
        length: elements of a copy.
        border: what is outside of the image.
        lanes: elements that are stored at a time.
    """

    down: Side
    height: int
    length: int
    border: Const
    lanes: int

    def fill(
        self, first: Expr, rows: int, extent: int, inside: Sequence[Stmt], low: int, high: int
    ) -> Stmt:
        """Fills so many copies.

        Args:
            first: output row that reads the first one.
            rows: of outputs in a band.
            extent: copies.
            inside: stores what comes from the image, of the row ``row``.
            low: where that begins in a copy.
            high: where it ends.
        """
        body = (*self.borders(0, low), *inside, *self.borders(high, self.length - high))
        conditions = self._existing(first, rows, extent)
        if conditions:
            outside = tuple(self.borders(0, self.length))
            body = (If(conjunction(conditions), body, outside),)
        return for_range("row", extent, body)

    def source(self, first: Expr) -> Expr:
        """The image's row that is copied to ``row``."""
        return self.down.source(first, Var("row"))

    def run(self, start: int, count: int, value: Callable[[Expr], Expr]) -> Iterator[Stmt]:
        """Stores neighbouring elements from one on, the value a function of their number."""

        def piece(_: int, width: int, begin: Expr) -> Sequence[Stmt]:
            lane = plus(begin, Var(LANE))
            store = Store(WIDE, (Var("row"), plus(lane, start)), value(lane))
            return (for_lanes(width, store),)

        return spans(blocks_of(count, self.lanes, 1), piece, var="slice")

    def borders(self, start: int, count: int) -> Iterator[Stmt]:
        """Stores what padding counts as."""
        return self.run(start, count, lambda _: self.border)

    def _existing(self, first: Expr, rows: int, extent: int) -> list[Expr]:
        """What must hold for a row of the image to exist, unless it always does."""
        window = self.down.window
        if window is None:
            return []
        at, found = self.source(first), list[Expr]()
        if window.before > 0:
            found.append(Binary("ge", at, integer(0)))
        step = window.stride if self.down.packed else 1
        last = (self.height - rows) * window.stride + (extent - 1) * step
        if last - window.before >= window.size:
            found.append(Binary("lt", at, integer(window.size)))
        return found


def side_by_side(source: Buffer, channels: Sequence[tuple[int, Axis]]) -> bool:
    """Whether all channels of a pixel lie side by side.

    Args:
        source: the image.
        channels: its dimensions that are channels, the fastest last, and the axes along them.
    """
    step = 1
    for place, axis in reversed(channels):
        if source.steps[place] != step or source.shape[place] != axis.extent:
            return False
        step *= axis.extent
    return True


def joined(source: Buffer, inner: Collection[int]) -> tuple[Buffer, tuple[int, ...]]:
    """An image with dimensions that lie side by side as one, the last.

    Returns:
        The image, and its other dimensions as they are numbered in ``source``.
    """
    outer = tuple(at for at in range(len(source.shape)) if at not in inner)
    shape = (*(source.shape[at] for at in outer), prod(source.shape[at] for at in inner))
    steps = (*(source.steps[at] for at in outer), 1)
    return replace(source, shape=shape, strides=steps), outer
