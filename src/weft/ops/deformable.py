"""Deformable convolution."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.ops.accumulate import accumulator, narrowed, widened
from weft.ops.expr import add, axes, binary, cast, index, mul, total, variables
from weft.ops.record import Call, Define, Op, Param
from weft.ops.sampling import bounded, interpolated
from weft.ops.shape import linear_index
from weft.ops.support import each_point, known
from weft.ops.window import implied_window
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class DeformConvAttributes(Attributes):
    """As a convolution's; ``offset_group``: how many sets of offsets the channels share."""

    kernel: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None
    groups: int = 1
    offset_group: int = 1


@dataclass(frozen=True, slots=True)
class _Geometry:
    """The window with all defaults filled in, and the sizes that follow."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    extents: tuple[int, ...]
    target: tuple[int, ...]


def _geometry(call: Call) -> _Geometry:
    x, w = call.type(0), call.type(1)
    asked: DeformConvAttributes = call.attributes
    rank = len(x.shape) - 2
    if rank < 1 or len(w.shape) != rank + 2:
        raise call.error("input and weight must have one rank of 3 or more")
    kernel = asked.kernel or tuple(known(call, dim) for dim in w.shape[2:])
    strides = asked.strides or (1,) * rank
    pads = asked.pads or (0,) * (2 * rank)
    dilations = asked.dilations or (1,) * rank
    if (len(strides), len(dilations), len(pads)) != (rank, rank, 2 * rank) or w.shape[2:] != kernel:
        raise call.error(
            "kernel, strides, dilations and pads must fit the spatial axes and the weight",
            got=f"{x}, {w}, kernel {list(kernel)}",
        )
    if min((*strides, *dilations)) < 1:
        raise call.error("strides and dilations must be at least 1", got=f"{strides}, {dilations}")
    extents = tuple(known(call, dim) for dim in x.shape[2:])
    target = tuple(
        (extent + pads[axis] + pads[axis + rank] - dilations[axis] * (kernel[axis] - 1) - 1)
        // strides[axis]
        + 1
        for axis, extent in enumerate(extents)
    )
    if min((*target, *extents)) < 1:
        raise call.error("the window must fit into the padded input")
    return _Geometry(kernel, strides, pads, dilations, extents, target)


def _infer(call: Call) -> tuple[TensorType, ...]:
    x, w, offset = call.type(0), call.type(1), call.type(2)
    asked: DeformConvAttributes = call.attributes
    found = _geometry(call)
    channels, filters = known(call, x.shape[1]), known(call, w.shape[0])
    whole = asked.groups > 0 and filters % asked.groups == 0
    if not whole or channels != asked.groups * known(call, w.shape[1]):
        raise call.error(f"input and weight must have channels for {asked.groups} groups")
    if asked.offset_group < 1 or channels % asked.offset_group:
        raise call.error(f"offset_group must divide {channels} channels")
    taps = asked.offset_group * prod(found.kernel)
    if offset.shape != (x.shape[0], taps * len(found.kernel), *found.target):
        shape = [taps * len(found.kernel), *found.target]
        raise call.error(f"offset must have the shape {shape} after the batch")
    if call.has(3) and call.type(3).shape != (filters,):
        raise call.error(f"the bias must have {filters} elements")
    if call.has(4) and call.type(4).shape != (x.shape[0], taps, *found.target):
        raise call.error(f"mask must have the shape {[taps, *found.target]} after the batch")
    dtypes = {each.dtype for each in call.inputs if each is not None}
    if len(dtypes) != 1 or not x.dtype.is_float:
        raise call.error("the inputs must be of one floating-point type")
    return (TensorType(x.dtype, (x.shape[0], filters, *found.target)),)


def _define(call: Call) -> tuple[Compute, ...]:
    found = _geometry(call)
    asked: DeformConvAttributes = call.attributes
    dtype = call.type(0).dtype
    filters, channels = call.type(1).dims[:2]
    per_offset = call.type(0).dims[1] // asked.offset_group
    taps = axes(found.kernel, "k")
    rank = len(found.kernel)

    def value(point: tuple[Expr, ...]) -> Expr:
        batch, target = point[0], point[2:]
        group: Expr = index(0)
        if asked.groups > 1:
            group = binary("floordiv", point[1], filters // asked.groups)
        channel = add(mul(group, channels), Var("c"))
        shared = index(0)
        if asked.offset_group > 1:
            shared = binary("floordiv", channel, per_offset)
        tap = add(mul(shared, prod(found.kernel)), linear_index(found.kernel, variables(taps)))
        coordinates: list[Expr] = []
        for axis, at in enumerate(variables(taps)):
            place = add(
                add(mul(target[axis], found.strides[axis]), mul(at, found.dilations[axis])),
                -found.pads[axis],
            )
            moved = widened(call.load(2, batch, add(mul(tap, rank), axis), *target), dtype)
            regular = cast(accumulator(dtype), place)
            coordinates.append(bounded(binary("add", regular, moved)))
        x = interpolated(
            coordinates,
            found.extents,
            "linear",
            lambda where: widened(call.load(0, batch, channel, *where), dtype),
        )
        w = call.load(1, point[1], Var("c"), *variables(taps))
        term = binary("mul", x, widened(w, dtype))
        if call.has(4):
            term = binary("mul", term, widened(call.load(4, batch, tap, *target), dtype))
        y = total("sum", (Axis("c", channels), *taps), term)
        if call.has(3):
            y = binary("add", y, widened(call.load(3, point[1]), dtype))
        return narrowed(y, dtype)

    return each_point(_infer(call)[0].dims, value)


def _reference(
    call: Call,
    x: np.ndarray,
    w: np.ndarray,
    offset: np.ndarray,
    b: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    found = _geometry(call)
    asked: DeformConvAttributes = call.attributes
    per_offset = x.shape[1] // asked.offset_group
    filters = len(w) // asked.groups
    y = np.zeros((len(x), len(w), *found.target))
    for channel in range(x.shape[1]):
        group, inner = divmod(channel, w.shape[1])
        chosen = slice(group * filters, (group + 1) * filters)
        for number, at in enumerate(np.ndindex(*found.kernel)):
            tap = channel // per_offset * prod(found.kernel) + number
            sampled = _sampled(x[:, channel], found, at, offset, tap)
            if mask is not None:
                sampled = sampled * mask[:, tap]
            weighted = np.multiply.outer(sampled, w[(chosen, inner, *at)])
            y[:, chosen] += np.moveaxis(weighted, -1, 1)
    if b is not None:
        y += b.reshape(-1, *(1,) * len(found.target))
    return (y.astype(x.dtype),)


def _sampled(
    x: np.ndarray, found: _Geometry, at: tuple[int, ...], offset: np.ndarray, tap: int
) -> np.ndarray:
    """One channel, read by linear interpolation where one tap of every window lies."""
    rank = len(at)
    grid = np.indices(found.target)
    where = [
        grid[axis] * found.strides[axis]
        + at[axis] * found.dilations[axis]
        - found.pads[axis]
        + offset[:, tap * rank + axis].astype(np.float64)
        for axis in range(rank)
    ]
    batch = np.arange(len(x)).reshape(-1, *(1,) * rank)
    y = np.zeros(where[0].shape)
    for corner in np.ndindex(*(2,) * rank):
        value = np.ones_like(y)
        places: list[np.ndarray] = []
        for axis, extent in enumerate(found.extents):
            place = np.floor(where[axis]) + corner[axis]
            value *= (1 - np.abs(where[axis] - place)) * ((place >= 0) & (place < extent))
            places.append(np.clip(place, 0, extent - 1).astype(np.int64))
        y += value * x[(batch, *places)]
    return y


OPS: tuple[Op, ...] = (
    Op(
        name="DeformConv",
        inputs=(
            Param("x", role="image"),
            Param("w", role="filter"),
            Param("offset"),
            Param("b", optional=True, role="bias"),
            Param("mask", optional=True),
        ),
        infer=_infer,
        reference=_reference,
        compute=Define(_define),
        attributes=DeformConvAttributes,
        implied=implied_window(weight=1),
        doc="Convolution whose taps are moved by offsets and weighted by a mask.",
    ),
)
