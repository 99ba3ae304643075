"""Convolutions of bytes by rows: widened once, then register tiles of the target's instruction.

A band of rows of the input is widened to the type that the instruction multiplies, with its
borders filled in and its columns packed, so that what an output reads of a row is contiguous.
All output channels then read it from there::

    for band of output rows:                                                       (parallel)
      local wide[row][column * channels]      (x - zero, plus a shift for unsigned types; 0 outside)
      for group of output channels:
        for row of the band, tile of columns:
          acc[position][vector] = start[channel]
          for tap of rows, step along a row:  instruction(acc, wide, weights)
          out = epilogue(acc)

Pixels that are read as they are, such as those of pointwise convolutions, are not copied. Where
weights are larger than the image, threads share the groups of output channels instead of the
bands, and each widens the whole image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.kernels.bytes.vectors.wide_rows import wide_rows
from weft.kernels.bytes.windows import ByteWindow
from weft.kernels.integer.output import ACCUMULATOR, IntegerOutput, fits
from weft.kernels.row_copies import WIDE
from weft.kernels.tiling import Tile, blocks_of, even_tiles
from weft.kernels.writer import (
    LANE,
    for_lanes,
    for_range,
    integer,
    nested,
    plus,
    spans,
    times,
    with_locals,
)
from weft.loops.instruction import Instruction
from weft.loops.nodes import (
    Access,
    Axis,
    Buffer,
    Const,
    Expr,
    Instruct,
    Kernel,
    Load,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import substitute_stmts
from weft.loops.walk import loads, substitute
from weft.plan.implementation import Implementation
from weft.records import dataclass

_I32 = DType.I32
WEIGHTS = "weights"


@dataclass(frozen=True)
class Shape:
    """An instruction, and the register tile around it.

    Attributes:
        row: the instruction.
        tile: positions of a tile.
        vectors: of output channels.
        rows: of outputs in a band; columns: of outputs in a band, all of them unless it has one
            row and the input is read as it is.
        shares: parts of the output channels that threads compute for the whole image; 0 where
            they compute all channels of some bands.
    """

    row: Instruction
    tile: int
    vectors: int
    rows: int
    columns: int
    shares: int = 0

    @property
    def lanes(self) -> int:
        """Channels of one instruction."""
        return prod(self.row.meaning.params[0].shape)

    @property
    def depth(self) -> int:
        """Products of one lane."""
        return prod(self.row.meaning.params[1].shape)

    @property
    def name(self) -> str:
        """The alternative's."""
        return f"{self.row.name}-rows-{self.tile}x{self.vectors}"


@dataclass(frozen=True)
class Band:
    """Outputs that are computed together.

    Attributes:
        row, rows: the first of them and how many; column, columns: likewise.
    """

    row: Expr
    rows: int
    column: Expr
    columns: int


def _origin(var: str, tiles: Tile) -> Expr:
    """Where the tile begins that a variable counts."""
    return (
        plus(times(Var(var), tiles.size), tiles.start) if tiles.count > 1 else integer(tiles.start)
    )


def write(window: ByteWindow, shape: Shape) -> Implementation:
    """The kernel of a contraction for an instruction."""
    made = _Writer(window, shape)
    return Implementation(made.kernel(), made.output.operands(lambda _, array: array), shape.name)


class _Writer:
    def __init__(self, window: ByteWindow, shape: Shape) -> None:
        self.window, self.shape = window, shape
        self.found, self.task = window.found, window.found.task
        _, self.lhs, self.rhs = shape.row.meaning.params
        shift = fits(self.found, shape.row)
        assert shift is not None
        self.shift = shift
        self.channels = self.found.channel.extent
        self.wide = wide = wide_rows(window, shape.row)
        self.down, self.across = wide.down, wide.across
        self.width, self.height = wide.width, wide.height
        weights = window.ordered(self.found.weights.astype(np.int64))
        self.output = IntegerOutput(
            self.found, self._padded(self.found.bias - shift * weights.sum((1, 2, 3)))
        )
        self.output.arrays[WEIGHTS] = self._packed(weights)

    # --- constants ------------------------------------------------------------------------------

    @property
    def vectors(self) -> int:
        """Vectors of all output channels."""
        return -(-self.channels // self.shape.lanes)

    def _padded(self, array: np.ndarray) -> np.ndarray:
        rest = self.vectors * self.shape.lanes - self.channels
        return np.pad(array, [(0, rest), *[(0, 0)] * (array.ndim - 1)])

    def _packed(self, weights: np.ndarray) -> np.ndarray:
        """``[vector][tap of rows][run][step][lane][depth]``: runs are contiguous in a row."""
        channels, down, across, depth = weights.shape
        if self.across.joins_taps:
            across, depth = 1, across * depth
        steps = -(-depth // self.shape.depth)
        cut = weights.reshape(channels, down, across, depth)
        cut = np.pad(cut, [*[(0, 0)] * 3, (0, steps * self.shape.depth - depth)])
        cut = self._padded(cut)
        lanes = self.shape.lanes
        cut = cut.reshape(-1, lanes, down, across, steps, self.shape.depth)
        return np.ascontiguousarray(cut.transpose(0, 2, 3, 4, 1, 5)).astype(self.rhs.dtype.numpy)

    # --- loops ----------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        outer = tuple(self.window.outer)
        body = self.by_channels() if self.shape.shares else self.by_bands()
        found = nested(outer, body, LoopKind.PARALLEL)
        params = (*self.wide.inputs(self.output.inputs), *self.output.buffers(), self.task.output)
        return simplify_kernel(Kernel(self.task.name, params, found))

    def by_bands(self) -> tuple[Stmt, ...]:
        """Threads compute all channels of their bands."""
        body: list[Stmt] = []
        rows, columns = (
            even_tiles(self.height, self.shape.rows),
            even_tiles(self.width, self.shape.columns),
        )
        for down, across in product(rows, columns):
            first = _origin("share", down)
            begin = _origin("stretch", across)
            inner = self.band(Band(first, down.size, begin, across.size))
            for var, each in (("stretch", across), ("share", down)):
                if each.count > 1:
                    inner = (for_range(var, each.count, inner, LoopKind.PARALLEL),)
            body += inner
        return tuple(body)

    def by_channels(self) -> tuple[Stmt, ...]:
        """Threads compute some channels of the whole image."""
        band = Band(integer(0), self.height, integer(0), self.width)
        if self.wide.direct or self.shape.shares == 1:
            return self.band(band)
        body: list[Stmt] = []
        for start, vectors, count in self._shared():
            if count == 1:
                body += self.filled(band, self.spots(band, integer(start), vectors))
                continue
            for each in even_tiles(count, -(-count // self.shape.shares)):
                number = plus(times(Var("part"), each.size), Var("group"))
                channel = plus(times(plus(number, each.start), vectors), start)
                inner = (for_range("group", each.size, self.spots(band, channel, vectors)),)
                body.append(
                    for_range("part", each.count, self.filled(band, inner), LoopKind.PARALLEL)
                )
        return tuple(body)

    def band(self, band: Band) -> tuple[Stmt, ...]:
        """All output channels of a band."""
        if self.wide.direct:
            kind = LoopKind.PARALLEL if self.shape.shares else LoopKind.SERIAL
            return tuple(self.groups(band, kind))
        return self.filled(band, tuple(self.groups(band, LoopKind.SERIAL)))

    def filled(self, band: Band, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements that read what a band reads of the image, widened."""
        extent = self.wide.down.extent(band.rows)
        fill = self.wide.fill(band.row, band.rows, extent)
        return with_locals((self.wide.buffer(extent),), (fill, *body))

    # --- sums -----------------------------------------------------------------------------------

    def groups(self, band: Band, kind: LoopKind) -> Iterator[Stmt]:
        """All output channels of a band: whole groups, then what is left."""
        for start, vectors, count in self._shared():
            first = plus(times(Var("group"), vectors), start) if count > 1 else integer(start)
            body = self.spots(band, first, vectors, kind)
            yield from (for_range("group", count, body, kind),) if count > 1 else body

    def _shared(self) -> Iterator[tuple[int, int, int]]:
        """First vector, vectors and count of each kind of group; a narrow last one by itself."""
        whole = self.channels // self.shape.lanes
        full, rest = divmod(whole, self.shape.vectors)
        if full:
            yield 0, self.shape.vectors, full
        if rest:
            yield full * self.shape.vectors, rest, 1
        if whole < self.vectors:
            yield whole, 1, 1

    def spots(
        self, band: Band, start: Expr, vectors: int, kind: LoopKind = LoopKind.SERIAL
    ) -> tuple[Stmt, ...]:
        """The tiles of some vectors of channels."""
        tile = self.shape.tile if vectors == self.shape.vectors else 2 * self.shape.tile
        found: list[Stmt] = []
        for each in even_tiles(band.columns, tile):
            origin = plus(_origin("tile", each), band.column)
            body = self.tile(band, start, vectors, origin, each.size)
            found += (for_range("tile", each.count, body, kind),) if each.count > 1 else body
        if band.rows == 1 and self.wide.direct:
            return tuple(substitute_stmts(found, {"spot": integer(0)}))
        return (for_range("spot", band.rows, tuple(found), kind),)

    def tile(
        self, band: Band, start: Expr, vectors: int, origin: Expr, size: int
    ) -> tuple[Stmt, ...]:
        """A register tile: sums and their outputs."""
        lanes = self.shape.lanes
        pairs = [(position, vector) for position in range(size) for vector in range(vectors)]
        names = {pair: f"acc_{pair[0]}_{pair[1]}" for pair in pairs}
        row = plus(band.row, Var("spot"))
        sums = self.sums(row, start, origin, names)
        firsts = {vector: plus(times(start, lanes), vector * lanes) for vector in range(vectors)}
        begin = [
            for_lanes(
                lanes,
                Store(
                    names[pair],
                    (Var(LANE),),
                    Load("start", (plus(firsts[pair[1]], Var(LANE)),), _I32),
                ),
            )
            for pair in pairs
        ]
        end = [
            stmt
            for pair in pairs
            for stmt in self.stored(names[pair], row, plus(origin, pair[0]), firsts[pair[1]])
        ]
        buffers = [Buffer(name, _I32, (lanes,), Access.LOCAL) for name in names.values()]
        ahead = [
            stmt
            for position in range(size)
            for stmt in self.ahead(row, plus(origin, position), firsts[0], vectors * lanes)
        ]
        return with_locals(buffers, (*ahead, *begin, sums, *end))

    def ahead(self, row: Expr, column: Expr, channel: Expr, count: int) -> Iterator[Stmt]:
        """Fetches what outputs of a position read beside their sums, a line of it each time."""
        target, known = self.task.target, self.output.arrays.keys() | {ACCUMULATOR}
        at = self.placed(row, column)
        for load in dict.fromkeys(loads(self.output.value)):
            # Elements of tables lie where the sums say, which are not there yet.
            if load.buffer in known or not target.caches or any(loads(*load.index)):
                continue
            for start in range(0, count, target.line // load.dtype.bytes):
                names = {**at, self.found.channel.var: plus(channel, start)}
                yield Prefetch(load.buffer, tuple(substitute(each, names) for each in load.index))

    def placed(self, row: Expr, column: Expr) -> dict[str, Expr]:
        """Where a row and a column of outputs are."""
        at: dict[str, Expr] = {}
        if self.window.rows:
            at[self.window.rows[1].out.var] = row
        if self.window.columns:
            at[self.window.columns[1].out.var] = column
        return at

    def sums(
        self, spot: Expr, start: Expr, origin: Expr, names: dict[tuple[int, int], str]
    ) -> Stmt:
        """All products of a tile."""
        _, down, across, steps, _, depth = self.output.arrays[WEIGHTS].shape
        run, tap, step = Var("point"), Var("tap"), Var("chunk")
        row = self.down.place(Var("spot"), tap)
        direct = self.wide.direct is not None
        body: list[Stmt] = []
        for (position, vector), name in names.items():
            column = self.across.place(plus(origin, position), run if across > 1 else 0)
            offset = plus(times(column, self.window.depth), times(step, depth))
            pixel = plus(origin, position)
            operands = (
                Load(name, (integer(0),), _I32),
                self.wide.place(spot, pixel, times(step, depth))
                if direct
                else Load(WIDE, (row, offset), self.lhs.dtype),
                Load(
                    WEIGHTS,
                    (plus(start, vector), tap, run, step, integer(0), integer(0)),
                    self.rhs.dtype,
                ),
            )
            body.append(Instruct(self.shape.row.name, operands))
        loops = [Axis("tap", down), Axis("point", across), Axis("chunk", steps)]
        return nested(loops, tuple(body))[0]

    def stored(self, name: str, row: Expr, column: Expr, channel: Expr) -> Iterator[Stmt]:
        """Outputs of a position and a vector; of the last vector, those that exist."""
        lanes = self.shape.lanes
        last = isinstance(channel, Const) and int(channel.value) + lanes > self.channels
        count = self.channels - int(channel.value) if last else lanes  # pyright: ignore
        at = self.placed(row, column)

        def piece(_: int, width: int, begin: Expr) -> Sequence[Stmt]:
            lane = plus(begin, Var(LANE))
            places = {**at, self.found.channel.var: plus(channel, lane)}
            return self.output.lanes(width, name, (lane,), places)

        return spans(blocks_of(count, lanes, 1), piece)
