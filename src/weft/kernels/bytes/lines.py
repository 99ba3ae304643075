"""An image of bytes as lines: the columns of a row with their channels, side by side in memory."""

from __future__ import annotations

from dataclasses import replace

from weft.dtypes import DType
from weft.kernels.bytes.windows import ByteWindow
from weft.kernels.writer import integer, plus, times
from weft.loops.nodes import Binary, Buffer, Expr, Load, Stmt
from weft.loops.statements import map_stmts
from weft.loops.walk import map_expr


def has_lines(window: ByteWindow) -> bool:
    """Whether the columns of a row and their channels lie side by side."""
    steps, size = window.source.steps, 1
    for place, axis in reversed(window.channels):
        if steps[place] != size:
            return False
        size *= axis.extent
    if window.columns is None:
        return True
    return steps[window.columns[0]] == size


class Lines:
    """The image that a convolution reads, seen as lines.

    Attributes:
        buffer: the image: what it has beside rows, columns and channels, then rows, then a line.
        depth: channels; length: of a line.
        width: positions of outputs along it.
        long: whether all taps of a row lie side by side.
    """

    def __init__(self, window: ByteWindow) -> None:
        source, columns, rows = window.source, window.columns, window.rows
        self._window = window
        self.depth = window.depth
        self.length = self.depth * (columns[1].size if columns else 1)
        self.width = columns[1].out.extent if columns else 1
        self.long = columns is None or columns[1].dilation == 1 or columns[1].taps == 1
        moved = {place for place, _ in window.channels}
        moved |= {each[0] for each in (rows, columns) if each}
        self._kept = [place for place in range(len(source.shape)) if place not in moved]
        if rows:
            self._kept.append(rows[0])
        shape = (*(source.shape[place] for place in self._kept), self.length)
        strides = (*(source.steps[place] for place in self._kept), 1)
        self.buffer = Buffer(source.name, source.dtype, shape, source.access, strides)

    def place(self, position: Expr, tap: Expr | int) -> Expr:
        """Where along its line an output's tap begins."""
        assert self._window.columns is not None
        across = self._window.columns[1]
        tap = integer(tap) if isinstance(tap, int) else tap
        column = Binary(
            "add",
            times(position, across.stride * self.depth),
            times(tap, across.dilation * self.depth),
        )
        return plus(column, -across.before * self.depth)

    def load(self, row: Expr | None, place: Expr) -> Load:
        """An element of a line."""
        window = self._window
        index = [window.image.index[each] for each in self._kept]
        if window.rows and row is not None:
            index[-1] = row
        return Load(self.buffer.name, (*index, place), self.buffer.dtype)

    def changed(self, stmt: Stmt) -> Stmt:
        """A statement that reads the image elsewhere, by lines."""
        window = self._window

        def change(node: Expr) -> Expr:
            if not isinstance(node, Load) or node.buffer != self.buffer.name:
                return node
            line: Expr = integer(0)
            for place, _ in window.channels:
                line = plus(line, times(node.index[place], window.source.steps[place]))
            if window.columns:
                line = plus(times(node.index[window.columns[0]], self.depth), line)
            return replace(node, index=(*(node.index[each] for each in self._kept), line))

        (moved,) = map_stmts((stmt,), lambda expr: map_expr(expr, change))
        return moved


def is_signed(window: ByteWindow) -> bool:
    """Whether the image's bytes have a sign."""
    return window.source.dtype is DType.I8
