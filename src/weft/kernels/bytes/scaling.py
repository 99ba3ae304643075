"""Requantization of whole rows of sums by one instruction of the target.

What follows a sum is recognized in an output's definition, in either of two roundings::

    i8(saturate(round(f32(acc) * scale[c]) + zero))          ONNX's, in floats
    i8(saturate(Requantize(acc, multiplier[c], shift[c])))   LiteRT's, in integers

The second is ``(high half of (2 acc * multiplier) + term) >> shift`` with a term that holds the
zero point and the half that rounds; sums below zero take one less, as halves go away from zero.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.dtypes import DType
from weft.kernels.bytes.add import ByteAdd, byte_add
from weft.kernels.integer.folding import interval
from weft.kernels.integer.output import ACCUMULATOR, IntegerOutput
from weft.kernels.writer import integer, nested, plus
from weft.loops.fixed_point import LARGEST_SHIFT, LARGEST_SUM, fixed_point, saturated
from weft.loops.instruction import families, member
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Instruct,
    Load,
    Local,
    Stmt,
    Unary,
    Var,
)
from weft.loops.statements import map_stmts, substitute_stmts
from weft.loops.walk import loads, map_expr, walk
from weft.records import dataclass

_I8, _I32, _I64 = DType.I8, DType.I32, DType.I64
_SUM = Load(ACCUMULATOR, (), _I32)
_CONSTANT_SHIFT = 8
ROW = "row"


@dataclass(frozen=True)
class Scaling:
    """Requantization by a row of instructions.

    Attributes:
        family: of instructions, whose first size is the number of sums; sizes: the others.
        arrays: their operands behind outputs and sums.
        constant: channels whose output is the same whatever their sums are; these must be 0.
    """

    family: str
    arrays: dict[str, np.ndarray]
    sizes: tuple[int, ...] = ()
    constant: np.ndarray | None = None


def scaling(value: Expr, output: IntegerOutput) -> Scaling | None:
    """The requantization of the sum that a value is, if the target has instructions for it."""
    inner = saturated(value)
    if inner is None:
        return None
    made = _by_scales(inner, output) or _by_multipliers(inner, output)
    needs = families()[made.family][0] if made else ""
    return made if needs in output.found.task.target.features else None


class RequantizedRow:
    """The outputs of all channels of a position, whose sums lie side by side.

    An output's definition is either a requantization as a whole, or computes further with
    what one gives: a residual is added, or the result is made a float.

    Args:
        output: the definition; its arrays become those that the statements read.
        wide: whether weights may be doubled.

    Attributes:
        factor: of the weights, 1 or 2.
    """

    def __init__(self, output: IntegerOutput, wide: bool) -> None:
        self.output = output
        self.factor = 1
        self.made = self.inner = self.add = None
        for node in walk(output.value):
            made = scaling(node, output)
            if made is not None:
                self.made, self.inner = made, node
        if self.made is None:
            return
        self.whole = self.inner == output.value
        channel = Var(output.found.channel.var)
        row = Load(ROW, (channel,), _I8)
        output.value = map_expr(output.value, lambda node: row if node == self.inner else node)
        self.add = None if self.whole else self._sum_of_bytes()
        read = {load.buffer for load in loads(output.value)} | {"start"}
        kept = {name: array for name, array in output.arrays.items() if name in read}
        output.arrays = {**kept, **self.made.arrays}
        if self.add is not None:
            output.arrays |= self.add.arrays
        start = output.arrays["start"]
        if self.made.constant is not None:
            start = np.where(self.made.constant, np.int32(0), start)
        if wide and self.made.family == "scale_i32":
            # Sums that are doubled from the start need not be doubled one by one.
            self.factor = 2
            self.made = replace(self.made, sizes=(1, *self.made.sizes[1:]))
            start = start * np.int32(2)
        output.arrays["start"] = start

    def weights(self, weights: np.ndarray) -> np.ndarray:
        """Weights, by channel first, as the sums need them."""
        scaled = weights * self.factor
        if self.made is None or self.made.constant is None:
            return scaled
        constant = self.made.constant.reshape(-1, *(1,) * (weights.ndim - 1))
        return np.where(constant, 0, scaled)

    def stored(
        self, at: tuple[Expr, ...], first: Expr | int = 0, count: int = 0
    ) -> tuple[Stmt, ...]:
        """Stores the outputs.

        Args:
            at: of the sums, ``acc[at, channel]``.
            first: the channel of the sums' first.
            count: channels, all if not given.
        """
        output, channel = self.output, self.output.found.channel
        axis, zero = Axis("lane", count or channel.extent), integer(0)
        first = integer(first) if isinstance(first, int) else first
        place = {channel.var: plus(first, Var(axis.var))}
        if self.made is None:
            store = substitute_stmts((output.store((*at, Var(axis.var))),), place)
            return nested([axis], store)
        task = output.found.task
        index = tuple(first if axis == channel else Var(axis.var) for axis in task.compute.axes)
        target = Load(task.output.name, index, _I8) if self.whole else Load(ROW, (zero,), _I8)
        operands = [target, Load(ACCUMULATOR, (*at, zero), _I32)]
        for name, array in self.made.arrays.items():
            shared = len(array) == 1 < channel.extent
            where = (zero if shared else first, *[zero] * (array.ndim - 1))
            operands.append(Load(name, where, DType.of(array.dtype)))
        name = member(self.made.family, axis.extent, *self.made.sizes)
        row = Instruct(name, tuple(operands))
        if self.whole:
            return (row,)
        buffer = Buffer(ROW, _I8, (axis.extent,), Access.LOCAL)
        return (Local(buffer, (row, *self.finished((), first, count))),)

    def finished(
        self, at: tuple[Expr, ...], first: Expr | int = 0, count: int = 0
    ) -> tuple[Stmt, ...]:
        """Stores outputs that are computed from requantized bytes, ``row[at, channel]``.

        Args:
            at: of the bytes.
            first: the channel of the first byte.
            count: channels, all if not given.
        """
        channel = self.output.found.channel
        axis = Axis("lane", count or channel.extent)
        if self.add is not None:
            return (self._added(self.add, at, first, axis.extent),)
        made = replace_loads(self.output.store(()), ROW, (*at, Var(axis.var)))
        first = integer(first) if isinstance(first, int) else first
        place = {channel.var: plus(first, Var(axis.var))}
        return nested([axis], substitute_stmts((made,), place))

    def _sum_of_bytes(self) -> ByteAdd | None:
        """The sum of the row and other bytes, whose channels become the last dimension."""
        output, task = self.output, self.output.found.task
        channel = output.found.channel
        add = byte_add(output.value, task.target)
        if add is None or task.compute.axes[-1] != channel or task.output.steps[-1] != 1:
            return None
        images = {load.buffer for load in loads(output.found.activation)}
        others = [load for load in (add.x, add.y) if load.buffer != ROW]
        if len(others) != 1 or others[0].buffer in images:
            return None
        (other,) = others
        buffer = next(each for each in output.inputs if each.name == other.buffer)
        places = [at for at, part in enumerate(other.index) if part == Var(channel.var)]
        if len(places) != 1 or buffer.steps[places[0]] != 1:
            return None
        order = [*(at for at in range(len(buffer.shape)) if at not in places), *places]
        last = replace(
            buffer,
            shape=tuple(buffer.shape[at] for at in order),
            strides=tuple(buffer.steps[at] for at in order),
        )
        load = replace(other, index=tuple(other.index[at] for at in order))
        output.inputs = tuple(last if each == buffer else each for each in output.inputs)
        output.value = map_expr(output.value, lambda node: load if node == other else node)
        return replace(add, **{"x" if add.x == other else "y": load})

    def _added(self, add: ByteAdd, at: tuple[Expr, ...], first: Expr | int, count: int) -> Stmt:
        """Sums of bytes and another's, of neighbouring channels."""
        task = self.output.found.task
        first = integer(first) if isinstance(first, int) else first

        def place(load: Load) -> Load:
            if load.buffer == ROW:
                return Load(ROW, (*at, integer(0)), _I8)
            return replace(load, index=(*load.index[:-1], first))

        index = tuple(Var(axis.var) for axis in task.compute.axes)
        out = place(Load(task.output.name, index, _I8))
        return add.instruct(count, out, place(add.x), place(add.y))


def replace_loads(stmt: Stmt, name: str, index: tuple[Expr, ...]) -> Stmt:
    """A statement that reads a buffer at another place."""

    def change(node: Expr) -> Expr:
        return (
            replace(node, index=index) if isinstance(node, Load) and node.buffer == name else node
        )

    (changed,) = map_stmts((stmt,), lambda expr: map_expr(expr, change))
    return changed


def _by_scales(inner: Expr, output: IntegerOutput) -> Scaling | None:
    match inner:
        case Binary("add", Unary("round", scaled), Const(zero, DType.F32)) if zero == int(zero):
            pass
        case Unary("round", scaled):
            zero = 0
        case _:
            return None
    match scaled:
        case Binary("mul", Cast(DType.F32, sum), factor) if sum == _SUM:
            scales = _values(factor, output)
        case _:
            return None
    if scales is None or scales.dtype != np.float32 or not np.isfinite(scales).all():
        return None
    zeros = np.array([zero], np.int32)
    return Scaling("scale_f32", {"scales": scales, "zero": zeros})


def _by_multipliers(inner: Expr, output: IntegerOutput) -> Scaling | None:
    found = fixed_point(inner)
    if found is None or found.sum != _SUM:
        return None
    parts = (found.multiplier, found.left, found.right)
    multiplier, left, right = (_values(each, output) for each in parts)
    if multiplier is None or left is None or right is None or left.any():
        return None
    wide = np.int64
    made = _with_terms(multiplier.astype(wide), right.astype(wide), found.zero, _ends(output))
    if made is None or output.found.task.optimize != "size":
        return made
    # What is right for all zero points is one loop for all layers.
    return replace(made, sizes=(made.sizes[0], 1))


def _with_terms(
    multiplier: np.ndarray, right: np.ndarray, zero: int, ends: tuple[np.ndarray, np.ndarray]
) -> Scaling | None:
    """Factors for sums between ends in each channel, if they are exact for them."""
    limits = DType.I8.limits
    first, last = (np.clip(_scaled(end, multiplier, right) + zero, *limits) for end in ends)
    most = np.maximum(*map(np.abs, ends))
    constant = (first == last) & (most < 1 << 31)
    exact = (right >= 1) & (right <= LARGEST_SHIFT) & (most < LARGEST_SUM)
    if not (constant | exact).all() or not limits[0] <= zero <= limits[1]:
        return None
    shift = np.where(constant, _CONSTANT_SHIFT, right)
    term = (np.where(constant, first, zero) << shift) + (np.int64(1) << (shift - 1))
    factors = np.stack([np.where(constant, 0, multiplier), term, shift], axis=1)
    # Below a zero point that nothing goes below, it does not matter how halves are rounded.
    below = int(zero > limits[0])
    arrays = {"factors": factors.astype(np.int32)}
    return Scaling("scale_i32", arrays, (2, below), constant if constant.any() else None)


def _scaled(sums: np.ndarray, multiplier: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Sums requantized, without a zero point; never less for a larger sum."""
    high = (sums * multiplier + (1 << 30)) >> 31
    half = (np.int64(1) << right) >> 1
    return (high + half - np.minimum(half, high < 0)) >> right


def _ends(output: IntegerOutput) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest sum of each channel."""
    found = output.found
    weights = found.weights.astype(np.int64)
    sides = [weights * end for end in interval(found.activation)]
    bias = found.bias.astype(np.int64)
    return np.minimum(*sides).sum(1) + bias, np.maximum(*sides).sum(1) + bias


def _values(expr: Expr, output: IntegerOutput) -> np.ndarray | None:
    """What an expression of constants is in each channel."""
    match expr:
        case Const(value, dtype):
            return np.full(output.found.channel.extent, value, dtype.numpy)
        case Load(name) if name in output.arrays:
            return output.arrays[name]
        case Cast(dtype, x):
            inner = _values(x, output)
            return None if inner is None else inner.astype(dtype.numpy)
        case Unary("neg", x):
            inner = _values(x, output)
            return None if inner is None else -inner
        case Binary("max", lhs, rhs):
            left, right = _values(lhs, output), _values(rhs, output)
            return None if left is None or right is None else np.maximum(left, right)
        case _:
            return None
