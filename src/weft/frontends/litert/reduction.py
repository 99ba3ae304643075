"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, Function, Kind, litert


def _axes(g: Emit, x: Tensor, axes: Tensor) -> tuple[int, ...]:
    return tuple(dict.fromkeys(g.axis(x, each) for each in g.ints(axes, "the axes")))


def _reduced(g: Emit, op: str, x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    if not axes or not x.rank:
        return g("Identity", x)
    return g(op, x, axes=axes, keepdims=int(keep))


def _extremes(op: str) -> Function:
    def row(g: Emit, x: Tensor, axes: Tensor, *, keep_dims: bool = False) -> Tensor:
        wide = g.cast(x, DType.I32) if x.dtype is DType.I16 else x
        return g.cast(_reduced(g, op, wide, _axes(g, x, axes), keep_dims), x.dtype)

    return row


def _reduction(op: str) -> Function:
    def row(g: Emit, x: Tensor, axes: Tensor, *, keep_dims: bool = False) -> Tensor:
        return _reduced(g, op, x, _axes(g, x, axes), keep_dims)

    return row


def _logical(op: str) -> Function:
    def row(g: Emit, x: Tensor, axes: Tensor, *, keep_dims: bool = False) -> Tensor:
        numbers = g.cast(x, DType.U8)
        return g.cast(_reduced(g, op, numbers, _axes(g, x, axes), keep_dims), DType.BOOL)

    return row


litert("MEAN")(_reduction("ReduceMean"))
litert("SUM")(_reduction("ReduceSum"))
litert("REDUCE_PROD")(_reduction("ReduceProd"))
litert("REDUCE_MAX", kind=Kind.STORED)(_extremes("ReduceMax"))
litert("REDUCE_MIN", kind=Kind.STORED)(_extremes("ReduceMin"))
litert("REDUCE_ALL")(_logical("ReduceMin"))
litert("REDUCE_ANY")(_logical("ReduceMax"))


def _extreme(op: str) -> Function:
    def row(g: Emit, x: Tensor, axis: Tensor) -> Tensor:
        (along,) = g.ints(axis, "the axis")
        return g.cast(g(op, x, axis=g.axis(x, along), keepdims=0), g.result_dtype)

    return row


# Quantized values have the order of the integers that they are stored as.
litert("ARG_MAX", kind=Kind.RAW)(_extreme("ArgMax"))
litert("ARG_MIN", kind=Kind.RAW)(_extreme("ArgMin"))


@litert("CUMSUM")
def cumsum(
    g: Emit, x: Tensor, axis: Tensor, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    (along,) = g.ints(axis, "the axis")
    return g("CumSum", x, axis=g.axis(x, along), exclusive=int(exclusive), reverse=int(reverse))


@litert("TOPK_V2", kind=Kind.RAW)
def topk_v2(g: Emit, x: Tensor, k: Tensor) -> tuple[Tensor, ...]:
    (count,) = g.ints(k, "k")
    values, places = g.several("TopK", x, outputs=2, k=count, axis=-1)
    to = g.given[1].dtype if len(g.given) > 1 else None
    return values, g.cast(places, to or DType.I32)


@litert("BUCKETIZE")
def bucketize(g: Emit, x: Tensor, *, boundaries: Sequence[float] = ()) -> Tensor:
    edges = g.constant(np.asarray(boundaries, np.float32))
    above = g("GreaterOrEqual", g("Unsqueeze", g.cast(x, DType.F32), axes=(x.rank,)), edges)
    return g("ReduceSum", g.cast(above, DType.I32), axes=(x.rank,), keepdims=0)
