"""Elements by their places."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, Kind, litert


@litert("GATHER", kind=Kind.STORED)
def gather(g: Emit, x: Tensor, indices: Tensor, *, axis: int = 0, batch_dims: int = 0) -> Tensor:
    axis = g.axis(x, axis)
    batch = batch_dims + (indices.rank if batch_dims < 0 else 0)
    if not 0 <= batch <= min(axis, indices.rank) or x.shape[:batch] != indices.shape[:batch]:
        g.refuse(f"{batch_dims} batch axes of {x.type} and {indices.type} do not fit")
    if not batch:
        return g("Gather", x, indices, axis=axis)
    between = tuple(range(batch, axis))
    after = tuple(range(axis + 1, x.rank))
    data = g.transpose(x, (*range(batch), axis, *between, *after))
    rows = g.reshape(indices, (*indices.shape, 1))
    found = g("GatherND", data, g.cast(rows, DType.I64), batch_dims=batch)
    # The axes between the batch and the one that is gathered from stand before the indices.
    places = indices.rank - batch
    moved = tuple(batch + places + at for at in range(len(between)))
    rest = range(batch + places + len(between), found.rank)
    return g.transpose(found, (*range(batch), *moved, *range(batch, batch + places), *rest))


@litert("GATHER_ND", kind=Kind.STORED)
def gather_nd(g: Emit, x: Tensor, indices: Tensor) -> Tensor:
    return g("GatherND", x, g.cast(indices, DType.I64))


@litert("SCATTER_ND", kind=Kind.STORED)
def scatter_nd(g: Emit, indices: Tensor, updates: Tensor, shape: Tensor) -> Tensor:
    sizes = g.ints(shape, "the shape")
    if any(each < 0 for each in sizes):
        g.refuse(f"sizes {list(sizes)} must not be negative")
    zeros = g("Expand", g.number(0, updates.dtype), shape=sizes)
    return g("ScatterND", zeros, g.cast(indices, DType.I64), updates, reduction="add")


@litert("SEGMENT_SUM")
def segment_sum(g: Emit, x: Tensor, ids: Tensor) -> Tensor:
    segments = g.ints(ids, "the segments")
    if not x.rank or len(segments) != x.shape[0] or list(segments) != sorted(segments):
        g.refuse(f"a segment for each row of {x.type} is needed, in order")
    if not segments or not 0 <= segments[0] <= segments[-1] < 1 << 20:
        g.refuse("segments must be few and not negative")
    zeros = g("Expand", g.number(0, x.dtype), shape=(segments[-1] + 1, *x.shape[1:]))
    rows = g.constant(np.array(segments, np.int64).reshape(-1, 1))
    return g("ScatterND", zeros, rows, x, reduction="add")


@litert("DYNAMIC_UPDATE_SLICE", kind=Kind.STORED)
def dynamic_update_slice(g: Emit, x: Tensor, update: Tensor, starts: Tensor) -> Tensor:
    if update.rank != x.rank or any(
        part > whole for part, whole in zip(update.shape, x.shape, strict=True)
    ):
        g.refuse(f"{update.type} must fit into {x.type}")
    firsts = g.ints(starts, "the start")
    if len(firsts) != x.rank or prod(update.shape) > 1 << 20:
        g.refuse(f"a start for each axis of {x.type} is needed")
    sizes = zip(firsts, x.shape, update.shape, strict=True)
    held = [min(max(first, 0), whole - part) for first, whole, part in sizes]
    grid = np.indices(update.shape).reshape(x.rank, -1).T + np.array(held, np.int64)
    places = grid.reshape(*update.shape, x.rank).astype(np.int64)
    return g("ScatterND", x, g.constant(places), update)
