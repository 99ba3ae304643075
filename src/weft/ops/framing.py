"""Windows along an axis, and what overlapping ones add up to."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.expr import add, mul
from weft.ops.indexing import GatherAttributes
from weft.ops.ordering import TransposeAttributes
from weft.ops.padding import PadAttributes
from weft.ops.record import Builder, Call, Define, Expand, Op
from weft.ops.scatter import Col2ImAttributes
from weft.ops.shape import ReshapeAttributes
from weft.ops.slicing import SliceAttributes
from weft.ops.support import axis_of, each_point, known
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class FramesAttributes(Attributes):
    """Windows of ``length`` elements, one every ``step``, along ``axis``."""

    length: int
    step: int
    axis: int = -1


@dataclass(frozen=True, slots=True)
class OverlapAttributes(Attributes):
    """A window begins ``step`` elements behind the one before."""

    step: int


# --- windows --------------------------------------------------------------------------------


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


def _gathered(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    """The same by a table of places."""
    asked: FramesAttributes = call.attributes
    rank = len(call.type(0).shape)
    axis = axis_of(call, asked.axis, rank)
    starts = np.arange(_infer(call)[0].dims[axis])[:, None] * asked.step
    places = build.constant((starts + np.arange(asked.length)).astype(np.int64), "places")
    made = build.op("Gather", inputs[0], places, attributes=GatherAttributes(axis))
    perm = (*(each for each in range(rank + 1) if each != axis + 1), axis + 1)
    return (build.op("Transpose", made, attributes=TransposeAttributes(perm)),)


def _reference(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    asked: FramesAttributes = call.attributes
    axis = asked.axis % x.ndim
    extent: int = x.shape[axis]
    count = (extent - asked.length) // asked.step + 1
    starts = np.arange(count)[:, None] * asked.step
    places = starts + np.arange(asked.length)
    return (np.moveaxis(np.take(x, places, axis), axis + 1, -1),)


# --- sums of windows ------------------------------------------------------------------------

_MOST_TERMS = 16
"""So many windows over one element are added by one kernel."""


def _infer_added(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    step: int = call.attributes.step
    if len(source.shape) < 2 or step < 1:
        raise call.error(
            "windows must be the last two axes, and step at least 1", got=f"{source} and {step}"
        )
    count, length = (known(call, size) for size in source.shape[-2:])
    whole = (count - 1) * step + length if count else 0
    return (TensorType(source.dtype, (*source.shape[:-2], whole)),)


def _expand_added(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    """Windows are cut where the next ones begin: then parts lie one above the other."""
    *outer, count, length = call.type(0).dims
    step: int = call.attributes.step
    rows, terms = prod(outer), -(-length // step)
    whole = _infer_added(call)[0].dims[-1]

    def reshaped(x: str, *shape: int) -> str:
        return build.op("Reshape", x, attributes=ReshapeAttributes(shape, allowzero=1))

    x = reshaped(inputs[0], rows, count, length)
    if not count or terms > _MOST_TERMS:
        turned = build.op("Transpose", x, attributes=TransposeAttributes((0, 2, 1)))
        blocks = Col2ImAttributes((1, whole), (1, length), strides=(1, step))
        return (reshaped(build.op("Col2Im", turned, attributes=blocks), *outer, whole),)
    x = build.op("Pad", x, attributes=PadAttributes((0, 0, 0, 0, 0, terms * step - length)))
    x = reshaped(x, rows, count, terms, step)
    made = ""
    for term in range(terms):
        part = build.op("Slice", x, attributes=SliceAttributes((term,), (term + 1,), (2,)))
        pads = PadAttributes((0, term, 0, 0, 0, terms - 1 - term, 0, 0))
        part = build.op("Pad", part, attributes=pads)
        made = build.op("Add", made, part) if made else part
    made = reshaped(made, rows, (count + terms - 1) * step)
    made = build.op("Slice", made, attributes=SliceAttributes((0,), (whole,), (1,)))
    return (reshaped(made, *outer, whole),)


def _reference_added(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    step: int = call.attributes.step
    *outer, count, length = x.shape
    found = np.zeros((*outer, (count - 1) * step + length if count else 0), x.dtype)
    for place in range(count):
        found[..., place * step : place * step + length] += x[..., place, :]
    return (found,)


OPS: tuple[Op, ...] = (
    Op(
        name="Frames",
        infer=_infer,
        reference=_reference,
        compute=Define(_define),
        attributes=FramesAttributes,
        doc="Windows along an axis, as a new last axis; they may overlap.",
    ),
    Op(
        name="OverlapAdd",
        infer=_infer_added,
        reference=_reference_added,
        compute=Expand(_expand_added),
        attributes=OverlapAttributes,
        doc="The sum of windows, which are the last two axes, each where it begins.",
    ),
)
IN_STANDARD_OPS: Mapping[str, Expand] = {
    "Frames": Expand(_gathered),
    "OverlapAdd": Expand(_expand_added),
}
"""What these ops are in files that hold standard ops only."""
