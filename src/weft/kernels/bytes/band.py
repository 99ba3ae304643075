"""Strips of an image of bytes, copied with their borders: columns with their channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.dtypes import DType
from weft.kernels.contraction import SlidingWindow
from weft.kernels.writer import integer, nested, plus, times
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
from weft.loops.walk import map_expr

BAND = "band"
_I8 = DType.I8


class Band:
    """An image whose channels lie side by side, and copies of its rows with their borders.

    Args:
        source: the image; load: what an output reads of it.
        order: its dimensions of rows, columns and channels.
        down, across: windows along rows and columns.
        zero: what borders are.

    Attributes:
        image: the image with these dimensions last.
    """

    def __init__(
        self,
        source: Buffer,
        load: Load,
        order: Sequence[int],
        windows: tuple[SlidingWindow, SlidingWindow],
        zero: int,
    ) -> None:
        self.load, self.zero = load, zero
        self.down, self.across = windows
        self.channels = source.shape[order[-1]]
        self.kept = [at for at in range(len(source.shape)) if at not in order]
        self.places = (*self.kept, *order)
        shape = tuple(source.shape[at] for at in self.places)
        strides = tuple(source.steps[at] for at in self.places)
        self.image = Buffer(source.name, _I8, shape, Access.READ, strides)

    def at(self, row: Expr, column: Expr) -> Load:
        """The first channel of a place of the image."""
        kept = [self.load.index[at] for at in self.kept]
        return Load(self.image.name, (*kept, row, column, integer(0)), _I8)

    def moved(self, expr: Expr) -> Expr:
        """An expression that reads the image elsewhere, its dimensions in the new order."""

        def change(node: Expr) -> Expr:
            if not isinstance(node, Load) or node.buffer != self.image.name:
                return node
            return replace(node, index=tuple(node.index[at] for at in self.places))

        return map_expr(expr, change)

    def filled(self, first: Expr, shape: Sequence[int]) -> tuple[Stmt, ...]:
        """A row of the band: copied from the image with its borders, or a border."""
        down, across = self.down, self.across
        row = plus(plus(times(first, down.stride), Var("row")), -down.before)
        left = max(0, across.before)
        skipped = max(0, -across.before)
        count = min(across.size - skipped, shape[1] - left)
        line = Load(BAND, (Var("row"), integer(left), integer(0)), _I8)
        name = member("copy", count, self.channels)
        copy = Instruct(name, (line, self.at(row, integer(skipped))))
        body: tuple[Stmt, ...] = (
            *self.zeros(0, left),
            copy,
            *self.zeros(left + count, shape[1] - left - count),
        )
        if down.before <= 0 and down.behind <= 0:
            return body
        inside = Binary(
            "and",
            Binary("le", integer(0), row),
            Binary("lt", row, integer(down.size)),
        )
        return (If(inside, body, self.zeros(0, shape[1])),)

    def zeros(self, first: int, count: int) -> tuple[Stmt, ...]:
        """So many columns of the zero point, in the band's row."""
        index = (Var("row"), plus(Var("point"), first), Var("wide"))
        store = Store(BAND, index, Const(self.zero, _I8))
        return nested([Axis("point", count), Axis("wide", self.channels)], (store,))
