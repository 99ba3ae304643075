"""Sums of products of bytes or 16-bit integers by constant weights, recognised in a task."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.kernels.integer.folding import foldable, folded
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.nodes import Axis, Binary, Cast, Const, Expr, Reduce, Select
from weft.loops.walk import children, dtype_of, free_vars, loads, walk
from weft.records import dataclass

_I32 = DType.I32
BYTES = frozenset({DType.I8, DType.U8})
NARROW = BYTES | {DType.I16}


@dataclass(frozen=True)
class IntegerContraction:
    """A sum of products of an activation by what constants alone decide.

    Attributes:
        task: what is computed.
        reduce: its one reduction.
        activation: the factor that reads what is not constant, borders included.
        channel: the output axis of the weights; positions: the others.
        weights: by channel and the reduction's axes, as one.
        bias: what constants add to the sum, by channel.
        whole: the part of the definition that is the sum with its bias.
    """

    task: Task
    reduce: Reduce
    activation: Expr
    channel: Axis
    positions: tuple[Axis, ...]
    weights: np.ndarray
    bias: np.ndarray
    whole: Expr

    @property
    def sums(self) -> DType:
        """The type of the sums: ``i32``, or ``i64`` for 16-bit integers."""
        return dtype_of(self.reduce)

    @property
    def inside(self) -> Expr:
        """The activation inside the borders."""
        value = self.activation
        while isinstance(value, Select) and value.otherwise == Const(0, _I32):
            value = value.then
        return value

    @property
    def depthwise(self) -> bool:
        """Whether a channel of the output reads one of the input."""
        return self.channel.var in free_vars(self.activation)


def integer_contraction(task: Task) -> IntegerContraction | Refusal:
    """The contraction of bytes that a task is, or why it is none; sums are of ``i32``."""
    return task.fact(_of_bytes)


def narrow_contraction(task: Task) -> IntegerContraction | Refusal:
    """The same of bytes or of 16-bit integers."""
    return task.fact(_of_narrow)


def _of_bytes(task: Task) -> IntegerContraction | Refusal:
    return _recognized(task, BYTES, "what it sums is not made of bytes")


def _of_narrow(task: Task) -> IntegerContraction | Refusal:
    return _recognized(task, NARROW, "what it sums is not made of bytes or i16")


def _recognized(task: Task, types: frozenset[DType], other: str) -> IntegerContraction | Refusal:
    if not any(buffer.dtype in types for buffer in task.inputs):
        return Refusal(other)
    found = {node for node in walk(task.compute.value) if isinstance(node, Reduce)}
    if len(found) != 1:
        return Refusal(f"it has {len(found)} reductions")
    (reduce,) = found
    constants = constants_of(task)
    value = _outside(_product(reduce.value))
    if reduce.op != "sum" or not (isinstance(value, Binary) and value.op == "mul"):
        return Refusal("it is no sum of products")
    sides = (value.lhs, value.rhs) if foldable(value.rhs, constants) else (value.rhs, value.lhs)
    activation, weight = sides
    if any(load.dtype not in types for load in loads(activation)):
        return Refusal(other)
    if not foldable(weight, constants) or foldable(activation, constants):
        return Refusal("neither factor is constant, or both are")
    outs = {axis.var: axis for axis in task.compute.axes}
    channels = free_vars(weight) & outs.keys()
    if len(channels) != 1:
        return Refusal("the weights belong to no output channel")
    channel = outs[next(iter(channels))]
    positions = tuple(axis for axis in task.compute.axes if axis != channel)
    shape = (channel.extent, -1)
    weights = folded(weight, (channel, *reduce.axes), constants).reshape(shape)
    whole, added = _with_bias(task, reduce, channel)
    bias = np.zeros(channel.extent, dtype_of(reduce).numpy) if added is None else added
    return IntegerContraction(task, reduce, activation, channel, positions, weights, bias, whole)


def constants_of(task: Task) -> dict[str, np.ndarray]:
    """The constants as the definition indexes them."""
    shapes = {buffer.name: buffer.shape for buffer in task.inputs}
    return {name: array.reshape(shapes[name]) for name, array in task.arrays.items()}


def _product(value: Expr) -> Expr:
    """What is summed, before it is made wider for the sum."""
    return value.x if isinstance(value, Cast) and dtype_of(value.x) is _I32 else value


def _outside(value: Expr) -> Expr:
    """``select(inside, x * w, 0)`` as ``select(inside, x, 0) * w``."""
    if isinstance(value, Select) and value.otherwise == Const(0, _I32):
        inner = _outside(value.then)
        if isinstance(inner, Binary) and inner.op == "mul":
            lhs = Select(value.condition, inner.lhs, value.otherwise)
            return Binary("mul", lhs, inner.rhs)
    return value


def _with_bias(task: Task, reduce: Reduce, channel: Axis) -> tuple[Expr, np.ndarray | None]:
    """The sum with the constants that are added to it everywhere, if there are any."""
    constants = constants_of(task)
    whole: Expr = reduce
    total: np.ndarray | None = None
    while True:
        match [node for node in walk(task.compute.value) if whole in children(node)]:
            case [Binary("add", lhs, rhs) as outer]:
                other = rhs if lhs == whole else lhs
                if not foldable(other, constants) or not free_vars(other) <= {channel.var}:
                    return whole, total
                added = folded(other, (channel,), constants).astype(dtype_of(reduce).numpy)
                whole, total = outer, added if total is None else total + added
            case _:
                return whole, total
