"""Softmax and its logarithm, computed in ``f32`` for half types."""

from __future__ import annotations

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.accumulate import exact, floating
from weft.ops.record import Builder, Call, Expand, Op
from weft.ops.steps import Steps
from weft.ops.support import axis_of, known
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class SoftmaxAttributes(Attributes):
    """Of ``Softmax`` and ``LogSoftmax``."""

    axis: int = -1


def _infer_softmax(call: Call) -> tuple[TensorType, ...]:
    x = floating(call)
    known(call, x.shape[axis_of(call, call.attributes.axis, len(x.shape))])
    return (x,)


def softmax(steps: Steps, x: str, axis: int, *, logarithm: bool = False) -> str:
    """Softmax of a value that is in the type to compute in."""
    shifted = steps.sub(x, steps.reduce("ReduceMax", x, (axis,)))
    powers = steps.op("Exp", shifted)
    total = steps.reduce("ReduceSum", powers, (axis,))
    return steps.sub(shifted, steps.op("Log", total)) if logarithm else steps.div(powers, total)


def _expand_softmax(logarithm: bool) -> Expand:
    def function(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
        steps = Steps(builder)
        axis = axis_of(call, call.attributes.axis, len(call.type(0).shape))
        found = softmax(steps, steps.wide(inputs[0]), axis, logarithm=logarithm)
        return (steps.cast(found, call.type(0).dtype),)

    return Expand(function)


def _reference_softmax(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    axis = call.attributes.axis
    wide = exact(x)
    powers = np.exp(wide - wide.max(axis=axis, keepdims=True, initial=-np.inf))
    return ((powers / powers.sum(axis=axis, keepdims=True)).astype(x.dtype),)


def _reference_log_softmax(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    axis = call.attributes.axis
    wide = exact(x)
    shifted = wide - wide.max(axis=axis, keepdims=True, initial=-np.inf)
    return ((shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(x.dtype),)


OPS: tuple[Op, ...] = (
    Op(
        name="Softmax",
        infer=_infer_softmax,
        reference=_reference_softmax,
        compute=_expand_softmax(False),
        attributes=SoftmaxAttributes,
        doc="Exponentials divided by their sum along an axis.",
    ),
    Op(
        name="LogSoftmax",
        infer=_infer_softmax,
        reference=_reference_log_softmax,
        compute=_expand_softmax(True),
        attributes=SoftmaxAttributes,
        doc="The logarithm of softmax along an axis.",
    ),
)
