"""Depthwise convolutions of bytes, four channels at a time, in loops that all layers share.

Channels lie side by side, so one word of the input holds four of them; one instruction makes the
sums of all channels of an output::

    for strip of rows:
      local band[row][column][channel]            (with borders: the zero point; if there are any)
      for row, column:
        local acc[channel]
        depth(acc, band, weights, start)
        out = requantized(acc)

What the zero point adds to a sum is taken from ``start``.
"""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from weft.cached import cached_property
from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.bytes.band import BAND, Band
from weft.kernels.bytes.dual.products import word, zero_of
from weft.kernels.bytes.scaling import RequantizedRow
from weft.kernels.contraction import SlidingWindow, contraction_of
from weft.kernels.generator import Generator
from weft.kernels.integer.depthwise import windows_of
from weft.kernels.integer.output import ACCUMULATOR, IntegerOutput
from weft.kernels.integer.sums import IntegerContraction, integer_contraction
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.writer import for_range, integer, nested, plus, times, with_locals
from weft.loops.instruction import families, member
from weft.loops.nodes import (
    Access,
    Axis,
    Buffer,
    Expr,
    Instruct,
    Kernel,
    Load,
    Stmt,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import map_stmts, substitute_stmts
from weft.loops.walk import loads
from weft.plan.implementation import Implementation
from weft.records import dataclass

_I32, _I8 = DType.I32, DType.I8
MOST_BYTES = 4096
"""Of the copy of a strip, where one row of outputs does not need more."""
_COLUMNS, _MOST_ROWS, _FOUR = 3, 5, 4
_TAP, _AHEAD, _OUTPUT, _COPY = 8, 8, 9, 0.75
"""Instructions: of four channels for a tap and besides, to requantize one, to copy a byte."""
_NAME = "depth"


@dataclass(frozen=True)
class Depth:
    """A depthwise convolution of an image whose channels lie side by side.

    Attributes:
        found: the contraction.
        image: the load of the input; source: what it loads from.
        order: the input's dimensions of rows, columns and channels.
        down, across: windows along rows and columns.
    """

    found: IntegerContraction
    image: Load
    source: Buffer
    order: tuple[int, int, int]
    down: SlidingWindow
    across: SlidingWindow

    @property
    def channels(self) -> int:
        """How many there are."""
        return self.found.channel.extent

    @property
    def bordered(self) -> bool:
        """Whether windows leave the image."""
        return any(each.before > 0 or each.behind > 0 for each in (self.down, self.across))

    @property
    def columns(self) -> int:
        """Places of a row that outputs read."""
        return self.across.reach(self.across.out.extent)

    @cached_property
    def rows(self) -> int:
        """Rows of outputs of a strip."""
        height = self.down.out.extent
        fit = MOST_BYTES // (self.columns * self.channels)
        most = (fit - self.down.taps) // self.down.stride + 1
        return min(height, max(1, most)) if self.bordered else height


def depthwise_of(task: Task) -> Depth | Refusal:
    """The depthwise convolution that a task is."""
    found = integer_contraction(task)
    if isinstance(found, Refusal):
        return found
    if not found.depthwise:
        return Refusal("an output channel reads several of the input")
    windows = windows_of(found)
    if isinstance(windows, Refusal):
        return windows
    if len(windows) != 2:
        return Refusal("it has not two dimensions of taps")
    down, across = windows.values()
    if max(down.dilation, across.dilation) > 1:
        return Refusal("its window has gaps")
    return _laid_out(task, found, down, across)


def depth_of(task: Task) -> Depth | Refusal:
    """The depthwise convolution that a task is, or why the loops do not apply."""
    found = depthwise_of(task)
    if isinstance(found, Refusal):
        return found
    if found.channels % _FOUR:
        return Refusal("its channels are not of fours")
    if found.across.taps != _COLUMNS or found.down.taps > _MOST_ROWS:
        return Refusal(f"its window is not up to {_MOST_ROWS} rows of {_COLUMNS} neighbours")
    return found


def _laid_out(
    task: Task, found: IntegerContraction, down: SlidingWindow, across: SlidingWindow
) -> Depth | Refusal:
    parts = contraction_of(task)
    assert not isinstance(parts, Refusal)
    (image,) = {each for each in loads(found.activation) if each.buffer not in task.constants}
    source = next(each for each in task.inputs if each.name == image.buffer)
    moved = parts.windows_of(image)
    places = {each.out.var: at for at, each in enumerate(moved) if each}
    wanted = (down.out.var, across.out.var, found.channel.var)
    order = tuple(places[each] for each in wanted if each in places)
    if len(order) != len(wanted) or source.dtype is not _I8:
        return Refusal("its input is not an image of signed bytes")
    steps = [source.steps[each] for each in order]
    last = task.output.steps[task.compute.axes.index(found.channel)]
    if steps[1:] != [found.channel.extent, 1] or last != 1:
        return Refusal("its channels do not lie side by side")
    return Depth(found, image, source, (order[0], order[1], order[2]), down, across)


def ordered_taps(depth: Depth) -> np.ndarray:
    """Weights by channel and tap, rows first."""
    axes = depth.found.reduce.axes
    cut = depth.found.weights.astype(np.int64).reshape(-1, *(axis.extent for axis in axes))
    wanted = [each.tap for each in (depth.down, depth.across)]
    order = [1 + axes.index(each) for each in wanted if each]
    rest = [at for at in range(1, cut.ndim) if at not in order]
    return cut.transpose(0, *order, *rest).reshape(len(cut), -1)


class _Writer:
    def __init__(self, depth: Depth) -> None:
        self.depth, self.found = depth, depth.found
        self.zero = zero_of(self.found.inside)
        taps = self.found.weights.astype(np.int64)
        self.output = IntegerOutput(self.found, self.found.bias - self.zero * taps.sum(1))
        self.rounding = RequantizedRow(self.output, wide=True)
        ordered = self.rounding.weights(ordered_taps(depth))
        fours = ordered.reshape(-1, _FOUR, ordered.shape[1]).transpose(0, 2, 1)
        pairs = np.stack([fours[..., [0, 2]], fours[..., [1, 3]]], axis=2)
        self.output.arrays["weights"] = word(pairs, 16)
        windows = depth.down, depth.across
        self.band = Band(depth.source, depth.image, depth.order, windows, self.zero)

    def kernel(self) -> Kernel:
        """Strip by strip."""
        depth, task = self.depth, self.found.task
        outs = (depth.down.out, depth.across.out)
        outer = [axis for axis in self.found.positions if axis not in outs]
        whole, rest = divmod(depth.down.out.extent, depth.rows)
        first = times(Var("chunk"), depth.rows)
        body: list[Stmt] = [for_range("chunk", whole, self.strip(first, depth.rows))]
        if rest:
            body += self.strip(integer(whole * depth.rows), rest)
        inputs = (
            self.band.image if each.name == self.band.image.name else each
            for each in self.output.inputs
        )
        params = (*inputs, *self.output.buffers(), task.output)
        return simplify_kernel(Kernel(task.name, params, nested(outer, tuple(body))))

    def strip(self, first: Expr, rows: int) -> tuple[Stmt, ...]:
        """So many rows of outputs from one on."""
        depth = self.depth
        down, across = depth.down, depth.across
        spots = [Axis("spot", rows), Axis("column", across.out.extent)]
        row = times(Var("spot"), down.stride)
        column = times(Var("column"), across.stride)
        if not depth.bordered:
            moved = plus(plus(times(first, down.stride), row), -down.before)
            read = self.band.at(moved, plus(column, -across.before))
            return nested(spots, self.outputs(first, read))
        shape = (down.reach(rows), depth.columns, depth.channels)
        band = Buffer(BAND, _I8, shape, Access.LOCAL)
        read = Load(BAND, (row, column, integer(0)), _I8)
        filled = for_range("row", shape[0], self.band.filled(first, shape))
        return with_locals((band,), (filled, *nested(spots, self.outputs(first, read))))

    def outputs(self, first: Expr, read: Load) -> tuple[Stmt, ...]:
        """All channels of the output of a place."""
        depth = self.depth
        channels = depth.channels
        steps = (depth.columns * channels, channels)
        if read.buffer != BAND:
            steps = self.band.image.steps[-3], self.band.image.steps[-2]
        sums = Instruct(
            member("depth", depth.down.taps, channels // _FOUR, *steps),
            (
                Load(ACCUMULATOR, (integer(0),), _I32),
                read,
                Load("weights", (integer(0),) * 3, _I32),
                Load("start", (integer(0),), _I32),
            ),
        )
        ends = {depth.down.out.var: plus(first, Var("spot")), depth.across.out.var: Var("column")}
        stored = map_stmts(substitute_stmts(self.rounding.stored(()), ends), self.band.moved)
        acc = Buffer(ACCUMULATOR, _I32, (channels,), Access.LOCAL)
        return with_locals((acc,), (sums, *stored))


def write(depth: Depth) -> Implementation:
    """The kernel."""
    made = _Writer(depth)
    return Implementation(made.kernel(), made.output.operands(lambda _, array: array), _NAME)


def cost(depth: Depth) -> float:
    """About how many cycles it takes."""
    outputs = prod(axis.extent for axis in depth.found.positions) * depth.channels
    each = (_TAP * depth.down.taps * _COLUMNS + _AHEAD) / _FOUR + _OUTPUT
    reached = depth.down.reach(depth.rows) / depth.rows * depth.across.stride
    # As other generators count: two instructions a cycle.
    return outputs * (each + (_COPY * reached if depth.bordered else 0)) / 2


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternative of this generator."""
    if families()["depth"][0] not in task.target.features:
        return Refusal("the target has no instructions that multiply halves of words")
    depth = depth_of(task)
    if isinstance(depth, Refusal):
        return depth
    make = partial(write, depth)
    return (Alternative(_NAME, cost(depth), Sums("tensorized"), make, always),)


GENERATOR = Generator(
    "byte-depth",
    "Depthwise convolutions of bytes whose channels lie side by side: four channels at a time, in "
    "loops that all layers share (SMLABB, SMLATT).",
    (
        "one sum of products, in i32, of signed bytes and constant weights less their zero points",
        "every channel of the output reads one of the input, by a window of 3 columns",
        "channels side by side, in fours",
        "the target multiplies halves of words and adds (Arm DSP extension)",
    ),
    propose,
    any_threads=True,
)
