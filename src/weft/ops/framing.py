"""Windows along an axis."""

from __future__ import annotations

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.expr import add, mul
from weft.ops.record import Call, Define, Op
from weft.ops.support import axis_of, each_point, known
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class FramesAttributes(Attributes):
    """Windows of ``length`` elements, one every ``step``, along ``axis``."""

    length: int
    step: int
    axis: int = -1


def _infer(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    asked: FramesAttributes = call.attributes
    axis = axis_of(call, asked.axis, len(source.shape))
    extent = known(call, source.shape[axis])
    if asked.step < 1 or not 0 <= asked.length <= extent:
        raise call.error(
            f"step must be at least 1, and length within [0, {extent}]",
            got=f"{asked.step} and {asked.length}",
        )
    count = (extent - asked.length) // asked.step + 1
    shape = (*source.shape[:axis], count, *source.shape[axis + 1 :], asked.length)
    return (TensorType(source.dtype, shape),)


def _define(call: Call) -> tuple[Compute, ...]:
    asked: FramesAttributes = call.attributes
    axis = axis_of(call, asked.axis, len(call.type(0).shape))

    def value(point: tuple[Expr, ...]) -> Expr:
        *outer, within = point
        outer[axis] = add(mul(outer[axis], asked.step), within)
        return call.load(0, *outer)

    return each_point(_infer(call)[0].dims, value)


def _reference(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    asked: FramesAttributes = call.attributes
    axis = asked.axis % x.ndim
    count = (x.shape[axis] - asked.length) // asked.step + 1
    places = np.arange(count)[:, None] * asked.step + np.arange(asked.length)
    return (np.moveaxis(np.take(x, places, axis), axis + 1, -1),)


OPS: tuple[Op, ...] = (
    Op(
        name="Frames",
        infer=_infer,
        reference=_reference,
        compute=Define(_define),
        attributes=FramesAttributes,
        doc="Windows along an axis, as a new last axis; they may overlap.",
    ),
)
