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

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.kernels.folding import foldable, folded, interval
from weft.kernels.integers import IntegerContraction, constants_of
from weft.kernels.nest import parallel
from weft.kernels.requantize import ROUNDING, requantized
from weft.kernels.writer import for_range, integer, nested, plus, times
from weft.loops.instruction import Instruction, instruction
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
from weft.loops.tensorize import relayout, tensorize, widen
from weft.loops.walk import (
    children,
    free_vars,
    loads,
    substitute_stmts,
    walk_stmts,
    with_children,
)
from weft.plan.implementation import Folded, Implementation, Operand

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


def fits(found: IntegerContraction, row: Instruction) -> int | None:
    """What is added to activations so that they are of the instruction's type; ``None``: nothing.

    The weights must be of its type as they are.
    """
    if [len(each.shape) for each in row.meaning.params][1:] not in ([1, 1], [1, 2]):
        return None
    sum, lhs, rhs = row.meaning.params
    if sum.dtype is not _I32 or found.channel.extent % prod(sum.shape):
        return None
    low, high = interval(found.activation)
    first, last = lhs.dtype.limits
    lowest, highest = rhs.dtype.limits
    if found.weights.min() < lowest or found.weights.max() > highest:
        return None
    shift = 0 if first <= low and high <= last else first - low
    return shift if high + shift <= last else None


def generate(found: IntegerContraction, shape: Shape) -> Implementation:
    """The kernel of a contraction."""
    loops = _Loops(found, shape)
    body: list[Stmt] = []
    for start, stop, tile in _tiles(found, shape.tile):
        body += loops.scheduled(loops.naive(start, stop), tile).body
    params = (*loops.inputs, *loops.packed(), found.task.output)
    kernel = simplify_kernel(Kernel(found.task.name, params, tuple(body)))
    kernel = replace(kernel, body=tuple(part for stmt in kernel.body for part in parallel((stmt,))))
    return Implementation(kernel, (*loops.values, *loops.operands()), shape.name)


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
        task = found.task
        _, self.lhs, self.rhs = shape.row.meaning.params
        shift = fits(found, shape.row)
        assert shift is not None
        self.shift = shift
        depth = found.weights.shape[1]
        self.depth = -(-depth // shape.depth) * shape.depth
        missing = self.depth - depth
        weights = np.pad(found.weights.astype(np.int64), ((0, 0), (0, missing)))
        start = found.bias.astype(np.int64) - shift * weights.sum(1)
        self.arrays: dict[str, np.ndarray] = {
            "weights": weights.astype(self.rhs.dtype.numpy),
            "start": start.astype(np.int32),
        }
        self.epilogue = self._epilogue()
        self.constants = {
            name: Buffer(name, DType.of(array.dtype), array.shape)
            for name, array in self.arrays.items()
        }
        read = {load.buffer for load in (*loads(found.activation), *loads(self.epilogue))}
        chosen = [
            (buffer, Operand(value))
            for buffer, value in zip(task.inputs, task.values, strict=True)
            if buffer.name in read
        ]
        self.inputs = tuple(buffer for buffer, _ in chosen)
        self.values = tuple(operand for _, operand in chosen)

    def _epilogue(self) -> Expr:
        """The definition of an output with its sum in ``acc``; constants of a channel folded."""
        found, arrays = self.found, constants_of(self.found.task)
        seen: dict[Expr, str] = {}
        done: dict[int, Expr] = {}

        def fold(node: Expr) -> Expr:
            if id(node) not in done:
                done[id(node)] = visit(node)
            return done[id(node)]

        def visit(node: Expr) -> Expr:
            if node == found.whole:
                return Load("acc", (), _I32)
            constant = foldable(node, arrays) and any(loads(node))
            if not constant or not free_vars(node) <= {found.channel.var}:
                return with_children(node, tuple(map(fold, children(node))))
            name = seen.setdefault(node, f"factor{len(seen)}")
            self.arrays[name] = np.ascontiguousarray(folded(node, (found.channel,), arrays))
            dtype = DType.of(self.arrays[name].dtype)
            return Load(name, (Var(found.channel.var),), dtype)

        return fold(found.task.compute.value)

    # --- as the definition has it ---------------------------------------------------------------

    def naive(self, start: int, stop: int) -> Kernel:
        """A position's patch, then channel by channel its sum and its output."""
        found, task = self.found, self.found.task
        channel, k = Var(found.channel.var), Var("tap")
        patch = Buffer("patch", self.lhs.dtype, (self.depth,), Access.LOCAL)
        acc = Load("acc", (), _I32)
        product = Binary(
            "mul",
            Cast(_I32, Load("patch", (k,), patch.dtype)),
            Cast(_I32, Load("weights", (channel, k), self.rhs.dtype)),
        )
        sums: tuple[Stmt, ...] = (
            Store("acc", (), Load("start", (channel,), _I32)),
            for_range(
                k.name,
                self.depth,
                (Store("acc", (), Binary("add", acc, product)),),
            ),
            self._stored(),
        )
        local = Local(Buffer("acc", _I32, (), Access.LOCAL), sums)
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
        return Kernel(task.name, (*self.inputs, *self.constants.values(), task.output), body)

    def _stored(self) -> Stmt:
        """The output of a position and a channel."""
        task = self.found.task
        index = tuple(Var(axis.var) for axis in task.compute.axes)
        if instruction(ROUNDING).needs in task.target.features:
            made = requantized(self.epilogue)
            if made is not None and self._fits(made.scaled):
                return made.store(task.output.name, index)
        return Store(task.output.name, index, self.epilogue)

    def _fits(self, scaled: Expr) -> bool:
        """Whether a scaled sum is a number far inside of what ``i32`` holds."""
        match scaled:
            case Binary("mul", Cast(DType.F32, Load("acc")), Const(value=scale)):
                most = abs(scale)
            case Binary("mul", Cast(DType.F32, Load("acc")), Load(name)) if name in self.arrays:
                most = float(np.abs(self.arrays[name]).max())
            case _:
                return False
        largest = max(map(abs, interval(self.found.activation)))
        sums = np.abs(self.found.weights.astype(np.int64)).sum(1) * largest
        total = int((sums + np.abs(self.found.bias.astype(np.int64))).max())
        return total < 1 << 31 and total * most < 1 << 30

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

        def place(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
            c, k = index
            return (
                _over(c, block * lanes),
                _over(k, depth),
                _rest(_over(c, lanes), block),
                _rest(c, lanes),
                _rest(k, depth),
            )

        return relayout(kernel, "weights", self._packed_weights().shape, place)

    def _packed_weights(self) -> np.ndarray:
        block, lanes, depth = self._cuts
        cut = self.arrays["weights"].reshape(-1, block, lanes, self.depth // depth, depth)
        return np.ascontiguousarray(cut.transpose(0, 3, 1, 2, 4))

    def packed(self) -> tuple[Buffer, ...]:
        """The constants as parameters."""
        weights = replace(self.constants["weights"], shape=self._packed_weights().shape)
        return tuple({**self.constants, "weights": weights}.values())

    def operands(self) -> tuple[Operand, ...]:
        """What stands for them."""
        task = self.found.task
        constant = next(name for name in task.constants)
        value = task.value_of(constant)
        arrays = {**self.arrays, "weights": self._packed_weights()}
        return tuple(
            Operand(value, Folded(_digest(array), array, task.arrays[constant].shape))
            for array in arrays.values()
        )


def _digest(array: np.ndarray) -> str:
    head = f"{array.dtype}{array.shape}".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()


def _over(index: Expr, divisor: int) -> Expr:
    return Binary("floordiv", index, integer(divisor))


def _rest(index: Expr, divisor: int) -> Expr:
    return Binary("mod", index, integer(divisor))
