"""Winograd convolution of bytes, exact in integers: F(2x2, 3x3) by pairs of products (SMLAD).

With weights ``U = (2G) g (2G)^T`` in 16 bits, 16 products make 4 outputs instead of 36, each four
times its sum, and nothing is rounded (A. Lavin, S. Gray, Fast Algorithms for Convolutional
Neural Networks, 2016)::

    for two rows of outputs:
      local band[4 rows][column][channel]                    (with borders: the zero point)
      for two tiles of 2x2 outputs:
        local tiles[16][four of channels][tile][even, odd]    (transformed inputs)
        for block of channels:
          local sums[16][tile][channel]:  16 products of matrices
          for tile:  local acc[2][2][channel] (transformed back), requantized
"""

from __future__ import annotations

from functools import partial
from math import gcd, prod

import numpy as np

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.bytes.band import BAND, Band
from weft.kernels.bytes.dual.narrow import STREAM, narrowed
from weft.kernels.bytes.dual.products import word, zero_of
from weft.kernels.bytes.scaling import ROW, RequantizedRow
from weft.kernels.bytes.windows import ByteWindow, byte_window
from weft.kernels.contraction import SlidingWindow
from weft.kernels.generator import Generator
from weft.kernels.integer.output import ACCUMULATOR, IntegerOutput, largest_sum
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.writer import for_range, integer, nested, plus, times, with_locals
from weft.loops.instruction import families, member
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    If,
    Instruct,
    Kernel,
    Load,
    Stmt,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import map_stmts, substitute_stmts
from weft.plan.implementation import Implementation

_I8, _I32 = DType.I8, DType.I32
MOST_CHANNELS = 16
"""Channels of a block: its sums are 128 bytes for each."""
_TRANSFORM = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
_POINTS, _MIDDLE, _PAIR = 16, 5, 2
_TILES, _SIDE = 2, 2
_NAME = "winograd-dual"
_INPUT, _STEP, _AHEAD, _OUTPUT, _STORE = 42, 10, 4, 9, 7
"""Instructions: to transform one channel's tile, of four products of each of four sums, of what
surrounds them, to transform and to requantize one output."""


def _sides(
    window: ByteWindow,
) -> tuple[tuple[int, SlidingWindow], tuple[int, SlidingWindow]] | None:
    """Rows and columns, where they suit tiles of 2x2 outputs."""
    if window.rows is None or window.columns is None:
        return None
    found = window.rows, window.columns
    for (_, side), outputs in zip(found, (_SIDE, _SIDE * _TILES), strict=True):
        if (side.taps, side.stride, side.dilation) != (3, 1, 1) or side.out.extent % outputs:
            return None
    return found


def _refused(task: Task, window: ByteWindow) -> str:
    """Why the loops do not apply; empty where they do."""
    channels = window.found.channel.extent
    if task.optimize != "speed":
        return "its weights take 3.6 times as much flash, which is for speed alone"
    if _sides(window) is None:
        return "it has no windows of 3x3 neighbours, or its outputs are not of whole tiles of 2x4"
    if window.source.dtype is not _I8 or len(window.channels) != 1:
        return "its input is not an image of signed bytes"
    ((at, axis),) = window.channels
    columns = window.source.steps[window.columns[0]] if window.columns else 0
    if window.source.steps[at] != 1 or columns != axis.extent or axis.extent % 4 or channels % 2:
        return "its channels do not lie side by side, in fours"
    raw = int(np.abs(window.found.weights.astype(np.int64)).sum(1).max()) * 128
    if 4 * (largest_sum(window.found) + raw) >= 1 << 31:
        return "four times its sums may not fit 32 bits"
    return ""


class _Writer:
    def __init__(self, window: ByteWindow) -> None:
        self.window, self.found = window, window.found
        sides = _sides(window)
        assert sides is not None
        (rows, down), (columns, across) = sides
        self.down, self.across = down, across
        zero = zero_of(self.found.inside)
        order = (rows, columns, window.channels[0][0])
        self.band = Band(window.source, window.image, order, (down, across), zero)
        self.depth, self.channels = window.depth, self.found.channel.extent
        self.block = gcd(self.channels, MOST_CHANNELS)
        weights = window.ordered(self.found.weights.astype(np.int64))
        start = self.found.bias - zero * weights.sum((1, 2, 3))
        self.output = IntegerOutput(self.found, start)
        self.rounding = RequantizedRow(self.output, wide=False)
        arrays = self.output.arrays
        arrays["start"] = arrays["start"] * np.int32(4)
        points = self._points(self.rounding.weights(weights))
        # Whether the sums become bytes in one go, and how those below zero round.
        self.below = narrowed(self.rounding, points, _PAIR, ahead=True)
        if self.below is None:
            arrays["nothing"] = np.zeros(self.block, np.int32)
            arrays["weights"] = self._blocks(points)

    def _points(self, weights: np.ndarray) -> np.ndarray:
        """Words ``[pair of channels][point][four][channel][even, odd]``."""
        made = np.einsum("pi,cijk,qj->pqck", _TRANSFORM, weights, _TRANSFORM)
        cut = made.reshape(_POINTS, -1, _PAIR, self.depth // 4, 4)
        pairs = np.stack([cut[..., [0, 2]], cut[..., [1, 3]]], axis=-2)
        return np.ascontiguousarray(word(pairs, 16).transpose(1, 0, 3, 2, 4))

    def _blocks(self, points: np.ndarray) -> np.ndarray:
        """``[block][point][pair of channels][four][channel][even, odd]``."""
        cut = points.reshape(-1, self.block // _PAIR, *points.shape[1:])
        return np.ascontiguousarray(cut.transpose(0, 2, 1, 3, 4, 5))

    def kernel(self) -> Kernel:
        """Two rows of outputs at a time."""
        down, across = self.down, self.across
        shape = (_SIDE + 2, across.out.extent + 2, self.depth)
        first = times(Var("chunk"), _SIDE)
        band = Buffer(BAND, _I8, shape, Access.LOCAL)
        filled = for_range("row", shape[0], self.band.filled(first, shape))
        tiles = for_range("tile", across.out.extent // (_SIDE * _TILES), self.tiles())
        strip = for_range("chunk", down.out.extent // _SIDE, with_locals((band,), (filled, tiles)))
        image = self.band.image
        inputs = (image if each.name == image.name else each for each in self.output.inputs)
        params = (*inputs, *self.output.buffers(), self.found.task.output)
        loops = nested(self.window.outer, (strip,))
        return simplify_kernel(Kernel(self.found.task.name, params, loops))

    def tiles(self) -> tuple[Stmt, ...]:
        """Neighbouring tiles of outputs."""
        zero, fours = integer(0), self.depth // 4
        made = Buffer("tiles", _I32, (_POINTS, fours, _TILES, 2), Access.LOCAL)
        column = times(Var("tile"), _SIDE * _TILES)
        transform = Instruct(
            member("winograd_in", fours, (self.across.out.extent + 2) * self.depth, self.depth),
            (Load(made.name, (zero,) * 4, _I32), Load(BAND, (zero, column, zero), _I8)),
        )
        if self.below is not None:
            return with_locals((made,), (transform, *self.bytes()))
        blocks = for_range("wide", self.channels // self.block, self.outputs(made))
        return with_locals((made,), (transform, blocks))

    def bytes(self) -> tuple[Stmt, ...]:
        """All channels of two tiles, requantized."""
        task, zero = self.found.task, integer(0)
        row, column = times(Var("chunk"), _SIDE), times(Var("tile"), _SIDE * _TILES)
        down, across = self.down.out, self.across.out
        ordered = task.compute.axes[-3:] == (down, across, self.found.channel)
        whole = self.rounding.whole and ordered and task.output.steps[-1] == 1
        places = {down: row, across: column, self.found.channel: zero}
        index = tuple(places.get(axis, Var(axis.var)) for axis in task.compute.axes)
        out, steps = Load(task.output.name, index, _I8), task.output.steps[-3:-1]
        shape = (_SIDE, _SIDE * _TILES, self.channels)
        rows = Buffer(ROW, _I8, shape, Access.LOCAL)
        if not whole:
            out, steps = Load(ROW, (zero,) * 3, _I8), rows.steps[:2]
        pairs, words = self.output.arrays[STREAM].shape
        sizes = (self.depth // 4, pairs, words, steps[1], steps[0], self.below or 0)
        made = Instruct(
            member("winograd_2x4", *sizes),
            (out, Load("tiles", (zero,) * 4, _I32), Load(STREAM, (zero, zero), _I32)),
        )
        if whole:
            return (made,)
        ends = {down.var: plus(row, Var("slice")), across.var: plus(column, Var("column"))}
        stored = self.rounding.finished((Var("slice"), Var("column")))
        stored = map_stmts(substitute_stmts(stored, ends), self.band.moved)
        loops = nested([Axis("slice", _SIDE), Axis("column", _SIDE * _TILES)], stored)
        return with_locals((rows,), (made, *loops))

    def outputs(self, made: Buffer) -> tuple[Stmt, ...]:
        """A block of channels: 16 products, and the outputs of the tiles."""
        zero = integer(0)
        sums = Buffer("sums", _I32, (_POINTS, _TILES, self.block), Access.LOCAL)
        acc = Buffer(ACCUMULATOR, _I32, (_SIDE, _SIDE, self.block), Access.LOCAL)
        first = times(Var("wide"), self.block)

        def product(start: Load) -> Stmt:
            return Instruct(
                member("dual_2x2", self.depth // 4, self.block // 2),
                (
                    Load(sums.name, (Var("point"), zero, zero), _I32),
                    Load(made.name, (Var("point"), zero, zero, zero), _I32),
                    Load("weights", (Var("wide"), Var("point"), *[zero] * 4), _I32),
                    start,
                ),
            )

        # The middle point adds to all four outputs alike: it brings the bias.
        middle = Binary("eq", Var("point"), integer(_MIDDLE))
        begun = product(Load("start", (first,), _I32))
        products = If(middle, (begun,), (product(Load("nothing", (zero,), _I32)),))
        back = Instruct(
            member("winograd_out", self.block),
            (Load(acc.name, (zero,) * 3, _I32), Load(sums.name, (zero, Var("spot"), zero), _I32)),
        )
        places = [Axis("slice", _SIDE), Axis("column", _SIDE)]
        stored = nested(places, self.stored(first))
        tile = with_locals((acc,), (back, *stored))
        loops = (*nested([Axis("point", _POINTS)], (products,)), *nested([Axis("spot", 2)], tile))
        return with_locals((sums,), loops)

    def stored(self, first: Expr) -> tuple[Stmt, ...]:
        """A block of channels of one output."""
        row = plus(times(Var("chunk"), _SIDE), Var("slice"))
        column = plus(times(Var("tile"), _SIDE * _TILES), times(Var("spot"), _SIDE))
        ends = {self.down.out.var: row, self.across.out.var: plus(column, Var("column"))}
        made = self.rounding.stored((Var("slice"), Var("column")), first, self.block)
        return map_stmts(substitute_stmts(made, ends), self.band.moved)


def write(window: ByteWindow) -> Implementation:
    """The kernel."""
    made = _Writer(window)
    return Implementation(made.kernel(), made.output.operands(lambda _, array: array), _NAME)


def cost(window: ByteWindow) -> float:
    """About how many cycles it takes."""
    found = window.found
    outputs = prod(axis.extent for axis in found.positions)
    channels, depth = found.channel.extent, window.depth
    products = _POINTS * channels / 2 * (depth / 4 * _STEP + _AHEAD) / _TILES
    each = depth * _INPUT + products + _SIDE * _SIDE * channels * (_OUTPUT + _STORE)
    # As other generators count: two instructions a cycle.
    return outputs / (_SIDE * _SIDE) * each / 2


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternative of this generator."""
    if families()["dual_2x2"][0] not in task.target.features:
        return Refusal("the target has no instructions that multiply pairs of 16 bits")
    window = byte_window(task)
    if isinstance(window, Refusal):
        return window
    refused = _refused(task, window)
    if refused:
        return Refusal(refused)
    make = partial(write, window)
    return (Alternative(_NAME, cost(window), Sums("tensorized"), make, always),)


GENERATOR = Generator(
    "byte-winograd",
    "Convolutions of bytes by Winograd's transform, exact in integers: 16 products of 16 bits "
    "(SMLAD) instead of 36 for 2x2 outputs.",
    (
        "one sum of products, in i32, of signed bytes and constant weights less their zero points",
        "windows of 3x3 neighbours without a stride, outputs in whole tiles of 2x4",
        "kernels are chosen for speed, as weights take 3.6 times as much memory",
        "the target multiplies pairs of 16 bits and adds (Arm DSP extension)",
    ),
    propose,
    any_threads=True,
)
