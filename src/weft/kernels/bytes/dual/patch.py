"""Patches of short rows: what a tile of positions reads, widened by one instruction.

Bytes that end rows, behind whole fours, follow one another at the end of a patch, so that 3x3
windows of 3 channels take 7 fours instead of 9. At borders a tile reads a copy of its window.
"""

from __future__ import annotations

import numpy as np

from weft.cached import cached_property
from weft.dtypes import DType
from weft.kernels.bytes.lines import Lines
from weft.kernels.bytes.windows import ByteWindow
from weft.kernels.writer import integer, nested, plus, times, with_locals
from weft.loops.instruction import member
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    If,
    Instruct,
    Load,
    Stmt,
    Store,
    Var,
)
from weft.records import dataclass

_I8, _I32 = DType.I8, DType.I32
_WINDOW, _FOUR = "window", 4
_MOST_FOURS, _MOST_OFFSET, _MOST_BORDERS = 36, 1020, 4
"""Fours that are written out, what they may be apart, and tiles of a row at its borders."""


@dataclass(frozen=True)
class Patch:
    """How tiles of a convolution read short rows.

    Attributes:
        window: the convolution; lines: its image.
        positions: of a tile; run: bytes that one reads of a row.
        zero: what borders are.
    """

    window: ByteWindow
    lines: Lines
    positions: int
    run: int
    zero: int

    @property
    def rows(self) -> int:
        """That a position reads."""
        return self.window.rows[1].taps if self.window.rows else 1

    @property
    def fours(self) -> int:
        """Whole ones of a row."""
        return self.run // _FOUR

    @property
    def rest(self) -> int:
        """Bytes of a row behind them."""
        return self.run % _FOUR

    @property
    def ends(self) -> int:
        """Fours of these of all rows."""
        return -(-self.rows * self.rest // _FOUR)

    @property
    def steps(self) -> int:
        """Fours in all."""
        return self.rows * self.fours + self.ends

    @property
    def apart(self) -> int:
        """Bytes from one position to the next."""
        columns = self.window.columns
        return columns[1].stride * self.lines.depth if columns else 0

    @property
    def span(self) -> int:
        """Bytes of a row that a tile reads."""
        return self.run + (self.positions - 1) * self.apart

    @cached_property
    def tiles(self) -> tuple[tuple[int, int, bool], ...]:
        """Tiles of a row: the first, how many, and whether they read only the image.

        The last ones are the last positions of all, some of which are computed twice.
        """
        width, count = self.lines.width, self.positions
        found: list[tuple[int, int, bool]] = []
        for first in (
            *range(0, width - count + 1, count),
            *([width - count] if width % count else ()),
        ):
            start = self.start(first)
            inside = start >= 0 and start + self.span <= self.lines.length
            if inside and found and found[-1][2] and first == sum_of(found[-1], count):
                found[-1] = (found[-1][0], found[-1][1] + 1, True)
            else:
                found.append((first, 1, inside))
        return tuple(found)

    @property
    def applies(self) -> bool:
        """Whether one instruction fills a patch."""
        offset = 8 * self.positions * self.steps
        few = self.positions * self.steps <= _MOST_FOURS and offset <= _MOST_OFFSET
        rows = self.window.rows
        straight = self.lines.long and (rows is None or rows[1].dilation == 1 or rows[1].taps == 1)
        borders = sum(not inside for *_, inside in self.tiles)
        return few and straight and borders <= (_MOST_BORDERS if rows else 0)

    def start(self, first: int) -> int:
        """Where in its row a tile begins, without the image before it."""
        columns = self.window.columns
        before = columns[1].before * self.lines.depth if columns else 0
        return first * self.apart - before

    def ordered(self, weights: np.ndarray) -> np.ndarray:
        """Weights ``[channel][row][run]`` as ``[channel][four][4]``."""
        channels, whole = len(weights), self.fours * _FOUR
        main = weights[..., :whole].reshape(channels, -1)
        ends = weights[..., whole:].reshape(channels, -1)
        missing = self.ends * _FOUR - ends.shape[1]
        joined = np.concatenate([main, np.pad(ends, [(0, 0), (0, missing)])], axis=1)
        return joined.reshape(channels, -1, _FOUR)

    def filled(self, patch: Buffer, first: Expr, inside: bool) -> tuple[Stmt, ...]:
        """The patch of a tile from a position on.

        Args:
            patch: its buffer.
            first: the position; a constant where the tile reads more than the image.
            inside: whether it reads only the image's columns.
        """
        rows = self.window.rows[1] if self.window.rows else None
        row = self._row(integer(0))
        start = self.lines.place(first, 0) if self.window.columns else integer(0)
        direct = self._instruct(patch, self.lines.load(row, start), self._row_step())
        if inside and (rows is None or (rows.before <= 0 and rows.behind <= 0)):
            return (direct,)
        copied = self._copied(patch, first, inside)
        if not inside or rows is None or row is None:
            return copied
        whole = plus(row, (rows.taps - 1) * rows.dilation)
        return (If(_both(_from_zero(row), _below(whole, rows.size)), (direct,), copied),)

    # --- borders --------------------------------------------------------------------------------

    def _copied(self, patch: Buffer, first: Expr, inside: bool) -> tuple[Stmt, ...]:
        """The patch of a copy of the window."""
        window = Buffer(_WINDOW, _I8, (self.rows, self.span), Access.LOCAL)
        left = right = 0
        start: Expr = self.lines.place(first, 0) if self.window.columns else integer(0)
        if not inside:
            assert isinstance(first, Const)
            at = self.start(int(first.value))
            left, right = max(0, -at), max(0, at + self.span - self.lines.length)
            start = integer(at)
        row = self._row(Var("tap"))
        place = plus(Var("point"), left)
        count = self.span - left - right
        load = self.lines.load(row, plus(start, place))
        line = (
            *self._zeros(0, left),
            *nested([Axis("point", count)], (Store(_WINDOW, (Var("tap"), place), load),)),
            *self._zeros(left + count, right),
        )
        rows = self.window.rows[1] if self.window.rows else None
        if rows is not None and row is not None and (rows.before > 0 or rows.behind > 0):
            known = _both(_from_zero(row), _below(row, rows.size))
            line = (If(known, line, self._zeros(0, self.span)),)
        read = Load(_WINDOW, (integer(0), integer(0)), _I8)
        made = self._instruct(patch, read, self.span)
        return with_locals((window,), (*nested([Axis("tap", self.rows)], line), made))

    def _zeros(self, first: int, count: int) -> tuple[Stmt, ...]:
        store = Store(_WINDOW, (Var("tap"), plus(Var("point"), first)), Const(self.zero, _I8))
        return nested([Axis("point", count)], (store,)) if count else ()

    def _row(self, tap: Expr) -> Expr | None:
        """The image's row of a tap."""
        if self.window.rows is None:
            return None
        rows = self.window.rows[1]
        moved = Binary("add", times(Var(rows.out.var), rows.stride), times(tap, rows.dilation))
        return plus(moved, -rows.before)

    def _row_step(self) -> int:
        rows = self.window.rows
        return self.lines.buffer.steps[-2] if rows else self.span

    def _instruct(self, patch: Buffer, read: Load, step: int) -> Stmt:
        target = Load(patch.name, (integer(0),) * 3, _I32)
        if self.window.rows is None:
            row = (self.positions, self.fours, self.rest, self.steps, self.span, self.apart)
            return Instruct(member("patch_row", *row), (target, read))
        ends = max(_FOUR, self.ends * _FOUR)
        sizes = (self.positions, self.rows, self.fours, self.rest, self.steps, self.ends, ends)
        name = member("patch", *sizes, self.span, step, self.apart)
        return Instruct(name, (target, read))


def sum_of(tiles: tuple[int, int, bool], count: int) -> int:
    """The position behind some tiles of so many positions each."""
    return tiles[0] + tiles[1] * count


def _from_zero(value: Expr) -> Expr:
    return Binary("le", integer(0), value)


def _below(value: Expr, size: int) -> Expr:
    return Binary("lt", value, integer(size))


def _both(lhs: Expr, rhs: Expr) -> Expr:
    return Binary("and", lhs, rhs)
