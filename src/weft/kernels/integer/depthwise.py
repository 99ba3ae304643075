"""Depthwise convolutions of bytes: a channel's window slides over a widened copy of its image.

Every value of the image is read several times, each time less its zero point; so a strip of it
is copied once, with its borders, in the type that products take::

    for block of channels, strip of rows:
      local image[row][column][lane]         (x - zero, widened; 0 in borders)
      for y in strip, tile of columns:
        local acc[column][lane] = start[channel]
        for taps:  acc += image[y * stride + i][x * stride + j] * weights[i][j]
        out[y][x][channel] = epilogue(acc)

An instruction that adds several products to one sum (SMLAD) takes neighbouring taps of a row.
Otherwise lanes are channels, and sums are ``f32`` where that holds all of them exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod

import numpy as np

from weft.cached import cached_property
from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.contraction import SlidingWindow, contraction_of
from weft.kernels.generator import Generator
from weft.kernels.integer.output import ACCUMULATOR, IntegerOutput, fits, largest_sum
from weft.kernels.integer.sums import IntegerContraction, integer_contraction
from weft.kernels.nest import parallel
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import Tile, even_tiles
from weft.kernels.writer import LANE, for_range, integer, nested, plus, times
from weft.loops.instruction import Instruction, instructions
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Instruct,
    Kernel,
    Load,
    Local,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import substitute_stmts
from weft.loops.walk import loads, substitute
from weft.ops.expr import const
from weft.plan.implementation import Implementation
from weft.records import dataclass

_I32, _F32 = DType.I32, DType.F32
MOST_BYTES = 16384
"""Of the copy of a strip."""
MOST_TILE = {False: 8, True: 5}
"""Columns of a tile: sums that registers hold beside weights; of instructions, fewer."""
_STEP, _COPIED, _RESULT = 1.3, 4, 5
"""Cycles that an instruction takes with its loads, that an element takes to be copied and an output
to be requantized, one by one (Cortex-M4; whole networks under QEMU)."""
_WIDENED, _REQUANTIZED = 4, 10
"""Operations on vectors that widen a place and that make an output of a sum."""
_EXACT = 1 << 24  # Whole numbers up to this are all f32.


def windows_of(found: IntegerContraction) -> dict[Axis, SlidingWindow] | Refusal:
    """The windows of all taps by these, the fastest last."""
    parts = contraction_of(found.task)
    if isinstance(parts, Refusal):
        return parts
    images = {each for each in loads(found.activation) if each.buffer not in found.task.constants}
    windows = [each for image in images for each in parts.windows_of(image)]
    named = {each.tap: each for each in windows if each and each.tap}
    taps = [axis for axis in found.reduce.axes if axis.extent > 1]
    if len(images) != 1 or not taps or named.keys() != set(taps):
        return Refusal("its taps and positions are no window of an image")
    if not parts.guarded_by_borders(tuple(named.values())):
        return Refusal("its conditions are not those of an image's borders")
    if any(each.stride > 1 and each.dilation > 1 for each in named.values()):
        return Refusal("its window has both a stride and gaps")
    return {tap: named[tap] for tap in taps}


@dataclass(frozen=True)
class Depthwise:
    """A depthwise convolution by an instruction, or by lanes.

    Attributes:
        found: the contraction.
        windows: along the dimensions of the image, the fastest last, by their taps.
        row: the instruction, if one is used.
        lanes: channels at once.
    """

    found: IntegerContraction
    windows: dict[Axis, SlidingWindow]
    row: Instruction | None
    lanes: int = 1

    @property
    def name(self) -> str:
        """The alternative's."""
        return f"depthwise-{self.row.name if self.row else f'x{self.lanes}'}"

    @cached_property
    def sums(self) -> DType:
        """The type of sums."""
        return _F32 if self.lanes > 1 and largest_sum(self.found) <= _EXACT else _I32

    @cached_property
    def factors(self) -> tuple[DType, DType]:
        """Types of the copied image and of the weights."""
        if self.row:
            _, image, weights = self.row.meaning.params
            return image.dtype, weights.dtype
        return (self.sums, self.sums) if self.lanes > 1 else (DType.I16, DType.I16)

    @cached_property
    def depth(self) -> int:
        """Taps at once."""
        return prod(self.row.meaning.params[1].shape) if self.row else 1

    @cached_property
    def extents(self) -> list[int]:
        """Taps along each dimension; along the last one as many as instructions take."""
        *others, last = (tap.extent for tap in self.windows)
        return [*others, -(-last // self.depth) * self.depth]

    @cached_property
    def rows(self) -> int:
        """Outputs of a strip along the first dimension."""
        first, *rest = zip(self.windows.values(), self.extents, strict=True)
        beside = prod(each.reach(each.out.extent, taps) for each, taps in rest)
        held = MOST_BYTES // (self.factors[0].bytes * self.lanes * beside)
        most = (held - first[0].reach(1, first[1])) // first[0].stride + 1
        return min(first[0].out.extent, max(1, most))

    @cached_property
    def channel(self) -> Expr:
        """The one that is computed."""
        return plus(times(Var("block"), self.lanes), self.lane[0] if self.lane else 0)

    @cached_property
    def lane(self) -> tuple[Expr, ...]:
        """The last index of what all lanes have; none where there is one."""
        return (Var(LANE),) if self.lanes > 1 else ()

    def local(self, name: str, dtype: DType, shape: Sequence[int], body: Sequence[Stmt]) -> Local:
        """Statements with a buffer that all lanes have."""
        wide = (*shape, self.lanes) if self.lane else tuple(shape)
        return Local(Buffer(name, dtype, wide, Access.LOCAL), tuple(body))

    def for_each(self, stmt: Stmt) -> Stmt:
        """A statement for all lanes."""
        return for_range(LANE, self.lanes, (stmt,), LoopKind.VECTOR) if self.lane else stmt

    def generate(self) -> Implementation:
        """The kernel."""
        found, task = self.found, self.found.task
        shift = (self.row and fits(found, self.row)) or 0
        taps = found.weights.astype(np.int64)
        output = IntegerOutput(found, found.bias - shift * taps.sum(1), self.sums)
        taps = taps.reshape(-1, *(tap.extent for tap in self.windows))
        missing = self.extents[-1] - taps.shape[-1]
        taps = np.pad(taps, [*[(0, 0)] * (taps.ndim - 1), (0, missing)])
        if self.lane:
            taps = np.moveaxis(taps.reshape(-1, self.lanes, *taps.shape[1:]), 1, -1)
        output.arrays["weights"] = np.ascontiguousarray(taps.astype(self.factors[1].numpy))
        outs = [each.out for each in self.windows.values()]
        whole, rest = divmod(outs[0].extent, self.rows)
        strip = self._strip(output, times(Var("chunk"), self.rows), self.rows, shift)
        body: list[Stmt] = [for_range("chunk", whole, (strip,))]
        if rest:
            body.append(self._strip(output, integer(whole * self.rows), rest, shift))
        outer = (axis for axis in found.positions if axis not in outs)
        loops = nested([*outer, Axis("block", found.channel.extent // self.lanes)], tuple(body))
        params = (*output.inputs, *output.buffers(), task.output)
        kernel = simplify_kernel(Kernel(task.name, params, loops))
        kernel = replace(kernel, body=parallel(kernel.body))
        return Implementation(kernel, output.operands(lambda _, array: array), self.name)

    def _strip(self, output: IntegerOutput, origin: Expr, rows: int, shift: int) -> Stmt:
        """So many rows of outputs from one on: the copy of what they read, and their tiles."""
        _, *others = windows = list(self.windows.values())
        counts = [rows, *(each.out.extent for each in others)]
        origins = [origin, *(integer(0) for _ in others)]
        steps = list(zip(self.windows.items(), self.extents, origins, counts, strict=True))
        values: dict[str, Expr] = {self.found.channel.var: self.channel}
        for (tap, each), _, first, _ in steps:
            gaps = each.dilation > 1
            values[each.out.var] = plus(first, Var(tap.var)) if gaps else first
            values |= {tap.var: integer(0)} if gaps else {}
        index = (*(Var(tap.var) for tap in self.windows), *self.lane)
        value = Binary("add", substitute(self.found.inside, values), Const(shift, _I32))
        copy = self.for_each(Store("image", index, Cast(self.factors[0], value)))
        for (tap, each), _, first, count in reversed(steps):
            copy = For(tap.var, *each.places(first, count), (copy,))
        shape = [each.reach(count, taps) for (_, each), taps, _, count in steps]
        border = self.for_each(Store("image", index, const(shift, self.factors[0])))
        axes = [Axis(tap.var, size) for tap, size in zip(self.windows, shape, strict=True)]
        padded = self.extents[-1] > [*self.windows][-1].extent
        padded = padded or any(each.before > 0 or each.behind > 0 for each in windows)
        tiles = [
            for_range("tile", each.count, (self._tile(output, origin, each),))
            for each in even_tiles(counts[-1], MOST_TILE[self.row is not None])
        ]
        outs = [Axis(each.out.var, count) for (_, each), _, _, count in steps[:-1]]
        body = (*(nested(axes, (border,)) if padded else ()), copy, *nested(outs, tuple(tiles)))
        return self.local("image", self.factors[0], shape, body)

    def _tile(self, output: IntegerOutput, origin: Expr, tile: Tile) -> Stmt:
        """The sums and outputs of neighbouring columns."""
        *others, last = self.windows
        spot = (Var("spot"), *self.lane)
        column = plus(plus(times(Var("tile"), tile.size), tile.start), Var("spot"))
        outs: list[Expr] = [*(Var(self.windows[tap].out.var) for tap in others), column]
        taps: list[Expr] = [*(Var(e.var) for e in others), times(Var(last.var), self.depth)]
        steps = list(zip(self.windows.values(), outs, taps, strict=True))
        places = [each.place(out, tap) for each, out, tap in steps]
        sum = Load(ACCUMULATOR, spot, self.sums)
        image = Load("image", (*places, *self.lane), self.factors[0])
        weight = Load("weights", (Var("block"), *taps, *self.lane), self.factors[1])
        product = Binary("mul", Cast(self.sums, image), Cast(self.sums, weight))
        added: Stmt = Store(sum.buffer, spot, Binary("add", sum, product))
        if self.row:
            added = Instruct(self.row.name, (sum, image, weight))
        ends = {each.out.var: out for each, out, _ in steps}
        ends[steps[0][0].out.var] = plus(origin, outs[0])
        ends[self.found.channel.var] = self.channel

        def columns(stmt: Stmt) -> Stmt:
            return for_range("spot", tile.size, (self.for_each(stmt),), LoopKind.UNROLL)

        count = self.extents[-1] // self.depth
        across = for_range(last.var, count, (columns(added),), LoopKind.UNROLL)
        body = (
            columns(Store(sum.buffer, spot, Load("start", (self.channel,), self.sums))),
            *nested(others, (across,)),
            *map(columns, substitute_stmts((output.store(spot),), ends)),
        )
        return self.local(sum.buffer, self.sums, (tile.size,), body)


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """An instruction for neighbouring taps, or lanes of channels."""
    found = integer_contraction(task)
    if isinstance(found, Refusal):
        return found
    if not found.depthwise:
        return Refusal("an output channel reads several of the input")
    windows = windows_of(found)
    if isinstance(windows, Refusal):
        return windows
    offered = [
        Depthwise(found, windows, row)
        for row in instructions().values()
        if row.needs in task.target.features
        and [len(each.shape) for each in row.meaning.params] == [0, 1, 1]
        and [*windows.values()][-1].dilation == 1
        and fits(found, row) is not None
    ]
    width = gcd(lanes := task.target.lanes(_F32), found.channel.extent)
    contiguous = task.output.steps[task.compute.axes.index(found.channel)] == 1
    if lanes == 1 or (width > 1 and contiguous):
        offered.append(Depthwise(found, windows, None, width))
    if not offered:
        return Refusal("the target has neither an instruction for it nor vectors of its channels")
    return tuple(
        Alternative(each.name, cost(each), Sums("tensorized"), each.generate, always)
        for each in offered
    )


def cost(loops: Depthwise) -> float:
    """About how many cycles it takes."""
    found, target = loops.found, loops.found.task.target
    outputs = prod(axis.extent for axis in (*found.positions, found.channel)) / loops.lanes
    first, *rest = loops.windows.values()
    copied = first.reach(loops.rows) / loops.rows * prod(each.stride for each in rest)
    # As other generators count: two instructions a cycle beside the loads.
    each = loops.row.cycles / 2 if loops.row else 1 / target.multiply_adds
    steps = prod(loops.extents) / loops.depth * max(each, 1 / target.loads)
    if loops.row:
        return outputs * (_STEP * steps + _COPIED * copied + _RESULT)
    return outputs * (steps + (_WIDENED * copied + _REQUANTIZED) / target.issue.operations)


GENERATOR = Generator(
    "depthwise",
    "Depthwise convolutions of bytes over a widened copy of the image, by an instruction that "
    "takes neighbouring taps (SMLAD) or by lanes of channels.",
    (
        "one sum of products, in i32, of bytes and constant weights less their zero points",
        "every channel of the output reads one of the input, by a window",
        "the target has an instruction that adds to one sum, vectors of channels, or none",
    ),
    propose,
    any_threads=True,
)
