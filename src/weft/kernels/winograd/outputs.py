"""How Winograd convolution transforms its products back to outputs, and what it does with them.

The products and what goes before them are in ``weft.kernels.winograd.square``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from weft.dtypes import DType
from weft.kernels.products.microkernel import replaced
from weft.kernels.tiling import LaneBlock, blocks_of
from weft.kernels.winograd.convolution import Convolution
from weft.kernels.winograd.image import ImageTransform, apply
from weft.kernels.winograd.pooling import Pooling
from weft.kernels.winograd.toom_cook import Filtering
from weft.kernels.writer import LANE, for_lanes, integer, plus, times
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Expr,
    For,
    If,
    Load,
    Local,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import substitute
from weft.records import dataclass

_F32 = DType.F32
_ROW = "row"


def ended(
    conv: Convolution, place: tuple[Expr, Expr, Expr], value: Expr
) -> tuple[tuple[Expr, ...], Expr]:
    """Where an output of a convolution lies, and what it is, its epilogue included.

    Args:
        conv: the convolution.
        place: its row, its column and the channel of lane 0.
        value: its sum.
    """
    compute, lanes, reduce = conv.parts.task.compute, conv.parts.lanes, conv.parts.reduce
    assert lanes is not None
    assert reduce is not None
    row, column, channel = place
    axes = {conv.columns.var: column, lanes.var: plus(channel, Var(LANE))}
    if conv.sides > 1:
        axes[conv.rows.var] = row
    index = tuple(axes.get(axis.var, Var(axis.var)) for axis in compute.axes)
    done = Load("sum", (Var(LANE),), _F32)
    whole = substitute(replaced(compute.value, reduce, done), axes)
    return index, replaced(whole, done, value)


def pooled(
    conv: Convolution,
    pool: Pooling,
    place: tuple[Expr, Expr, Expr],
    width: int,
    value: Callable[[int, int], Expr],
) -> tuple[Stmt, ...]:
    """Stores the maximum of a window of a convolution's outputs.

    Args:
        conv: the convolution.
        pool: its windows.
        place: the window's row and column, and the channel of lane 0.
        width: lanes.
        value: the outputs, by row and column of the window.
    """
    assert conv.parts.lanes is not None
    row, column, channel = place
    axes: dict[str, Expr] = {axis.var: Var(axis.var) for axis in conv.parts.task.compute.axes}
    axes |= {
        conv.rows.var: row,
        conv.columns.var: column,
        conv.parts.lanes.var: plus(channel, Var(LANE)),
    }
    return pool.stores(width, axes, value)


@dataclass(frozen=True)
class TileOutputs:
    """Writes the last transform of a tile and what is computed of its outputs.

    Attributes:
        conv: the convolution.
        form: of the tiles.
        image: the first transform.
        pool: of the outputs, if maxima of windows are stored and not they.
    """

    conv: Convolution
    form: Filtering
    image: ImageTransform
    pool: Pooling | None = None

    @property
    def sides(self) -> tuple[int, int]:
        """Outputs that go into one of what is stored, along rows and columns."""
        return self.pool.sides if self.pool else (1, 1)

    @property
    def lanes(self) -> int:
        """Of a vector."""
        return self.conv.parts.task.target.lanes(_F32)

    def synthesis(
        self, group: LaneBlock, channel: Expr, row: Expr, column: Expr
    ) -> tuple[Stmt, ...]:
        """``out = epilogue(A^T product A)`` for one tile, all lanes of a group."""
        assert self.conv.parts.lanes is not None
        kept = self.conv.parts.lanes.extent - group.start
        found: list[Stmt] = []
        for _, offset, width in group.pieces():
            # A power of two of lanes is a vector of its own.
            rest = kept - offset
            width = rest if rest < width and rest & (rest - 1) == 0 else width
            found += self.piece(offset, (width, rest), (row, column, plus(channel, offset)))
        return tuple(found)

    def piece(
        self, offset: int, widths: tuple[int, int], at: tuple[Expr, Expr, Expr]
    ) -> tuple[Stmt, ...]:
        """A vector of channels, the first ``widths[1]`` of its lanes kept, or all."""
        width, kept = widths
        size, outputs, matrix = self.form.size, self.form.outputs, self.form.inverse
        half = Buffer("half", _F32, (size, outputs, width), Access.LOCAL)
        row, column, _ = at
        finish = partial(self.finished, at, offset, width, kept)
        if self.conv.sides == 1:
            return self.clipped(partial(finish, integer(0)), column)

        def read(column: Expr, place: int, held: int) -> tuple[Stmt, ...]:
            lane = plus(integer(offset), Var(LANE))
            value = Load("product", (plus(column, place * size), Var("patch"), lane), _F32)
            return (for_lanes(width, Store("line", (integer(held), Var(LANE)), value)),)

        def keep(column: Expr, place: int, value: Expr) -> Stmt:
            return Store("half", (column, integer(place), Var(LANE)), value)

        columns = self.image.lines(
            "column",
            lambda each: apply(matrix, width, partial(read, each), partial(keep, each)),
            self.image.written_out,
        )
        return (Local(half, (*columns, *self.by_rows(finish, row, column))),)

    def by_rows(
        self, finish: Callable[[Expr, int], tuple[Stmt, ...]], row: Expr, column: Expr
    ) -> Iterator[Stmt]:
        """All rows of a tile, or of windows of it, that lie inside: written out, or as a loop."""
        rows, dilation = self.conv.rows, self.conv.dilation
        outputs, down = self.form.outputs, self.sides[0]
        fewest = self.stored(rows.extent)[-1]
        if self.image.written_out:
            for first in range(0, outputs, down):
                body = self.clipped(partial(finish, integer(first // down)), column)
                if first < fewest:
                    yield from body
                else:
                    at = plus(row, first * dilation)
                    yield If(Binary("lt", at, integer(rows.extent)), body)
            return
        stop: Expr = integer(outputs // down)
        if rows.extent % (outputs * dilation):
            left = plus(integer(rows.extent + dilation - 1), times(row, -1))
            left = Binary("floordiv", left, integer(dilation * down))
            stop = Binary("min", stop, left)
        yield For(_ROW, integer(0), stop, self.clipped(partial(finish, Var(_ROW)), column))

    def finished(
        self,
        at: tuple[Expr, Expr, Expr],
        offset: int,
        width: int,
        kept: int,
        turn: Expr,
        count: int,
    ) -> tuple[Stmt, ...]:
        """So many outputs of a row, or of rows of windows.

        Those of a vector with idle lanes are stored by narrower ones.
        """
        down, across = self.sides
        matrix = self.form.inverse

        def again(down: int, place: int, held: int) -> tuple[Stmt, ...]:
            value = Load("half", (integer(place), plus(first, down), Var(LANE)), _F32)
            if self.conv.sides == 1:
                index = (integer(place), Var("patch"), plus(integer(offset), Var(LANE)))
                value = Load("product", index, _F32)
            return (for_lanes(width, Store("line", (integer(held), Var(LANE)), value)),)

        def hold(down: int, place: int, value: Expr) -> Stmt:
            return Store("whole", (integer(down), integer(place), Var(LANE)), value)

        first = times(turn, down)
        if kept >= width and self.pool is None:
            keep = partial(self.output, at, turn, 0)
            return apply(matrix, width, partial(again, 0), keep, count)
        body = [
            stmt
            for each in range(down)
            for stmt in apply(matrix, width, partial(again, each), partial(hold, each), count)
        ]
        blocks = blocks_of(min(kept, width), self.lanes, 1)
        narrow = [each for block in blocks for each in block.pieces()]
        for place in range(count // across):
            for _, lane, lanes in narrow:
                body += self.stores(at, turn, place, (lane, lanes))
        whole = Buffer("whole", _F32, (down, count, width), Access.LOCAL)
        return (Local(whole, tuple(body)),)

    def stores(
        self, at: tuple[Expr, Expr, Expr], turn: Expr, place: int, lanes: tuple[int, int]
    ) -> tuple[Stmt, ...]:
        """Stores an output, or the maximum of a window, of lanes of ``whole``."""
        lane, width = lanes
        pool, (down, across) = self.pool, self.sides
        row, column, channel = at

        def whole(down: int, across: int) -> Expr:
            return Load("whole", (integer(down), integer(across), plus(Var(LANE), lane)), _F32)

        if pool is None:
            return (for_lanes(width, self.output(at, turn, lane, place, whole(0, place))),)

        def value(row_of: int, column_of: int) -> Expr:
            inside = (
                plus(row, plus(times(turn, down), row_of)),
                plus(column, place * across + column_of),
                plus(channel, lane),
            )
            return ended(self.conv, inside, whole(row_of, place * across + column_of))[1]

        window = (
            plus(pool.origin(row, 0), turn),
            plus(pool.origin(column, 1), place),
            plus(channel, lane),
        )
        return pooled(self.conv, pool, window, width, value)

    def output(
        self, at: tuple[Expr, Expr, Expr], turn: Expr, first: int, place: int, value: Expr
    ) -> Stmt:
        """Stores a sum, with its epilogue, from a lane on; ``place`` is its column in the tile."""
        row, column, channel = at
        dilation = self.conv.dilation
        inside = (
            plus(row, times(turn, dilation)),
            plus(column, place * dilation),
            plus(channel, first),
        )
        return Store("out", *ended(self.conv, inside, value))

    def clipped(self, write: Callable[[int], tuple[Stmt, ...]], column: Expr) -> tuple[Stmt, ...]:
        """The last transform; tiles at the right edge store fewer columns."""
        extent, dilation = self.conv.columns.extent, self.conv.dilation
        *more, fewest = self.stored(extent)
        body = write(fewest) if fewest else ()
        for count in reversed(more):
            last = plus(column, (count - 1) * dilation + 1)
            body = (If(Binary("le", last, integer(extent)), write(count), body),)
        return body

    def stored(self, extent: int) -> list[int]:
        """How many outputs of a tile may lie inside a side, most first."""
        outputs, dilation = self.form.outputs, self.conv.dilation
        whole, rest = divmod(extent, outputs * dilation)
        found = {outputs} if whole else set[int]()
        if rest:
            found.add(-(-rest // dilation))
        if rest % dilation and rest % dilation < min(dilation, extent):
            found.add(rest // dilation)
        return sorted(found, reverse=True)
