"""Depthwise convolutions of bytes for Helium, four outputs of a channel at a time.

Channels that lie side by side are made planes with their borders, a block of them at a time; one
load then gathers the window of 4x4 bytes that four outputs share::

    for block of channels, strip of rows:
      local planes[channel][row][column]     (the zero point, then what lies in the image)
      depth(out, planes, weights)             (all outputs, requantized)

What the zero point adds to a sum is part of where it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.bytes.band import Band
from weft.kernels.bytes.dual.depthwise import MOST_BYTES, Depth, depthwise_of, ordered_taps
from weft.kernels.bytes.dual.products import zero_of
from weft.kernels.bytes.helium.shape import HeliumOutput
from weft.kernels.contraction import SlidingWindow
from weft.kernels.generator import Generator
from weft.kernels.integer.output import IntegerOutput
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.writer import for_range, integer, nested, plus, times, with_locals
from weft.loops.instruction import families, member
from weft.loops.nodes import Access, Buffer, Expr, Instruct, Kernel, Load, Stmt, Var
from weft.loops.simplify import simplify_kernel
from weft.plan.implementation import Implementation
from weft.records import dataclass

_I8 = DType.I8
_PLANES, _WEIGHTS = "planes", "weights"
_SIDE, _MOST_TAPS, _EIGHT, _OFFSETS = 4, 3, 8, 256
_TILE, _ROW, _CHANNEL, _COPY = 18, 9, 35, 0.33
"""Instructions of four outputs, of a row of them, of a channel, and to copy a byte."""
_NAME = "helium-depth"


@dataclass(frozen=True)
class Piece:
    """A part of a side of the outputs, and what it reads.

    Attributes:
        first, count: outputs.
        start: the first place of the image that it reads; size: places.
        before: places of the border before them.
    """

    first: int
    count: int
    start: int
    size: int
    before: int


def most_of(window: SlidingWindow, places: int) -> int:
    """Outputs of a piece that reads so many places."""
    return (places - window.taps) // window.stride + 1


def pieces(window: SlidingWindow, most: int) -> list[Piece]:
    """A side cut into pieces of up to so many outputs; none has only one."""
    extent = window.out.extent
    count = extent
    if extent > most:
        parts = -(-extent // (most - 1))
        count = -(-extent // parts)
        count += count % 2 and count + 1 < most
    firsts = range(0, max(1, extent - 1), count)
    return [
        _piece(window, first, min(count, extent - first) if first + count + 1 != extent else 0)
        for first in firsts
    ]


def _piece(window: SlidingWindow, first: int, count: int) -> Piece:
    count = count or window.out.extent - first
    reads = first * window.stride - window.before
    start = max(0, reads)
    end = min(window.size, reads + window.reach(count))
    return Piece(first, count, start, end - start, start - reads)


@dataclass(frozen=True)
class Cut:
    """How a depthwise convolution is cut.

    Attributes:
        depth: the convolution.
        rows, columns: its pieces.
        block: channels of a block; height, width: of a plane.
    """

    depth: Depth
    rows: list[Piece]
    columns: list[Piece]
    block: int
    height: int
    width: int

    @property
    def alone(self) -> bool:
        """Whether borders stay what they are from block to block."""
        return len(self.rows) == len(self.columns) == 1


def cut_of(depth: Depth) -> Cut | Refusal:
    """How planes fit the offsets of a gather, and the memory of a strip."""
    down, across = depth.down, depth.across
    if max(down.taps, across.taps) > _MOST_TAPS:
        return Refusal(f"its window is not of up to {_MOST_TAPS} rows and columns")
    # The last of four windows begins a step further on, and ends its taps later.
    reach = (_OFFSETS - across.stride - across.taps) // (down.stride + down.taps - 1)
    columns = pieces(across, most_of(across, reach))
    width = across.reach(max(each.count for each in columns))
    block = min(_EIGHT, depth.channels)
    places = MOST_BYTES // (width * block)
    rows = pieces(down, max(_SIDE, most_of(down, places)))
    height = down.reach(max(each.count for each in rows))
    if len(rows) == 1:
        fit = MOST_BYTES // (height * width) // _EIGHT * _EIGHT
        block = min(depth.channels, max(fit, block))
    return Cut(depth, rows, columns, block, height, width)


class _Writer:
    def __init__(self, cut: Cut) -> None:
        self.cut, self.depth = cut, cut.depth
        self.found = cut.depth.found
        self.zero = zero_of(self.found.inside)
        taps = self.found.weights.astype(np.int64)
        self.output = IntegerOutput(self.found, self.found.bias - self.zero * taps.sum(1))
        self.end = HeliumOutput(self.output, 1)
        arrays = self.output.arrays
        for name in self.end.operands:
            if name == "factors":
                arrays["numbers"] = arrays.pop(name)[:, :, 0].copy()
            elif arrays[name].ndim > 1:
                arrays[name] = arrays[name][:, 0].copy()
        windows = self.depth.down, self.depth.across
        ordered = ordered_taps(self.depth).reshape(-1, *(each.taps for each in windows))
        pads = [(0, 0), *((0, _SIDE - each.taps) for each in windows)]
        arrays[_WEIGHTS] = np.pad(ordered, pads).astype(np.int8)
        self.band = Band(self.depth.source, self.depth.image, self.depth.order, windows, self.zero)
        self.planes = Buffer(_PLANES, _I8, (cut.block, cut.height, cut.width), Access.LOCAL)
        self.out = self._out_buffer()

    @property
    def outer(self) -> list[Expr]:
        """Other axes of the output."""
        sides = {self.depth.down.out, self.depth.across.out}
        return [Var(each.var) for each in self.found.positions if each not in sides]

    def _out_buffer(self) -> Buffer:
        """The output: other axes, rows, columns, channels."""
        task = self.found.task
        names = [each.name for each in self.outer if isinstance(each, Var)]
        wanted = [*names, *(each.out.var for each in (self.depth.down, self.depth.across))]
        axes = {each.var: each for each in task.compute.axes}
        order = [axes[name] for name in (*wanted, self.found.channel.var)]
        steps = tuple(task.output.steps[task.compute.axes.index(each)] for each in order)
        sizes = tuple(each.extent for each in order)
        return Buffer(task.output.name, _I8, sizes, Access.WRITE, steps)

    def kernel(self) -> Kernel:
        """Block by block."""
        task, cut = self.found.task, self.cut
        whole, rest = divmod(self.depth.channels, cut.block)
        body: list[Stmt] = []
        if cut.alone:
            body.append(self.cleared())
        first = times(Var("block"), cut.block)
        body.append(for_range("block", whole, tuple(self.channels(first, cut.block))))
        if rest:
            body += self.channels(integer(whole * cut.block), rest)
        sides = {self.depth.down.out, self.depth.across.out}
        outer = [axis for axis in self.found.positions if axis not in sides]
        loops = nested(outer, with_locals((self.planes,), tuple(body)))
        inputs = (
            self.band.image if each.name == self.band.image.name else each
            for each in self.output.inputs
        )
        params = (*inputs, *self.output.buffers(), self.out)
        return simplify_kernel(Kernel(task.name, params, loops))

    def cleared(self) -> Stmt:
        """Fills the planes with the zero point."""
        name = member("mve_clear", *self.planes.shape, self.zero & 255)
        return Instruct(name, (Load(_PLANES, (integer(0),) * 3, _I8),))

    def channels(self, first: Expr, count: int) -> Iterator[Stmt]:
        """All outputs of a block of channels."""
        for column in self.cut.columns:
            rows = self.cut.rows
            # Strips between the first and the last are all alike.
            middle = rows[1:-1]
            if not self.cut.alone:
                yield self.cleared()
            yield from self.strip(rows[0], column, first, count, integer(0))
            if middle:
                further = times(Var("chunk"), middle[0].count)
                strip = tuple(self.strip(middle[0], column, first, count, further))
                yield for_range("chunk", len(middle), strip)
            if len(rows) > 1:
                yield self.cleared()
                yield from self.strip(rows[-1], column, first, count, integer(0))

    def strip(
        self, row: Piece, column: Piece, first: Expr, count: int, further: Expr
    ) -> Iterator[Stmt]:
        """The outputs of a strip, so many rows of outputs further."""
        cut, depth = self.cut, self.depth
        zero, planes, image = integer(0), self.planes.steps, self.band.image.steps
        to = Load(_PLANES, (zero, integer(row.before), integer(column.before)), _I8)
        start = plus(times(further, depth.down.stride), row.start)
        read = self.band.at(start, integer(column.start))
        read = replace(read, index=(*read.index[:-1], first))
        sizes = (count, row.size, column.size, *planes[:2], *image[-3:-1], count % _EIGHT)
        yield Instruct(member("mve_planes", *sizes), (to, read))
        place = (*self.outer, plus(further, row.first), integer(column.first), first)
        sizes = (
            *(count, row.count, column.count, *self.out.steps[-3:-1], cut.height, cut.width),
            *(depth.down.taps, depth.across.taps, depth.down.stride, depth.across.stride),
        )
        name = self.end.family.replace("mve_", "mve_depth_")
        constants = [self.constant(each, first) for each in (_WEIGHTS, *self.operands)]
        operands = (Load(self.out.name, place, _I8), Load(_PLANES, (zero,) * 3, _I8), *constants)
        yield Instruct(member(name, *sizes, *self.end.sizes), operands)

    @property
    def operands(self) -> list[str]:
        """Constants of the instruction."""
        return ["numbers" if name == "factors" else name for name in self.end.operands]

    def constant(self, name: str, first: Expr) -> Load:
        """A constant of the first channel of a block."""
        array = self.output.arrays[name]
        place = integer(0) if name == "zero" else first
        index = (place, *[integer(0)] * (array.ndim - 1))
        return Load(name, index, DType.of(array.dtype))


def write(cut: Cut) -> Implementation:
    """The kernel."""
    made = _Writer(cut)
    return Implementation(made.kernel(), made.output.operands(lambda _, array: array), _NAME)


def cost(cut: Cut) -> float:
    """About how many cycles it takes."""
    depth = cut.depth
    outer = prod(axis.extent for axis in depth.found.positions)
    outer //= depth.down.out.extent * depth.across.out.extent
    total = 0.0
    for row in cut.rows:
        for column in cut.columns:
            pairs = -(-row.count // 2)
            tiles = pairs * -(-column.count // 2)
            total += tiles * _TILE + pairs * _ROW + _CHANNEL + row.size * column.size * _COPY
    # As other generators count: two instructions a cycle.
    return outer * depth.channels * total / 2


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternative of this generator."""
    if families()["mve_planes"][0] not in task.target.features:
        return Refusal("the target has no Helium")
    depth = depthwise_of(task)
    if isinstance(depth, Refusal):
        return depth
    low, high = DType.I8.limits
    if depth.found.weights.min() < low or depth.found.weights.max() > high:
        return Refusal("its weights are not signed bytes")
    end = HeliumOutput(IntegerOutput(depth.found, depth.found.bias), 1)
    if not end.whole:
        return Refusal("what becomes of its sums is no requantization")
    cut = cut_of(depth)
    if isinstance(cut, Refusal):
        return cut
    return (Alternative(_NAME, cost(cut), Sums("tensorized"), partial(write, cut), always),)


GENERATOR = Generator(
    "byte-depth-helium",
    "Depthwise convolutions of bytes for Helium, the vector extension of Cortex-M55: a block of "
    "channels is made planes, whose windows one load gathers for four outputs.",
    (
        "one sum of products, in i32, of signed bytes and constant weights less their zero points",
        "every channel of the output reads one of the input, by a window of up to 3x3",
        "channels side by side",
        "sums are requantized, and nothing follows",
        "the target has Helium",
    ),
    propose,
    any_threads=True,
)
