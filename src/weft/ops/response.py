"""Normalization by neighbours, norms and moments, computed in ``f32`` for half types."""

from __future__ import annotations

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Reduce, Var
from weft.ops.accumulate import accumulator, exact, floating, narrowed, widened
from weft.ops.expr import add, axes, binary, const, inside, select, variables
from weft.ops.record import Builder, Call, Define, Expand, Op
from weft.ops.steps import Steps
from weft.ops.support import axes_of, axis_of, known
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class LRNAttributes(Attributes):
    """Of ``LRN``: ``x / (bias + alpha / size * sum of squares) ** beta``."""

    size: int
    alpha: float = 0.0001
    beta: float = 0.75
    bias: float = 1.0


@dataclass(frozen=True, slots=True)
class LpNormalizationAttributes(Attributes):
    """Of ``LpNormalization``: ``p`` is 1 or 2."""

    axis: int = -1
    p: int = 2


@dataclass(frozen=True, slots=True)
class MeanVarianceNormalizationAttributes(Attributes):
    """Of ``MeanVarianceNormalization``."""

    axes: tuple[int, ...] = (0, 2, 3)


def _infer_lrn(call: Call) -> tuple[TensorType, ...]:
    x = floating(call)
    if len(x.shape) < 2 or call.attributes.size < 1:
        raise call.error("input must be [batch, channels, ...] and size positive")
    return (x,)


def _define_lrn(call: Call) -> tuple[Compute, ...]:
    x, a = call.type(0), call.attributes
    wide = accumulator(x.dtype)
    ranges = axes(x.dims)
    batch, channel, *rest = variables(ranges)
    near = add(add(channel, Var("k")), -((a.size - 1) // 2))
    element = widened(call.load(0, batch, near, *rest), x.dtype)
    square = select(inside(near, x.dims[1]), binary("mul", element, element), const(0, wide))
    total: Expr = Reduce("sum", (Axis("k", a.size),), square)
    scale = binary("add", binary("mul", total, const(a.alpha / a.size, wide)), const(a.bias, wide))
    centre = widened(call.load(0, batch, channel, *rest), x.dtype)
    value = binary("div", centre, binary("pow", scale, const(a.beta, wide)))
    return (Compute(ranges, narrowed(value, x.dtype)),)


def _reference_lrn(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    a, wide = call.attributes, exact(x)
    before = (a.size - 1) // 2
    widths = [(0, 0), (before, a.size - 1 - before), *[(0, 0)] * (x.ndim - 2)]
    squares = np.pad(wide * wide, widths)
    total = sum(squares[:, start : start + x.shape[1]] for start in range(a.size))
    scale = a.bias + a.alpha / a.size * np.asarray(total, wide.dtype)
    return ((wide / scale**a.beta).astype(x.dtype),)


def _infer_lp(call: Call) -> tuple[TensorType, ...]:
    x = floating(call)
    if call.attributes.p not in (1, 2):
        raise call.error("p must be 1 or 2", got=str(call.attributes.p))
    known(call, x.shape[axis_of(call, call.attributes.axis, len(x.shape))])
    return (x,)


def _expand_lp(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    steps = Steps(builder)
    axis = axis_of(call, call.attributes.axis, len(call.type(0).shape))
    x = steps.wide(inputs[0])
    if call.attributes.p == 1:
        norm = steps.reduce("ReduceSum", steps.op("Abs", x), (axis,))
    else:
        norm = steps.op("Sqrt", steps.reduce("ReduceSum", steps.mul(x, x), (axis,)))
    # All elements are zero where the norm is, so any divisor but zero will do.
    one = steps.scalar(1, steps.dtype(x))
    divisor = steps.op("Where", steps.pair("Equal", norm, 0.0), one, norm)
    return (steps.cast(steps.div(x, divisor), call.type(0).dtype),)


def _reference_lp(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    a, wide = call.attributes, exact(x)
    norm: np.ndarray = (
        np.abs(wide).sum(axis=a.axis, keepdims=True)
        if a.p == 1
        else np.sqrt((wide * wide).sum(axis=a.axis, keepdims=True))
    )
    return (np.where(norm == 0, 0, wide / norm).astype(x.dtype),)


def _infer_moments(call: Call) -> tuple[TensorType, ...]:
    x = floating(call)
    for axis in axes_of(call, call.attributes.axes, len(x.shape)):
        known(call, x.shape[axis])
    return (x,)


TINY = 1e-9
"""What ``MeanVarianceNormalization`` adds to the deviation."""


def _expand_moments(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    steps = Steps(builder)
    over = axes_of(call, call.attributes.axes, len(call.type(0).shape))
    x = steps.wide(inputs[0])
    centred = steps.sub(x, steps.reduce("ReduceMean", x, over))
    variance = steps.reduce("ReduceMean", steps.mul(centred, centred), over)
    value = steps.div(centred, steps.add(steps.op("Sqrt", variance), TINY))
    return (steps.cast(value, call.type(0).dtype),)


def _reference_moments(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    over, wide = tuple(call.attributes.axes), exact(x)
    centred = wide - wide.mean(axis=over, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(axis=over, keepdims=True))
    return ((centred / (deviation + wide.dtype.type(TINY))).astype(x.dtype),)


OPS: tuple[Op, ...] = (
    Op(
        name="LRN",
        infer=_infer_lrn,
        reference=_reference_lrn,
        compute=Define(_define_lrn),
        attributes=LRNAttributes,
        doc="Divides by a power of the sum of squares of the neighbouring channels.",
    ),
    Op(
        name="LpNormalization",
        infer=_infer_lp,
        reference=_reference_lp,
        compute=Expand(_expand_lp),
        attributes=LpNormalizationAttributes,
        doc="Divides by the p-norm along an axis; zeros stay zeros.",
    ),
    Op(
        name="MeanVarianceNormalization",
        infer=_infer_moments,
        reference=_reference_moments,
        compute=Expand(_expand_moments),
        attributes=MeanVarianceNormalizationAttributes,
        doc="Zero mean and unit deviation over the axes.",
    ),
)
