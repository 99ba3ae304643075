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
from dataclasses import dataclass
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.kernels.byte_windows import ByteWindow
from weft.kernels.contraction import SlidingWindow
from weft.kernels.integer_output import ACCUMULATOR, IntegerOutput, fits
from weft.kernels.tiling import blocks_of, even_tiles
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
    Instruct,
    Kernel,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import rename_buffers, substitute_stmts
from weft.plan.implementation import Implementation

_I32 = DType.I32
WIDE, WEIGHTS = "wide", "weights"


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
        self.down = Side(window.rows[1] if window.rows else None)
        self.across = Side(window.columns[1] if window.columns else None)
        self.channels = self.found.channel.extent
        self.width = window.columns[1].out.extent if window.columns else 1
        self.height = window.rows[1].out.extent if window.rows else 1
        self.places = self.across.extent(self.width)
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
        params = (*self.output.inputs, *self.output.buffers(), self.task.output)
        return simplify_kernel(Kernel(self.task.name, params, found))

    def band(self, first: Expr, rows: int) -> tuple[Stmt, ...]:
        """Outputs of so many rows from one on."""
        extent = self.down.extent(rows)
        over = self.output.arrays[WEIGHTS].shape[3] * self.shape.depth - self._run
        length = self.places * self.window.depth + over
        wide = Buffer(WIDE, self.lhs.dtype, (extent, length), Access.LOCAL)
        fill = for_range("row", extent, self.filled(first, rows, over))
        groups = self.groups(first, rows)
        if self.shape.shares == 1:
            return with_locals((wide,), (fill, *groups))
        return tuple(
            for_range("part", 1, with_locals((wide,), (fill, group)), LoopKind.PARALLEL)
            for group in groups
        )

    @property
    def _run(self) -> int:
        """Elements of a row that are read one after the other."""
        window = self.across.window
        taps = window.taps if window and self._long_runs else 1
        return taps * self.window.depth

    # --- the widened input ----------------------------------------------------------------------

    def filled(self, first: Expr, rows: int, over: int) -> tuple[Stmt, ...]:
        """A row of the widened input."""
        low, high = self.across.inside(self.width)
        depth, places = self.window.depth, self.places
        inside = (
            *self.zeros(0, low * depth),
            *self.copied(first, low, high),
            *self.zeros(high * depth, (places - high) * depth + over),
        )
        conditions = self._leaving(first, rows)
        if not conditions:
            return inside
        return (If(conjunction(conditions), inside, tuple(self.zeros(0, places * depth + over))),)

    def _leaving(self, first: Expr, rows: int) -> list[Expr]:
        """What must hold for a row of the input to exist, unless it always does."""
        window = self.down.window
        if window is None:
            return []
        at, found = self.down.source(first, Var("row")), list[Expr]()
        if window.before > 0:
            found.append(Binary("ge", at, integer(0)))
        last = (self.height - 1) * window.stride + (window.taps - 1) * window.dilation
        if last - window.before >= window.size:
            found.append(Binary("lt", at, integer(window.size)))
        return found

    def zeros(self, start: int, count: int) -> Iterator[Stmt]:
        """Stores what padding counts as."""
        zero = Const(self.shift, self.lhs.dtype)

        def store(_: int, width: int, first: Expr) -> Sequence[Stmt]:
            index = (Var("row"), plus(plus(first, Var(LANE)), start))
            return (for_lanes(width, Store(WIDE, index, zero)),)

        return spans(blocks_of(count, self._wide_lanes, 1), store, var="slice")

    @property
    def _wide_lanes(self) -> int:
        """Elements of the widened input that are computed at a time, in 16 bits."""
        return self.task.target.lanes(DType.I16)

    def copied(self, first: Expr, low: int, high: int) -> tuple[Stmt, ...]:
        """Stores the places that exist, vectors of channels or, of one channel, of places."""
        if self.window.depth == 1 and self._contiguous:
            return tuple(
                spans(
                    blocks_of(high - low, self._wide_lanes, 1),
                    lambda _, width, start: (
                        for_lanes(width, self._copy(first, plus(plus(start, Var(LANE)), low), {})),
                    ),
                    var="slice",
                )
            )
        *slower, (place, fastest) = self.window.channels or ((-1, Axis("slice", 1)),)
        column = plus(Var("column"), low)

        def piece(_: int, width: int, start: Expr) -> Sequence[Stmt]:
            channel = {place: plus(start, Var(LANE))}
            return (for_lanes(width, self._copy(first, column, channel)),)

        lanes = self._wide_lanes if self.window.contiguous else 1
        body = tuple(spans(blocks_of(fastest.extent, lanes, 1), piece, var="slice"))
        body = nested([axis for _, axis in slower], body)
        return (for_range("column", high - low, body),)

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
        value = self.window.value(at, self.lhs.dtype, self.shift)
        return Store(WIDE, (Var("row"), offset), value)

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
        return with_locals(buffers, (*begin, sums, *end))

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
        at: dict[str, Expr] = {}
        if self.window.rows:
            at[self.window.rows[1].out.var] = row
        if self.window.columns:
            at[self.window.columns[1].out.var] = column

        def piece(_: int, width: int, begin: Expr) -> Sequence[Stmt]:
            lane = plus(begin, Var(LANE))
            store = self.output.store((lane,))
            names = {**at, self.found.channel.var: plus(channel, lane)}
            (moved,) = substitute_stmts((store,), names)
            (moved,) = rename_buffers((moved,), {ACCUMULATOR: name})
            return (for_range(LANE, width, (moved,), LoopKind.VECTOR),)

        return spans(blocks_of(count, lanes, 1), piece)
