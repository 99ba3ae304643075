"""Winograd convolution of bytes by vectors, exact in integers: F(2x2, 3x3) in 16 bits.

With weights ``U = (2G) g (2G)^T`` in 16 bits, 16 products make 4 outputs instead of 36, each four
times its sum, and nothing is rounded (A. Lavin, S. Gray, Fast Algorithms for Convolutional
Neural Networks, 2016)::

    for some rows of tiles of 2x2 outputs:                                         (parallel)
      local wide[row][column * channels]
      local made[16][tile][channel]                         (transformed inputs)
      for group of output channels:
        for point, run of tiles:
          acc[tile][vector] = 0
          for step of channels:  instruction(acc, made, weights)
          local sums[16][tile][vector of channels] = acc
        for tile, vector:  four outputs = epilogue((transform(sums) + 4 * start) >> 2)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.kernels.bytes.vectors.wide_rows import WideRows
from weft.kernels.bytes.windows import ByteWindow
from weft.kernels.integer.output import IntegerOutput
from weft.kernels.row_copies import WIDE
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
from weft.loops.instruction import Instruction
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
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
from weft.plan.implementation import Implementation
from weft.records import dataclass

_I16, _I32 = DType.I16, DType.I32
_MADE, _SUMS, _WEIGHTS = "made", "sums", "weights"
SIDE, TALL = 2, 4
_TRANSFORM = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
_Signed: TypeAlias = tuple[tuple[int, int], ...]
_INPUT: tuple[_Signed, ...] = (
    ((0, 1), (2, -1)),
    ((1, 1), (2, 1)),
    ((2, 1), (1, -1)),
    ((1, 1), (3, -1)),
)
_OUTPUT: tuple[_Signed, ...] = (((0, 1), (1, 1), (2, 1)), ((1, 1), (2, -1), (3, -1)))
"""What each row of a transform adds: places and signs."""
_TILES = 24
"""Tiles at the least that use weights one after the other, where the image has so many."""


@dataclass(frozen=True)
class Points:
    """A convolution by an instruction.

    Attributes:
        window: what it reads.
        row: the instruction.
        tile: tiles of outputs whose sums registers hold; vectors: of output channels.
    """

    window: ByteWindow
    row: Instruction
    tile: int
    vectors: int

    @property
    def name(self) -> str:
        """The alternative's."""
        return f"{self.row.name}-winograd-{self.tile}x{self.vectors}"

    @property
    def lanes(self) -> int:
        """Channels of one instruction."""
        return prod(self.row.meaning.params[0].shape)

    @property
    def wide(self) -> WideRows:
        """The widened input, with a column behind it where the last tile reads one more."""
        wide = WideRows(self.window, self.row.meaning.params[1].dtype, 0)
        return replace(wide, over=wide.width % SIDE * self.window.depth)

    @property
    def across(self) -> int:
        """Tiles of a row."""
        return -(-self.wide.width // SIDE)

    @property
    def down(self) -> int:
        """Rows of tiles."""
        return -(-self.wide.height // SIDE)

    @property
    def rows(self) -> int:
        """Rows of tiles that are computed together."""
        most = self.down
        task = self.window.found.task
        wanted = min(most, -(-_TILES // self.across), max(1, most // task.threads))
        return next(each for each in range(wanted, 0, -1) if most % each == 0)

    def generate(self) -> Implementation:
        """The kernel."""
        made = _Writer(self)
        operands = made.output.operands(lambda _, array: array)
        return Implementation(made.kernel(), operands, self.name)


class _Writer:
    def __init__(self, loops: Points) -> None:
        self.loops, self.window, self.wide = loops, loops.window, loops.wide
        self.found = self.window.found
        self.output = IntegerOutput(self.found, self.found.bias.astype(np.int64))
        self.output.arrays["start"] = self.output.arrays["start"] * np.int32(SIDE * SIDE)
        weights = self.window.ordered(self.found.weights.astype(np.int64))
        self.output.arrays[_WEIGHTS] = self._packed(weights)
        self.depth, self.channels = self.window.depth, self.found.channel.extent
        self.tiles = loops.rows * loops.across

    def _packed(self, weights: np.ndarray) -> np.ndarray:
        """``[vector][point][step][lane][pair]``."""
        _, lhs, rhs = self.loops.row.meaning.params
        made = np.einsum("pi,cijk,qj->cpqk", _TRANSFORM, weights, _TRANSFORM)
        pairs = lhs.shape[0]
        cut = made.reshape(-1, self.loops.lanes, TALL * TALL, made.shape[-1] // pairs, pairs)
        return np.ascontiguousarray(cut.transpose(0, 2, 3, 1, 4).astype(rhs.dtype.numpy))

    def kernel(self) -> Kernel:
        """All rows of tiles."""
        task, rows = self.found.task, self.loops.rows * SIDE
        first = times(Var("share"), rows)
        extent = rows + SIDE
        shape = (TALL * TALL, self.tiles, self.depth)
        made = Buffer(_MADE, self.wide.dtype, shape, Access.LOCAL)
        groups = self.channels // (self.loops.lanes * self.loops.vectors)
        tiles = (
            for_range("down", self.loops.rows, self._transformed()),
            for_range("group", groups, self._group(first)),
        )
        # The last row of tiles may have a row of outputs too many.
        last = rows - self.wide.height % SIDE
        body = (self.wide.fill(first, last, extent), *with_locals((made,), tiles))
        band = with_locals((self.wide.buffer(extent),), body)
        count = self.loops.down // self.loops.rows
        shares = (for_range("share", count, band, LoopKind.PARALLEL),)
        params = (
            *self.wide.inputs(self.output.inputs),
            *self.output.buffers(),
            task.output,
        )
        found = nested(self.window.outer, shares, LoopKind.PARALLEL)
        return simplify_kernel(Kernel(task.name, params, found))

    # --- inputs ---------------------------------------------------------------------------------

    def _transformed(self) -> tuple[Stmt, ...]:
        """A row of tiles of the input, transformed."""

        def piece(_: int, width: int, start: Expr) -> Sequence[Stmt]:
            channel = plus(start, Var(LANE))

            def read(row: int, column: int) -> Expr:
                down = plus(times(Var("down"), SIDE), row)
                offset = times(plus(times(Var("tile"), SIDE), column), self.depth)
                return Load(WIDE, (down, plus(offset, channel)), _I16)

            tile = plus(times(Var("down"), self.loops.across), Var("tile"))
            half = {
                (i, column): _added([(read(row, column), sign) for row, sign in _INPUT[i]])
                for i in range(TALL)
                for column in range(TALL)
            }
            names = {at: f"half_{at[0]}_{at[1]}" for at in half}
            stores = [Store(names[at], (), value) for at, value in half.items()]
            for i in range(TALL):
                for j in range(TALL):
                    index = (integer(TALL * i + j), tile, channel)
                    halves = [(Load(names[i, at], (), _I16), sign) for at, sign in _INPUT[j]]
                    stores.append(Store(_MADE, index, _added(halves)))
            buffers = [Buffer(name, _I16, (), Access.LOCAL) for name in names.values()]
            inner = with_locals(buffers, tuple(stores))
            return (For(LANE, integer(0), integer(width), inner, LoopKind.VECTOR),)

        lanes = self.found.task.target.lanes(_I16)
        body = tuple(spans(blocks_of(self.depth, lanes, 1), piece, var="slice"))
        return (for_range("tile", self.loops.across, body),)

    # --- sums and outputs -----------------------------------------------------------------------

    def _group(self, first: Expr) -> tuple[Stmt, ...]:
        """All tiles of some vectors of output channels."""
        lanes, vectors = self.loops.lanes, self.loops.vectors
        shape = (TALL * TALL, self.tiles, vectors * lanes)
        sums = Buffer(_SUMS, _I32, shape, Access.LOCAL)
        runs: list[Stmt] = []
        for each in even_tiles(self.tiles, self.loops.tile):
            origin = plus(times(Var("run"), each.size), each.start)
            runs.append(for_range("run", each.count, self._products(origin, each.size)))
        whole, rest = divmod(self.wide.width, SIDE)
        ends = [
            stmt
            for count, tile, columns in ((whole, Var("tile"), SIDE), (rest, integer(whole), rest))
            for stmt in self._row(first, count, tile, columns)
        ]
        points = for_range("point", TALL * TALL, tuple(runs))
        return with_locals((sums,), (points, for_range("down", self.loops.rows, tuple(ends))))

    def _row(self, first: Expr, count: int, tile: Expr, columns: int) -> Iterator[Stmt]:
        """Outputs of some tiles of a row, of so many columns each."""
        outputs = [
            stmt
            for vector in range(self.loops.vectors)
            for stmt in self._outputs(first, vector, tile, columns)
        ]
        if count:
            yield for_range("tile", count, tuple(outputs))

    def _products(self, origin: Expr, size: int) -> tuple[Stmt, ...]:
        """The sums of a point of neighbouring tiles."""
        lanes, zero = self.loops.lanes, integer(0)
        sum, lhs, rhs = self.loops.row.meaning.params
        steps = self.depth // lhs.shape[0]
        names = {
            (tile, vector): f"acc_{tile}_{vector}"
            for tile in range(size)
            for vector in range(self.loops.vectors)
        }
        begin, step, end = list[Stmt](), list[Stmt](), list[Stmt]()
        for (tile, vector), name in names.items():
            lane = (Var(LANE),)
            begin.append(for_lanes(lanes, Store(name, lane, Const(0, _I32))))
            place = plus(origin, tile)
            made = Load(_MADE, (Var("point"), place, times(Var("chunk"), lhs.shape[0])), lhs.dtype)
            number = plus(times(Var("group"), self.loops.vectors), vector)
            at = (number, Var("point"), Var("chunk"), zero, zero)
            operands = Load(name, (zero,), sum.dtype), made, Load(_WEIGHTS, at, rhs.dtype)
            step.append(Instruct(self.loops.row.name, operands))
            index = (Var("point"), place, plus(Var(LANE), vector * lanes))
            end.append(for_lanes(lanes, Store(_SUMS, index, Load(name, lane, _I32))))
        buffers = [Buffer(name, _I32, (lanes,), Access.LOCAL) for name in names.values()]
        return with_locals(buffers, (*begin, for_range("chunk", steps, tuple(step)), *end))

    def _outputs(self, first: Expr, vector: int, across: Expr, columns: int) -> Iterator[Stmt]:
        """Outputs of a vector of channels, those of a row that may not exist behind a question."""
        tile = plus(times(Var("down"), self.loops.across), across)
        for row in range(SIDE):
            down = plus(first, plus(times(Var("down"), SIDE), row))
            made = [
                stmt
                for column in range(columns)
                for stmt in self._output(vector, tile, (row, column), (down, across))
            ]
            if row and self.wide.height % SIDE:
                made = [If(Binary("lt", down, integer(self.wide.height)), tuple(made))]
            yield from made

    def _output(
        self, vector: int, tile: Expr, at: tuple[int, int], place: tuple[Expr, Expr]
    ) -> tuple[Stmt, ...]:
        """Outputs of a row and a column of a tile, whose row and whose tile are at a place."""
        lanes, window = self.loops.lanes, self.window
        group = times(Var("group"), self.loops.vectors)
        channel = times(plus(group, vector), lanes)
        terms: list[tuple[Expr, int]] = [
            (self._sum(TALL * i + j, tile, vector), across * down)
            for i, down in _OUTPUT[at[0]]
            for j, across in _OUTPUT[at[1]]
        ]
        start = Load("start", (plus(channel, Var(LANE)),), _I32)
        total = Binary("shr", _added([(start, 1), *terms]), Const(SIDE, _I32))
        name = f"acc_{at[0]}_{at[1]}"
        assert window.rows is not None
        assert window.columns is not None
        places: dict[str, Expr] = {
            window.rows[1].out.var: place[0],
            window.columns[1].out.var: plus(times(place[1], SIDE), at[1]),
            self.found.channel.var: plus(channel, Var(LANE)),
        }
        stmts = (
            for_lanes(lanes, Store(name, (Var(LANE),), total)),
            *self.output.lanes(lanes, name, (Var(LANE),), places),
        )
        return with_locals([Buffer(name, _I32, (lanes,), Access.LOCAL)], stmts)

    def _sum(self, point: int, tile: Expr, vector: int) -> Expr:
        place = plus(Var(LANE), vector * self.loops.lanes)
        return Load(_SUMS, (integer(point), tile, place), _I32)


def _added(terms: Sequence[tuple[Expr, int]]) -> Expr:
    """Terms with their signs, the first one positive."""
    (total, _), *rest = terms
    for term, sign in rest:
        total = Binary("add" if sign > 0 else "sub", total, term)
    return total
