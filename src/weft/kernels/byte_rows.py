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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.kernels.byte_windows import ByteWindow
from weft.kernels.integer_output import ACCUMULATOR, IntegerOutput, fits
from weft.kernels.tiling import blocks_of, even_tiles
from weft.kernels.wide_rows import WIDE, WideRows
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
from weft.loops.walk import loads, substitute
from weft.plan.implementation import Implementation

_I32 = DType.I32
WEIGHTS = "weights"


@dataclass(frozen=True)
class Shape:
    """An instruction, and the register tile around it.

    Attributes:
        row: the instruction.
        tile: positions of a tile.
        vectors: of output channels.
        rows: of outputs in a band.
        shares: parts of the output channels that threads compute by themselves.
    """

    row: Instruction
    tile: int
    vectors: int
    rows: int
    shares: int = 1

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
        wide = WideRows(window, self.lhs.dtype, shift)
        self.down, self.across = wide.down, wide.across
        self.width, self.height = wide.width, wide.height
        weights = window.ordered(self.found.weights.astype(np.int64))
        self.output = IntegerOutput(
            self.found, self._padded(self.found.bias - shift * weights.sum((1, 2, 3)))
        )
        self.output.arrays[WEIGHTS] = packed = self._packed(weights)
        taps = self.across.window.taps if self.across.window and self._long_runs else 1
        over = packed.shape[3] * shape.depth - taps * window.depth
        self.wide = replace(wide, over=over)

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
        if self._long_runs:
            across, depth = 1, across * depth
        steps = -(-depth // self.shape.depth)
        cut = weights.reshape(channels, down, across, depth)
        cut = np.pad(cut, [*[(0, 0)] * 3, (0, steps * self.shape.depth - depth)])
        cut = self._padded(cut)
        lanes = self.shape.lanes
        cut = cut.reshape(-1, lanes, down, across, steps, self.shape.depth)
        return np.ascontiguousarray(cut.transpose(0, 2, 3, 4, 1, 5)).astype(self.rhs.dtype.numpy)

    @property
    def _long_runs(self) -> bool:
        """Whether taps of a row lie side by side."""
        window = self.across.window
        return window is None or window.dilation == 1 or window.taps == 1

    # --- loops ----------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        rows = self.shape.rows
        body: list[Stmt] = []
        for tile in even_tiles(self.height, rows):
            first = plus(times(Var("share"), tile.size), tile.start)
            if tile.count == 1:
                first = integer(tile.start)
            inner = self.band(first, tile.size)
            if tile.count > 1:
                inner = (for_range("share", tile.count, inner, LoopKind.PARALLEL),)
            body += inner
        outer = tuple(self.window.outer)
        found = nested(outer, tuple(body), LoopKind.PARALLEL)
        params = (*self.wide.inputs(self.output.inputs), *self.output.buffers(), self.task.output)
        return simplify_kernel(Kernel(self.task.name, params, found))

    def band(self, first: Expr, rows: int) -> tuple[Stmt, ...]:
        """Outputs of so many rows from one on."""
        extent = self.wide.down.extent(rows)
        wide, fill = self.wide.buffer(extent), self.wide.fill(first, rows, extent)
        groups = self.groups(first, rows)
        if self.shape.shares == 1:
            return with_locals((wide,), (fill, *groups))
        return tuple(
            for_range("part", 1, with_locals((wide,), (fill, group)), LoopKind.PARALLEL)
            for group in groups
        )

    # --- sums -----------------------------------------------------------------------------------

    def groups(self, first: Expr, rows: int) -> list[Stmt]:
        """All output channels of a band: whole groups, then what is left."""
        found: list[Stmt] = []
        for tile in self._shared():
            start = plus(times(Var("group"), tile[1]), tile[0])
            if tile[2] == 1:
                start = integer(tile[0])
            body = (for_range("spot", rows, self.tiles(first, start, tile[1])),)
            found += (for_range("group", tile[2], body),) if tile[2] > 1 else body
        return found

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

    def tiles(self, first: Expr, start: Expr, vectors: int) -> tuple[Stmt, ...]:
        """The tiles of a row of outputs."""
        tile = self.shape.tile if vectors == self.shape.vectors else 2 * self.shape.tile
        found: list[Stmt] = []
        for each in even_tiles(self.width, tile):
            origin = plus(times(Var("tile"), each.size), each.start)
            if each.count == 1:
                origin = integer(each.start)
            body = self.tile(first, start, vectors, origin, each.size)
            found += (for_range("tile", each.count, body),) if each.count > 1 else body
        return tuple(found)

    def tile(
        self, first: Expr, start: Expr, vectors: int, origin: Expr, size: int
    ) -> tuple[Stmt, ...]:
        """A register tile: sums and their outputs."""
        lanes = self.shape.lanes
        pairs = [(position, vector) for position in range(size) for vector in range(vectors)]
        names = {pair: f"acc_{pair[0]}_{pair[1]}" for pair in pairs}
        sums = self.sums(start, origin, names)
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
            for stmt in self.stored(
                names[pair], plus(first, Var("spot")), plus(origin, pair[0]), firsts[pair[1]]
            )
        ]
        buffers = [Buffer(name, _I32, (lanes,), Access.LOCAL) for name in names.values()]
        ahead = [
            stmt
            for position in range(size)
            for stmt in self.ahead(
                plus(first, Var("spot")), plus(origin, position), firsts[0], vectors * lanes
            )
        ]
        return with_locals(buffers, (*ahead, *begin, sums, *end))

    def ahead(self, row: Expr, column: Expr, channel: Expr, count: int) -> Iterator[Stmt]:
        """Fetches what outputs of a position read beside their sums, a line of it each time."""
        target, known = self.task.target, self.output.arrays.keys() | {ACCUMULATOR}
        at = self.placed(row, column)
        for load in dict.fromkeys(loads(self.output.value)):
            if load.buffer in known or not target.caches:
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

    def sums(self, start: Expr, origin: Expr, names: dict[tuple[int, int], str]) -> Stmt:
        """All products of a tile."""
        _, down, across, steps, _, depth = self.output.arrays[WEIGHTS].shape
        run, tap, step = Var("point"), Var("tap"), Var("chunk")
        row = self.down.place(Var("spot"), tap)
        body: list[Stmt] = []
        for (position, vector), name in names.items():
            column = self.across.place(plus(origin, position), run if across > 1 else 0)
            offset = plus(times(column, self.window.depth), times(step, depth))
            operands = (
                Load(name, (integer(0),), _I32),
                Load(WIDE, (row, offset), self.lhs.dtype),
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
