"""Integer convolutions and matrix products by the instruction that the target has.

The loops begin as the definition has them and are scheduled: split, reordered, their locals
widened to register tiles, weights laid out for the instruction, tensorized::

    for tile of positions:
      local patch[position][k]            (what a position reads, widened, in one stream)
      for block of channels:
        local acc[position][block][lane] = start[channel]
        for k in steps of the instruction:  instruction(acc, patch, weights)
        out[position][channel] = epilogue(acc)

``start`` is what constants add to the sum: the bias, and the algebra of zero points.  The
patch holds ``x - zero``, plus a shift where the instruction's type needs one (bytes without
a sign); the sum of ``shift * w`` is then taken from ``start``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.kernels.integer.output import IntegerOutput, fits
from weft.kernels.integer.sums import IntegerContraction
from weft.kernels.nest import parallel
from weft.kernels.writer import for_range, integer, nested, plus, times
from weft.loops.instruction import Instruction
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Kernel,
    Load,
    Local,
    Stmt,
    Store,
    Var,
)
from weft.loops.schedule import reorder, split, unroll, vectorize
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import substitute_stmts, walk_stmts
from weft.loops.tensorize import relayout, tensorize, widen
from weft.plan.implementation import Implementation
from weft.records import dataclass

_I32 = DType.I32
_STEPS = 4
"""Steps of the reduction that are written out where an instruction makes a single sum."""


@dataclass(frozen=True)
class Shape:
    """An instruction, and the register tile around it.

    Attributes:
        row: the instruction.
        tile: positions of a tile.
        block: instructions along the channels.
    """

    row: Instruction
    tile: int
    block: int

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
        return f"{self.row.name}-{self.tile}x{self.block}"


def shift_of(found: IntegerContraction, row: Instruction) -> int | None:
    """What is added to activations for an instruction, if it can compute the contraction."""
    sum, *factors = (each.shape for each in row.meaning.params)
    if list(map(len, factors)) not in ([1, 1], [1, 2]) or found.channel.extent % prod(sum):
        return None
    return fits(found, row)


def generate(found: IntegerContraction, shape: Shape) -> Implementation:
    """The kernel of a contraction."""
    loops = _Loops(found, shape)
    body: list[Stmt] = []
    params: tuple[Buffer, ...] = ()
    for start, stop, tile in _tiles(found, shape.tile):
        made = loops.scheduled(loops.naive(start, stop), tile)
        params, body = made.params, [*body, *made.body]
    kernel = simplify_kernel(Kernel(found.task.name, params, tuple(body)))
    kernel = replace(kernel, body=tuple(part for stmt in kernel.body for part in parallel((stmt,))))
    return Implementation(kernel, loops.output.operands(loops.packed), shape.name)


def _tiles(found: IntegerContraction, tile: int) -> Iterator[tuple[int, int, int]]:
    """Ranges of the last axis of positions, each of whole tiles."""
    extent = found.positions[-1].extent if found.positions else 1
    whole = extent // tile * tile
    if whole:
        yield 0, whole, tile
    if whole < extent:
        yield whole, extent, extent - whole


class _Loops:
    """Loops of one contraction for one instruction."""

    def __init__(self, found: IntegerContraction, shape: Shape) -> None:
        self.found, self.shape = found, shape
        _, self.lhs, self.rhs = shape.row.meaning.params
        shift = fits(found, shape.row)
        assert shift is not None
        self.shift = shift
        depth = found.weights.shape[1]
        self.depth = -(-depth // shape.depth) * shape.depth
        weights = np.pad(found.weights.astype(np.int64), ((0, 0), (0, self.depth - depth)))
        self.output = IntegerOutput(found, found.bias.astype(np.int64) - shift * weights.sum(1))
        self.output.arrays["weights"] = weights.astype(self.rhs.dtype.numpy)

    # --- as the definition has it ---------------------------------------------------------------

    def naive(self, start: int, stop: int) -> Kernel:
        """A position's patch, then channel by channel its sum and its output."""
        found, task = self.found, self.found.task
        channel, k = Var(found.channel.var), Var("tap")
        patch = Buffer("patch", self.lhs.dtype, (self.depth,), Access.LOCAL)
        acc = Load("acc", (), found.sums)
        product: Expr = Binary(
            "mul",
            Cast(_I32, Load("patch", (k,), patch.dtype)),
            Cast(_I32, Load("weights", (channel, k), self.rhs.dtype)),
        )
        if found.sums is not _I32:
            product = Cast(found.sums, product)
        sums: tuple[Stmt, ...] = (
            Store("acc", (), Load("start", (channel,), found.sums)),
            for_range(
                k.name,
                self.depth,
                (Store("acc", (), Binary("add", acc, product)),),
            ),
            self.output.store(),
        )
        local = Local(Buffer("acc", found.sums, (), Access.LOCAL), sums)
        outputs = for_range(channel.name, found.channel.extent, (local,))
        body: tuple[Stmt, ...] = (Local(patch, (*self._filled(), outputs)),)
        if found.positions:
            *outer, last = found.positions
            at = {last.var: plus(Var("spot"), start)}
            body = substitute_stmts(body, at)
            body = (for_range("spot", stop - start, body),)
            body = nested(outer, body)
        else:
            body = (for_range("spot", 1, body),)
        params = (*self.output.inputs, *self.output.buffers(), task.output)
        return Kernel(task.name, params, body)

    def _filled(self) -> tuple[Stmt, ...]:
        """Loops that fill the patch; what is left of its last step is zeros."""
        reduce, step = self.found.reduce, 1
        flat: Expr = integer(0)
        for axis in reversed(reduce.axes):
            flat = plus(times(Var(axis.var), step), flat)
            step *= axis.extent
        value = self.found.activation
        if self.shift:
            value = Binary("add", value, Const(self.shift, _I32))
        body: tuple[Stmt, ...] = (Store("patch", (flat,), Cast(self.lhs.dtype, value)),)
        body = nested(reduce.axes, body)
        if step == self.depth:
            return body
        zero = Store("patch", (plus(Var("rest"), step),), Const(0, self.lhs.dtype))
        return (*body, for_range("rest", self.depth - step, (zero,)))

    # --- the schedule ---------------------------------------------------------------------------

    def scheduled(self, kernel: Kernel, tile: int) -> Kernel:
        """The loops around the instruction."""
        shape, c = self.shape, self.found.channel.var
        kernel = split(kernel, "spot", tile)
        kernel = widen(kernel, "patch", ("spot_inner",))
        spot = "spot_inner_2" if self._has_rest else "spot_inner_1"
        kernel = split(kernel, c, shape.block * shape.lanes)
        kernel = split(kernel, f"{c}_inner", shape.lanes)
        block, lane = f"{c}_inner_outer", f"{c}_inner_inner"
        kernel = reorder(kernel, (f"{c}_outer", spot, block, lane))
        kernel = widen(kernel, "acc", (spot, block, lane))
        kernel = split(kernel, "tap", shape.depth)
        loops = [each.var for each in walk_stmts(kernel.body) if isinstance(each, For)]
        nests = [name for name in loops if name.startswith((spot, block, lane))]
        inits, sums, ends = nests[:3], nests[3:6], nests[6:9]
        # The operands of the shorter side of a tile stay in registers along the longer one.
        sides = sums[:2] if shape.tile >= shape.block else sums[1::-1]
        kernel = reorder(kernel, ("tap_outer", *sides, sums[2], "tap_inner"))
        kernel = self._laid_out(kernel)
        inner = sums[2] if len(shape.row.meaning.params[0].shape) else "tap_inner"
        kernel = tensorize(kernel, inner, shape.row.name)
        if shape.lanes == 1 and self.depth // shape.depth % _STEPS == 0:
            # Few instructions a step: what the loop itself takes would be a third of it.
            kernel = unroll(split(kernel, "tap_outer", _STEPS), "tap_outer_inner")
        for name in (*inits[:2], *sums[:2], *ends[:2]):
            kernel = unroll(kernel, name)
        if shape.lanes > 1:
            kernel = vectorize(vectorize(kernel, inits[2]), ends[2])
        return kernel

    @property
    def _has_rest(self) -> bool:
        return prod(axis.extent for axis in self.found.reduce.axes) != self.depth

    @property
    def _cuts(self) -> tuple[int, int, int]:
        return self.shape.block, self.shape.lanes, self.shape.depth

    def _laid_out(self, kernel: Kernel) -> Kernel:
        """With weights in the order in which they are read."""
        block, lanes, depth = self._cuts
        packed = self.packed("weights", self.output.arrays["weights"])

        def place(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
            c, k = index
            return (
                _over(c, block * lanes),
                _over(k, depth),
                _rest(_over(c, lanes), block),
                _rest(c, lanes),
                _rest(k, depth),
            )

        return relayout(kernel, "weights", packed.shape, place)

    def packed(self, name: str, array: np.ndarray) -> np.ndarray:
        """A constant in the order in which it is read."""
        if name != "weights":
            return array
        block, lanes, depth = self._cuts
        cut = array.reshape(-1, block, lanes, self.depth // depth, depth)
        return np.ascontiguousarray(cut.transpose(0, 3, 1, 2, 4))


def _over(index: Expr, divisor: int) -> Expr:
    return Binary("floordiv", index, integer(divisor))


def _rest(index: Expr, divisor: int) -> Expr:
    return Binary("mod", index, integer(divisor))
