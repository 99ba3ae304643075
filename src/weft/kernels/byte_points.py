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
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import gcd, prod
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.byte_rows_choice import rows_of
from weft.kernels.byte_windows import ByteWindow, byte_window
from weft.kernels.generator import Generator
from weft.kernels.integer_output import IntegerOutput, fits, largest_sum
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
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
from weft.loops.instruction import Instruction, instructions
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
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

_I16, _I32 = DType.I16, DType.I32
_MADE, _SUMS, _WEIGHTS = "made", "sums", "weights"
_SIDE, _TALL = 2, 4
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
_MADE_COST, _SUM_COST, _STORE_COST = 64, 40, 10
"""Operations on vectors that transform a tile of inputs, one of sums, and make an output."""


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
        """The widened input."""
        return WideRows(self.window, self.row.meaning.params[1].dtype, 0)

    @property
    def across(self) -> int:
        """Tiles of a row."""
        return self.wide.width // _SIDE

    @property
    def rows(self) -> int:
        """Rows of tiles that are computed together."""
        most = self.wide.height // _SIDE
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
        self.output.arrays["start"] = self.output.arrays["start"] * np.int32(_SIDE * _SIDE)
        weights = self.window.ordered(self.found.weights.astype(np.int64))
        self.output.arrays[_WEIGHTS] = self._packed(weights)
        self.depth, self.channels = self.window.depth, self.found.channel.extent
        self.tiles = loops.rows * loops.across

    def _packed(self, weights: np.ndarray) -> np.ndarray:
        """``[vector][point][step][lane][pair]``."""
        _, lhs, rhs = self.loops.row.meaning.params
        made = np.einsum("pi,cijk,qj->cpqk", _TRANSFORM, weights, _TRANSFORM)
        pairs = lhs.shape[0]
        cut = made.reshape(-1, self.loops.lanes, _TALL * _TALL, made.shape[-1] // pairs, pairs)
        return np.ascontiguousarray(cut.transpose(0, 2, 3, 1, 4).astype(rhs.dtype.numpy))

    def kernel(self) -> Kernel:
        """All rows of tiles."""
        task, rows = self.found.task, self.loops.rows * _SIDE
        first = times(Var("share"), rows)
        extent = rows + _SIDE
        shape = (_TALL * _TALL, self.tiles, self.depth)
        made = Buffer(_MADE, self.wide.dtype, shape, Access.LOCAL)
        groups = self.channels // (self.loops.lanes * self.loops.vectors)
        tiles = (
            for_range("down", self.loops.rows, self._transformed()),
            for_range("group", groups, self._group(first)),
        )
        body = (self.wide.fill(first, rows, extent), *with_locals((made,), tiles))
        band = with_locals((self.wide.buffer(extent),), body)
        shares = (for_range("share", self.wide.height // rows, band, LoopKind.PARALLEL),)
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
                down = plus(times(Var("down"), _SIDE), row)
                offset = times(plus(times(Var("tile"), _SIDE), column), self.depth)
                return Load(WIDE, (down, plus(offset, channel)), _I16)

            tile = plus(times(Var("down"), self.loops.across), Var("tile"))
            half = {
                (i, column): _added([(read(row, column), sign) for row, sign in _INPUT[i]])
                for i in range(_TALL)
                for column in range(_TALL)
            }
            names = {at: f"half_{at[0]}_{at[1]}" for at in half}
            stores = [Store(names[at], (), value) for at, value in half.items()]
            for i in range(_TALL):
                for j in range(_TALL):
                    index = (integer(_TALL * i + j), tile, channel)
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
        shape = (_TALL * _TALL, self.tiles, vectors * lanes)
        sums = Buffer(_SUMS, _I32, shape, Access.LOCAL)
        runs: list[Stmt] = []
        for each in even_tiles(self.tiles, self.loops.tile):
            origin = plus(times(Var("run"), each.size), each.start)
            runs.append(for_range("run", each.count, self._products(origin, each.size)))
        outputs = [self._outputs(first, vector) for vector in range(vectors)]
        ends = for_range("tile", self.loops.across, tuple(outputs))
        points = for_range("point", _TALL * _TALL, tuple(runs))
        return with_locals((sums,), (points, for_range("down", self.loops.rows, (ends,))))

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

    def _outputs(self, first: Expr, vector: int) -> Stmt:
        """Four outputs of a vector of channels."""
        lanes = self.loops.lanes
        tile = plus(times(Var("down"), self.loops.across), Var("tile"))
        group = times(Var("group"), self.loops.vectors)
        channel = times(plus(group, vector), lanes)
        window, stmts, names = self.window, list[Stmt](), list[str]()
        assert window.rows is not None
        assert window.columns is not None
        for row, column in product(range(_SIDE), range(_SIDE)):
            name = f"acc_{row}_{column}"
            names.append(name)
            terms: list[tuple[Expr, int]] = [
                (self._sum(_TALL * i + j, tile, vector), across * down)
                for i, down in _OUTPUT[row]
                for j, across in _OUTPUT[column]
            ]
            start = Load("start", (plus(channel, Var(LANE)),), _I32)
            total = Binary("shr", _added([(start, 1), *terms]), Const(_SIDE, _I32))
            stmts.append(for_lanes(lanes, Store(name, (Var(LANE),), total)))
            down = plus(first, plus(times(Var("down"), _SIDE), row))
            places: dict[str, Expr] = {
                window.rows[1].out.var: down,
                window.columns[1].out.var: plus(times(Var("tile"), _SIDE), column),
                self.found.channel.var: plus(channel, Var(LANE)),
            }
            stmts += self.output.lanes(lanes, name, (Var(LANE),), places)
        buffers = [Buffer(name, _I32, (lanes,), Access.LOCAL) for name in names]
        (found,) = with_locals(buffers, tuple(stmts))
        return found

    def _sum(self, point: int, tile: Expr, vector: int) -> Expr:
        place = plus(Var(LANE), vector * self.loops.lanes)
        return Load(_SUMS, (integer(point), tile, place), _I32)


def _added(terms: Sequence[tuple[Expr, int]]) -> Expr:
    """Terms with their signs, the first one positive."""
    (total, _), *rest = terms
    for term, sign in rest:
        total = Binary("add" if sign > 0 else "sub", total, term)
    return total


# --- choice -------------------------------------------------------------------------------------


def _refused(window: ByteWindow) -> str:
    """Why the loops do not apply; empty where they do."""
    if window.rows is None or window.columns is None:
        return "it has no windows of 3x3 neighbours"
    for _, side in (window.rows, window.columns):
        if (side.taps, side.stride, side.dilation) != (3, 1, 1) or side.out.extent % _SIDE:
            return "it has no windows of 3x3 neighbours, or its outputs are not of whole tiles"
    if _SIDE * _SIDE * largest_sum(window.found) >= 1 << 31:
        return "four times its sums may not fit 32 bits"
    return ""


def points_of(window: ByteWindow) -> Iterator[Points]:
    """The instructions of the target that add products of 16 bits to vectors of sums."""
    target = window.found.task.target
    most = max(map(_rate, rows_of(window)), default=0.0)
    for row in instructions().values():
        sum, *factors = row.meaning.params
        if [len(each.shape) for each in row.meaning.params] != [1, 1, 2]:
            continue
        wide = {each.dtype for each in factors} == {_I16} and row.needs in target.features
        whole = window.found.channel.extent % sum.shape[0] or window.depth % factors[0].shape[0]
        if not wide or whole or fits(window.found, row) != 0:
            continue
        # 4 products for 9 pay neither for transforms nor for weights of 3.6 times the size where
        # another instruction multiplies twice as many bytes.
        if 2 * _rate(row) <= most:
            continue
        # Where loads do not fill all lanes, a tile has few of the operands that need it.
        most = 2 if target.fused else 4
        vectors = gcd(window.found.channel.extent // sum.shape[0], most)
        yield Points(window, row, max(1, (target.registers - 4) // vectors), vectors)


def _rate(row: Instruction) -> float:
    """Products in a cycle."""
    return prod(row.meaning.params[2].shape) / row.cycles


def cost(loops: Points) -> float:
    """About how many cycles it takes on one core."""
    target, found = loops.window.found.task.target, loops.window.found
    images = prod(axis.extent for axis in loops.window.outer)
    tiles = loops.across * (loops.wide.height // _SIDE)
    _, lhs, _ = loops.row.meaning.params
    vectors = found.channel.extent / loops.lanes
    steps = loops.window.depth / lhs.shape[0]
    held = loops.tile * loops.vectors
    # As other generators count: two instructions a cycle.
    step = max(held * loops.row.cycles / 2, (loops.tile + loops.vectors) / target.issue.loads)
    products = _TALL * _TALL * vectors * steps * step / held
    made = loops.window.depth / target.lanes(_I16) * _MADE_COST
    outputs = vectors * (_SUM_COST + _SIDE * _SIDE * _STORE_COST)
    return images * tiles * (products + (made + outputs) / target.issue.operations)


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternatives of this generator."""
    if not task.target.features:
        return Refusal(f"{task.target.name} has no instructions for it")
    window = byte_window(task)
    if isinstance(window, Refusal):
        return window
    problem = _refused(window)
    if problem:
        return Refusal(problem)
    offered = tuple(points_of(window))
    if not offered:
        return Refusal("no instruction of the target takes its types and channels")
    return tuple(
        Alternative(each.name, cost(each), Sums("tensorized"), partial(_made, each), always)
        for each in offered
    )


def _made(loops: Points) -> Implementation:
    return loops.generate()


GENERATOR = Generator(
    "byte-points",
    "Winograd convolutions of bytes, exact in integers of 16 bits: 16 products for 4 outputs "
    "instead of 36, by an instruction that multiplies pairs and adds (AVX2, SSE2).",
    (
        "one sum of products, in i32, of bytes and constant weights less their zero points",
        "windows of 3x3 neighbours, an even number of rows and of columns of outputs",
        "output channels a multiple of the lanes of an instruction of the target",
    ),
    propose,
)
