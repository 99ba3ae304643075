"""Reading at computed places: gather, one-hot, writing into a cache."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.expr import add, binary, cast, clamp, index, inside, select
from weft.ops.record import Call, Define, NoGrad, Op, Param
from weft.ops.support import (
    axis_of,
    each_point,
    integer,
    known,
    leading,
    wrapped,
)
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class GatherAttributes(Attributes):
    """``axis`` of the data that the indices count."""

    axis: int = 0


@dataclass(frozen=True, slots=True)
class GatherNDAttributes(Attributes):
    """``batch_dims``: leading dimensions that data and indices share."""

    batch_dims: int = 0


@dataclass(frozen=True, slots=True)
class OneHotAttributes(Attributes):
    """``depth`` of the new ``axis``."""

    depth: int
    axis: int = -1


@dataclass(frozen=True, slots=True)
class TensorScatterAttributes(Attributes):
    """The sequence ``axis``; ``mode`` ``circular`` wraps around at the end of the cache."""

    axis: int = -2
    mode: str = "linear"


# --- gather -------------------------------------------------------------------------------


def _infer_gather(call: Call) -> tuple[TensorType, ...]:
    data, indices = call.type(0), integer(call, 1)
    axis = axis_of(call, call.attributes.axis, len(data.shape))
    known(call, data.shape[axis])
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    return (TensorType(data.dtype, leading(call, shape)),)


def _define_gather(call: Call) -> tuple[Compute, ...]:
    dims, rank = call.type(0).dims, len(call.type(1).shape)
    axis = axis_of(call, call.attributes.axis, len(dims))

    def value(point: tuple[Expr, ...]) -> Expr:
        place = wrapped(call.load(1, *point[axis : axis + rank]), dims[axis])
        return call.load(0, *point[:axis], place, *point[axis + rank :])

    return each_point(_infer_gather(call)[0].dims, value)


def _reference_gather(call: Call, data: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.take(data, indices, call.attributes.axis),)


def _infer_gather_elements(call: Call) -> tuple[TensorType, ...]:
    data, indices = call.type(0), integer(call, 1)
    rank = len(data.shape)
    axis = axis_of(call, call.attributes.axis, rank)
    known(call, data.shape[axis])
    if len(indices.shape) != rank:
        raise call.error("data and indices must have one rank")
    for place, (have, want) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if place == axis or have == want:
            continue
        if known(call, want) > known(call, have):
            raise call.error(f"indices must not be longer than data along axis {place}")
    return (TensorType(data.dtype, indices.shape),)


def _define_gather_elements(call: Call) -> tuple[Compute, ...]:
    dims = call.type(0).dims
    axis = axis_of(call, call.attributes.axis, len(dims))

    def value(point: tuple[Expr, ...]) -> Expr:
        place = wrapped(call.load(1, *point), dims[axis])
        return call.load(0, *point[:axis], place, *point[axis + 1 :])

    return each_point(call.type(1).dims, value)


def _reference_gather_elements(
    call: Call, data: np.ndarray, indices: np.ndarray
) -> tuple[np.ndarray, ...]:
    axis = call.attributes.axis % data.ndim
    where = list(np.indices(indices.shape))
    where[axis] = indices
    return (data[tuple(where)],)


def _infer_gather_nd(call: Call) -> tuple[TensorType, ...]:
    data, indices = call.type(0), integer(call, 1)
    batch = call.attributes.batch_dims
    if not indices.shape or not 0 <= batch < min(len(data.shape), len(indices.shape)):
        raise call.error(
            "batch_dims must be 0 or more and less than the ranks of data and indices",
            got=f"{data}, {indices}, batch_dims {batch}",
        )
    if data.shape[:batch] != indices.shape[:batch]:
        raise call.error(f"data and indices must agree in the first {batch} dimensions")
    depth = known(call, indices.shape[-1])
    if not 1 <= depth <= len(data.shape) - batch:
        raise call.error(
            f"the last dimension of indices must be within [1, {len(data.shape) - batch}]"
        )
    for dim in data.shape[batch : batch + depth]:
        known(call, dim)
    shape = (*indices.shape[:-1], *data.shape[batch + depth :])
    return (TensorType(data.dtype, leading(call, shape)),)


def _define_gather_nd(call: Call) -> tuple[Compute, ...]:
    dims, indices = call.type(0).dims, call.type(1).dims
    batch: int = call.attributes.batch_dims
    rank, depth = len(indices) - 1, indices[-1]

    def value(point: tuple[Expr, ...]) -> Expr:
        row = point[:rank]
        places = [
            wrapped(call.load(1, *row, index(part)), dims[batch + part]) for part in range(depth)
        ]
        return call.load(0, *point[:batch], *places, *point[rank:])

    return each_point(_infer_gather_nd(call)[0].dims, value)


def _reference_gather_nd(
    call: Call, data: np.ndarray, indices: np.ndarray
) -> tuple[np.ndarray, ...]:
    batch = call.attributes.batch_dims
    where: list[np.ndarray] = [*np.indices(indices.shape[:-1])[:batch]]
    where += list(np.moveaxis(indices, -1, 0))
    return (data[tuple(where)],)


# --- one-hot ------------------------------------------------------------------------------


def _infer_one_hot(call: Call) -> tuple[TensorType, ...]:
    indices, values = call.type(0), call.type(1)
    depth = call.attributes.depth
    if depth < 1:
        raise call.error("depth must be at least 1", got=str(depth))
    if values.shape != (2,):
        raise call.error("values must be two elements, off and on")
    axis = axis_of(call, call.attributes.axis, len(indices.shape) + 1)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    return (TensorType(values.dtype, leading(call, shape)),)


def _define_one_hot(call: Call) -> tuple[Compute, ...]:
    depth = call.attributes.depth
    axis = axis_of(call, call.attributes.axis, len(call.type(0).shape) + 1)

    def value(point: tuple[Expr, ...]) -> Expr:
        found = cast(DType.I64, call.load(0, *point[:axis], *point[axis + 1 :]))
        counted = select(binary("lt", found, 0), add(found, depth), found)
        hit = binary("eq", counted, point[axis])
        return select(hit, call.load(1, index(1)), call.load(1, index(0)))

    return each_point(_infer_one_hot(call)[0].dims, value)


def _reference_one_hot(
    call: Call, indices: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, ...]:
    asked: OneHotAttributes = call.attributes
    axis, depth = asked.axis, asked.depth
    found = np.expand_dims(indices.astype(np.int64), axis)
    shape = [1] * found.ndim
    shape[axis] = depth
    place: np.ndarray = np.arange(depth).reshape(shape)
    hit = (found == place) | (found + depth == place)
    y: np.ndarray = values[hit.astype(np.int64)]
    return (y,)


# --- writing into a cache -----------------------------------------------------------------


def _infer_tensor_scatter(call: Call) -> tuple[TensorType, ...]:
    cache, update = call.type(0), call.type(1)
    axis = axis_of(call, call.attributes.axis, len(cache.shape))
    if call.attributes.mode not in ("linear", "circular"):
        raise call.error("mode must be linear or circular", got=repr(call.attributes.mode))
    if axis == 0:
        raise call.error("axis must not be the batch", got="0")
    rest = (*update.shape[:axis], *update.shape[axis + 1 :])
    if update.dtype != cache.dtype or rest != (*cache.shape[:axis], *cache.shape[axis + 1 :]):
        raise call.error(f"cache and update must agree in all but axis {axis}")
    if known(call, update.shape[axis]) > known(call, cache.shape[axis]):
        raise call.error("the update must not be longer than the cache")
    if call.has(2) and integer(call, 2).shape != cache.shape[:1]:
        raise call.error("write_indices must name a place for each entry of the batch")
    return (cache,)


def _define_tensor_scatter(call: Call) -> tuple[Compute, ...]:
    dims = call.type(0).dims
    axis = axis_of(call, call.attributes.axis, len(dims))
    length = call.type(1).dims[axis]

    def value(point: tuple[Expr, ...]) -> Expr:
        first = cast(DType.I64, call.load(2, point[0])) if call.has(2) else index(0)
        place = binary("sub", point[axis], first)
        if call.attributes.mode == "circular":
            place = binary("mod", place, dims[axis])
        held = clamp(place, 0, length - 1)
        new = call.load(1, *point[:axis], held, *point[axis + 1 :])
        return select(inside(place, length), new, call.load(0, *point))

    return each_point(dims, value)


def _reference_tensor_scatter(
    call: Call, cache: np.ndarray, update: np.ndarray, first: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    axis = call.attributes.axis % cache.ndim
    y = np.moveaxis(cache, axis, 1).copy()
    new = np.moveaxis(update, axis, 1)
    for entry in range(len(y)):
        for step in range(new.shape[1]):
            place = step + (0 if first is None else int(first[entry]))
            if call.attributes.mode == "circular":
                place %= y.shape[1]
            if 0 <= place < y.shape[1]:
                y[entry, place] = new[entry, step]
    return (np.moveaxis(y, 1, axis),)


OPS: tuple[Op, ...] = (
    Op(
        name="Gather",
        inputs=(Param("data"), Param("indices")),
        infer=_infer_gather,
        reference=_reference_gather,
        compute=Define(_define_gather),
        attributes=GatherAttributes,
        doc="The entries of an axis that the indices name.",
    ),
    Op(
        name="GatherElements",
        inputs=(Param("data"), Param("indices")),
        infer=_infer_gather_elements,
        reference=_reference_gather_elements,
        compute=Define(_define_gather_elements),
        attributes=GatherAttributes,
        doc="An element for each index, which replaces the place along one axis.",
    ),
    Op(
        name="GatherND",
        inputs=(Param("data"), Param("indices")),
        infer=_infer_gather_nd,
        reference=_reference_gather_nd,
        compute=Define(_define_gather_nd),
        attributes=GatherNDAttributes,
        doc="The slices of data at the places that the rows of indices name.",
    ),
    Op(
        name="OneHot",
        inputs=(Param("indices"), Param("values")),
        infer=_infer_one_hot,
        reference=_reference_one_hot,
        compute=Define(_define_one_hot),
        grad=NoGrad("the indices are integers"),
        attributes=OneHotAttributes,
        doc="values[1] at the index along a new axis, values[0] elsewhere.",
    ),
    Op(
        name="TensorScatter",
        inputs=(Param("past_cache"), Param("update"), Param("write_indices", optional=True)),
        outputs=(Param("present_cache"),),
        infer=_infer_tensor_scatter,
        reference=_reference_tensor_scatter,
        compute=Define(_define_tensor_scatter),
        attributes=TensorScatterAttributes,
        doc="A cache with an update written at a place of its own for each batch entry.",
    ),
)
