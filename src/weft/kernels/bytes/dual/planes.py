"""Depthwise convolutions of bytes by planes of pairs of rows, in loops that all layers share.

Four channels at a time are widened once into planes whose words hold two rows of one channel;
then each product of pairs (SMLAD) adds two taps, and outputs are requantized in registers::

    for strip of rows:
      local planes[4][pair of rows][column]      (borders: the zero point)
      for four channels:
        planes(planes, image)
        depth(out, planes, stream)               (all outputs of the strip)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.bytes.band import Band
from weft.kernels.bytes.dual.depthwise import MOST_BYTES, Depth, depth_of, ordered_taps
from weft.kernels.bytes.dual.narrow import NARROW, STREAM
from weft.kernels.bytes.dual.products import word, zero_of
from weft.kernels.bytes.scaling import RequantizedRow
from weft.kernels.generator import Generator
from weft.kernels.integer.output import IntegerOutput
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.writer import for_range, integer, nested, plus, times, with_locals
from weft.loops.instruction import families, member
from weft.loops.nodes import (
    Access,
    Axis,
    Buffer,
    Const,
    Expr,
    Instruct,
    Kernel,
    Load,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.plan.implementation import Implementation
from weft.records import dataclass

_I8, _I32 = DType.I8, DType.I32
_FOUR, _TAPS, _WORDS = 4, 3, 7
_NAME, _PLANES = "depth-planes", "planes"
_TILES = {1: (2, 2, 55, 35), 2: (1, 4, 61, 28)}
"""By stride: rows and columns of a tile, its instructions, and those of one column."""
_PAIR, _PLANE, _SPREAD, _SPREAD_PAIR = 20, 45, 15, 30
"""Instructions of a pair of rows and a plane besides, to widen two numbers of each of four
channels, and for a pair of rows besides."""


@dataclass(frozen=True)
class Strip:
    """Neighbouring rows of outputs, computed from the same planes.

    Attributes:
        rows: how many; pairs: of rows of the image and its borders that they read.
        above: rows of these above the image; inside: on it.
    """

    rows: int
    pairs: int
    above: int
    inside: int


@dataclass(frozen=True)
class Planes:
    """A depthwise convolution by planes.

    Attributes:
        depth: the convolution.
        output: what follows its sums; rounding: as requantization of rows.
    """

    depth: Depth
    output: IntegerOutput
    rounding: RequantizedRow

    @property
    def stride(self) -> int:
        """Of outputs."""
        return self.depth.down.stride

    @property
    def columns(self) -> tuple[int, int, int]:
        """Columns of a plane: borders before the image, its own, and borders behind."""
        across, size = self.depth.across, self.depth.columns
        left = max(0, across.before)
        inside = min(across.size + min(0, across.before), size - left)
        return left, inside, size - left - inside

    def pairs(self, rows: int) -> int:
        """Pairs of rows that so many rows of outputs read."""
        return 1 + -(-rows // _TILES[self.stride][0])

    def strips(self) -> Iterator[tuple[int, Strip]]:
        """All strips, with their first rows."""
        down = self.depth.down
        height, at_once = down.out.extent, _TILES[self.stride][0]
        rows = height
        while rows > at_once and self._bytes(rows) > MOST_BYTES:
            rows = -(-rows // at_once) * at_once - at_once
        for first in range(0, height, rows):
            count = min(rows, height - first)
            pairs, top = self.pairs(count), first * self.stride - down.before
            above = max(0, -top)
            inside = min(down.size - top, 2 * pairs) - above
            yield first, Strip(count, pairs, above, inside)

    def _bytes(self, rows: int) -> int:
        return _FOUR * _FOUR * self.pairs(rows) * self.depth.columns


def planes_of(task: Task) -> Planes | Refusal:
    """The depthwise convolution that a task is, or why planes do not apply."""
    depth = depth_of(task)
    if isinstance(depth, Refusal):
        return depth
    sides = depth.down, depth.across
    strides = {side.stride for side in sides}
    if any(side.taps != _TAPS for side in sides) or len(strides) > 1 or not strides <= {1, 2}:
        return Refusal("it has no windows of 3x3 neighbours with strides of 1 or 2")
    axes = (depth.down.out, depth.across.out, depth.found.channel)
    if task.compute.axes[-3:] != axes:
        return Refusal("rows, columns and channels are not in this order")
    taps = depth.found.weights.astype(np.int64)
    low, high = _I8.limits
    if taps.min() < low or taps.max() > high:
        return Refusal("its weights are not of 8 bits")
    output = IntegerOutput(
        depth.found, depth.found.bias - zero_of(depth.found.inside) * taps.sum(1)
    )
    rounding = RequantizedRow(output, wide=True)
    if rounding.made is None or rounding.made.family != NARROW or not rounding.whole:
        return Refusal("its sums are not only requantized in fixed point")
    return Planes(depth, output, rounding)


class _Writer:
    def __init__(self, planes: Planes) -> None:
        self.planes, self.depth = planes, planes.depth
        self.zero = zero_of(self.depth.found.inside)
        depth, made = self.depth, planes.rounding
        assert made.made is not None
        self.below = made.made.sizes[1]
        # The instruction doubles weights, which are of 8 bits.
        taps = made.weights(ordered_taps(depth)).reshape(-1, _TAPS, _TAPS) // made.factor
        bytes = word(taps[:, [0, 1, 1, 2]].transpose(0, 2, 1), 8)
        arrays = planes.output.arrays
        parts = arrays.pop("start")[:, None], bytes, arrays.pop("factors")
        arrays[STREAM] = np.concatenate(parts, axis=1).reshape(-1, _FOUR, _WORDS)
        windows = depth.down, depth.across
        self.band = Band(depth.source, depth.image, depth.order, windows, self.zero)

    def kernel(self) -> Kernel:
        """Strip by strip."""
        depth, task = self.depth, self.depth.found.task
        outs = (depth.down.out, depth.across.out)
        outer = [axis for axis in depth.found.positions if axis not in outs]
        body: list[Stmt] = []
        for strip, found in groupby(self.planes.strips(), lambda each: each[1]):
            firsts = [first for first, _ in found]
            # Rows of the same strip follow one another.
            first = plus(times(Var("chunk"), strip.rows), firsts[0])
            body.append(for_range("chunk", len(firsts), self.strip(first, strip)))
        image = self.band.image
        inputs = (image if each.name == image.name else each for each in self.planes.output.inputs)
        params = (*inputs, *self.planes.output.buffers(), task.output)
        return simplify_kernel(Kernel(task.name, params, nested(outer, tuple(body))))

    def strip(self, first: Expr, strip: Strip) -> tuple[Stmt, ...]:
        """The rows of a strip from one on."""
        depth, group = self.depth, times(Var("group"), _FOUR)
        left, inside, right = self.planes.columns
        planes = Buffer(_PLANES, _I32, (_FOUR, strip.pairs, depth.columns), Access.LOCAL)
        row = plus(times(first, depth.down.stride), strip.above - depth.down.before)
        corner = self.band.at(row, integer(max(0, -depth.across.before)))
        task = depth.found.task
        places = {depth.down.out: first, depth.across.out: integer(0), depth.found.channel: group}
        index = tuple(places.get(axis, Var(axis.var)) for axis in task.compute.axes)
        sizes = (
            strip.pairs,
            inside,
            *planes.steps[:2],
            strip.inside,
            *self.band.image.steps[-3:-1],
        )
        zero = integer(0)
        filled = Instruct(
            member(_PLANES, *sizes, strip.above, self.zero + 128),
            (
                Load(_PLANES, (zero, zero, integer(left)), _I32),
                Load(corner.buffer, (*corner.index[:-1], group), _I8),
            ),
        )
        made = Instruct(
            self.instruction(strip),
            (
                Load(task.output.name, index, _I8),
                Load(_PLANES, (zero,) * 3, _I32),
                Load(STREAM, (Var("group"), zero, zero), _I32),
            ),
        )
        groups = for_range("group", depth.channels // _FOUR, (filled, made))
        borders = (*self.zeros(strip, 0, left), *self.zeros(strip, left + inside, right))
        return with_locals((planes,), (*borders, groups))

    def instruction(self, strip: Strip) -> str:
        """What makes the outputs of a strip."""
        depth = self.depth
        steps = depth.found.task.output.steps
        sizes = [depth.across.out.extent, strip.rows]
        if self.planes.stride == 1:
            sizes.append(strip.pairs - 1)
        sizes += [strip.pairs, depth.columns, steps[-2], steps[-3]]
        return member(f"depth_s{self.planes.stride}", *sizes, self.below)

    def zeros(self, strip: Strip, first: int, count: int) -> tuple[Stmt, ...]:
        """So many columns of the zero point."""
        axes = [Axis("wide", _FOUR), Axis("row", strip.pairs), Axis("point", count)]
        index = (Var("wide"), Var("row"), plus(Var("point"), first))
        both = Const((self.zero & 65535) | (self.zero << 16), _I32)
        return nested(axes, (Store(_PLANES, index, both),)) if count else ()


def write(planes: Planes) -> Implementation:
    """The kernel."""
    made = _Writer(planes)
    kernel = made.kernel()
    return Implementation(kernel, planes.output.operands(lambda _, array: array), _NAME)


def cost(planes: Planes) -> float:
    """About how many cycles it takes."""
    depth = planes.depth
    _, width, tile, single = _TILES[planes.stride]
    whole, rest = divmod(depth.across.out.extent, width)
    row = _PAIR + whole * tile + rest * single
    total = 0.0
    for _, strip in planes.strips():
        spread = strip.pairs * (_SPREAD_PAIR + _SPREAD * planes.columns[1])
        total += depth.channels * (spread / _FOUR + _PLANE + (strip.pairs - 1) * row)
    images = prod(axis.extent for axis in depth.found.positions)
    images //= depth.down.out.extent * depth.across.out.extent
    # As other generators count: two instructions a cycle.
    return images * total / 2


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternative of this generator."""
    if families()["depth_s1"][0] not in task.target.features:
        return Refusal("the target has no instructions that multiply pairs of 16 bits")
    planes = planes_of(task)
    if isinstance(planes, Refusal):
        return planes
    return (Alternative(_NAME, cost(planes), Sums("tensorized"), partial(_make, task), always),)


def _make(task: Task) -> Implementation:
    planes = planes_of(task)
    assert not isinstance(planes, Refusal)
    return write(planes)


GENERATOR = Generator(
    "byte-planes",
    "Depthwise 3x3 convolutions of bytes: four channels at a time are widened into planes, whose "
    "words hold two rows of a channel (SMLAD), in loops that all layers share.",
    (
        "one sum of products, in i32, of signed bytes and constant weights less their zero points",
        "every channel of the output reads one of the input, by windows of 3x3 neighbours",
        "channels side by side, in fours; strides of 1 or 2",
        "requantized in fixed point, with nothing behind it",
        "the target multiplies pairs of 16 bits and adds (Arm DSP extension)",
    ),
    propose,
    any_threads=True,
)
