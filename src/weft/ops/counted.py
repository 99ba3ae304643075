"""Ops whose number of results depends on the data: non-zero and unique.

A net has static shapes: how many results there is room for must be said (``count``).
Results beyond it are dropped; where there are fewer, -1 stands in all indices.  On data
that are known, ``count`` may be left out and ``reference`` gives as many as there are.
"""

from __future__ import annotations

from math import prod

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.shapes import row_major
from weft.ops.cast import CastAttributes
from weft.ops.ctext import C_TYPES, block, body_text, count
from weft.ops.indexing import GatherAttributes
from weft.ops.record import Builder, Call, Expand, Extern, ExternBody, NoGrad, Op, Param
from weft.ops.shape import ReshapeAttributes
from weft.ops.slicing import SplitAttributes
from weft.ops.support import axis_of, concrete, known
from weft.records import dataclass

PLACES = NoGrad("places are integers")


@dataclass(frozen=True, slots=True)
class NonZeroAttributes(Attributes):
    """Room for ``count`` elements."""

    count: int | None = None


@dataclass(frozen=True, slots=True)
class UniqueAttributes(Attributes):
    """Along ``axis`` or of all elements, ``sorted`` or as met; room for ``count`` of them."""

    axis: int | None = None
    sorted: int = 1
    count: int | None = None


def room_of(call: Call) -> int:
    """How many results there is room for."""
    found = call.attributes.count
    if found is None:
        raise unknown_count(call)
    if found < 0:
        raise call.error("count must be 0 or more", got=str(found))
    return found


def unknown_count(call: Call) -> UserError:
    """The error for data-dependent counts without room."""
    return call.error(
        "how many results there are depends on the data",
        fix="Give the room for them with the attribute count, or make the inputs constant",
    )


def filled(found: np.ndarray, room: int | None, value: int = -1) -> np.ndarray:
    """The first results along axis 0, ``value`` where there are fewer than there is room."""
    if room is None:
        return found
    y = np.full((room, *found.shape[1:]), value, found.dtype)
    y[: len(found)] = found[:room]
    return y


# --- non-zero -----------------------------------------------------------------------------


def _infer_non_zero(call: Call) -> tuple[TensorType, ...]:
    if call.type(0).dtype not in C_TYPES:
        raise call.error("the input must be f32, f64, integers or bool", fix="Cast it to f32")
    return (TensorType(DType.I64, (len(concrete(call, 0)), room_of(call))),)


def _non_zero_body(call: Call) -> ExternBody:
    dims, room = concrete(call, 0), room_of(call)
    digits = "".join(
        f"out0[{axis * room} + at] = j / {step} % {extent};\n"
        for axis, (step, extent) in enumerate(zip(row_major(dims), dims, strict=True))
    )
    found = f"if (in0[j] != 0 && at < {room}) {{\n{block(digits)}    ++at;\n}}\n"
    rest = "".join(f"out0[{axis * room} + at] = -1;\n" for axis in range(len(dims)))
    return ExternBody(
        "long j, at = 0;\n"
        + count("j", prod(dims), found)
        + f"for (; at < {room}; ++at) {{\n{block(rest)}}}\n"
    )


def _reference_non_zero(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    found = np.stack(np.nonzero(np.atleast_1d(x)), 1).astype(np.int64)[:, : x.ndim]
    return (filled(found, call.attributes.count).T,)


# --- unique -------------------------------------------------------------------------------


def _rows(call: Call) -> tuple[int, int, int]:
    """What is compared: how many rows there are, how many parts before and after the axis."""
    dims, axis = concrete(call, 0), call.attributes.axis
    if axis is None:
        return prod(dims), 1, 1
    axis = axis_of(call, axis, len(dims))
    return dims[axis], prod(dims[:axis]), prod(dims[axis + 1 :])


def _infer_unique(call: Call) -> tuple[TensorType, ...]:
    source, room = call.type(0), room_of(call)
    dims = concrete(call, 0)
    if prod(dims) == 0:
        raise call.error("the input must have elements")
    shape: tuple[int, ...] = (room,)
    if call.attributes.axis is not None:
        axis = axis_of(call, call.attributes.axis, len(dims))
        shape = (*dims[:axis], room, *dims[axis + 1 :])
    rows = _rows(call)[0]
    return (
        TensorType(source.dtype, shape),
        TensorType(DType.I64, (room,)),
        TensorType(DType.I64, (rows,)),
        TensorType(DType.I64, (room,)),
    )


def _infer_groups(call: Call) -> tuple[TensorType, ...]:
    if call.type(0).dtype not in C_TYPES:
        raise call.error("the input must be f32, f64, integers or bool", fix="Cast it to f32")
    indices = _infer_unique(call)[1]
    return (TensorType(DType.I64, (2 * known(call, indices.shape[0]) + _rows(call)[0],)),)


def _groups_body(call: Call) -> ExternBody:
    rows, outer, inner = _rows(call)
    sizes = {"rows": rows, "outer": outer, "inner": inner, "room": room_of(call)}
    text = body_text("counted", "groups", **sizes, sorted=bool(call.attributes.sorted))
    return ExternBody(text, 12 * rows)


def _expand_unique(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    rows, room, x = _rows(call)[0], room_of(call), inputs[0]
    axis: int | None = call.attributes.axis
    compared = x
    if call.type(0).dtype not in C_TYPES:
        compared = build.op("Cast", x, attributes=CastAttributes(DType.F32))
    packed = build.op("UniqueGroups", compared, attributes=call.attributes)
    lengths = SplitAttributes(0, (room, rows, room))
    indices, inverse, counts = build.nodes_of("Split", (packed,), lengths, outputs=3)
    if axis is None:
        x = build.op("Reshape", x, attributes=ReshapeAttributes((rows,)))
    y = build.op("Gather", x, indices, attributes=GatherAttributes(axis or 0))
    return y, indices, inverse, counts


def _grouped(call: Call, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First places, group of each row, sizes of the groups."""
    axis: int | None = call.attributes.axis
    rows = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0)
    _, first, inverse, sizes = np.unique(
        rows, return_index=True, return_inverse=True, return_counts=True, axis=0
    )
    if not call.attributes.sorted:
        order = np.argsort(first)
        first, sizes = first[order], sizes[order]
        inverse = np.argsort(order)[inverse]
    room = call.attributes.count
    first, sizes = filled(first, room), filled(sizes, room)
    return first.astype(np.int64), inverse.reshape(-1).astype(np.int64), sizes.astype(np.int64)


def _reference_groups(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.concatenate(_grouped(call, x)),)


def _reference_unique(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    first, inverse, sizes = _grouped(call, x)
    axis: int | None = call.attributes.axis
    source = x.reshape(-1) if axis is None else x
    return np.take(source, first, axis or 0, mode="wrap"), first, inverse, sizes


OPS: tuple[Op, ...] = (
    Op(
        name="NonZero",
        infer=_infer_non_zero,
        reference=_reference_non_zero,
        compute=Extern(_non_zero_body),
        grad=PLACES,
        attributes=NonZeroAttributes,
        doc="Where the elements are that are not 0, a column for each.",
    ),
    Op(
        name="Unique",
        outputs=(Param("y"), Param("indices"), Param("inverse_indices"), Param("counts")),
        infer=_infer_unique,
        reference=_reference_unique,
        compute=Expand(_expand_unique),
        grad=PLACES,
        attributes=UniqueAttributes,
        doc="Distinct elements, or slices along an axis, with their first places and counts.",
    ),
    Op(
        name="UniqueGroups",
        infer=_infer_groups,
        reference=_reference_groups,
        compute=Extern(_groups_body),
        grad=PLACES,
        attributes=UniqueAttributes,
        doc="What Unique finds: first places, the group of each row, counts, one after another.",
    ),
)
