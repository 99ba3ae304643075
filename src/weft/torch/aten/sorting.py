# pyright: basic
"""Orders of elements."""

from __future__ import annotations

from math import prod

from weft.dtypes import DType
from weft.frontends.emit import Number, Tensor
from weft.torch.aten.comparison import promoted
from weft.torch.aten.record import Emit, aten


def _ordered(
    g: Emit, x: Tensor, dim: int, count: int, largest: bool, ordered: bool = True
) -> tuple[Tensor, ...]:
    if not x.rank:
        return x, g.number(0, DType.I64)
    settings = {"largest": int(largest), "sorted": int(ordered)}
    return g.several("TopK", x, outputs=2, k=count, axis=g.axis(x, dim), **settings)


@aten("topk.default")
def topk(
    g: Emit, self: Tensor, k: int, dim: int, largest: bool, sorted: bool
) -> tuple[Tensor, ...]:
    return _ordered(g, self, dim, k, largest, sorted)


@aten("sort.default", "sort.stable")
def sort(
    g: Emit, self: Tensor, stable: bool = True, dim: int = -1, descending: bool = False
) -> tuple[Tensor, ...]:
    # Of equal elements the first comes first, as in a stable sort.
    count = self.shape[g.axis(self, dim)] if self.rank else 1
    return _ordered(g, self, dim, count, descending)


@aten("argsort.default", "argsort.stable")
def argsort(
    g: Emit, self: Tensor, stable: bool = True, dim: int = -1, descending: bool = False
) -> Tensor:
    return sort(g, self, stable, dim, descending)[1]


_MOST_BOUNDARIES = 1024


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    g: Emit, sorted_sequence: Tensor, self: Tensor | Number, right: bool, side: str | None
) -> Tensor:
    # How many boundaries come before each value; nothing is before a NaN but all numbers.
    count = sorted_sequence.shape[-1]
    if count > _MOST_BOUNDARIES:
        g.refuse(f"a search among more than {_MOST_BOUNDARIES} boundaries is not supported")
    dtype = promoted(sorted_sequence, self)
    bounds, x = g.cast(sorted_sequence, dtype), g.cast(self, dtype)
    if bounds.rank > 1:
        bounds = g.reshape(bounds, (*bounds.shape[:-1], 1, count))
    behind = "Greater" if right or side == "right" else "GreaterOrEqual"
    before = g("Not", g(behind, bounds, g.reshape(x, (*x.shape, 1))))
    made = g("ReduceSum", g.cast(before, DType.I64), axes=(before.rank - 1,), keepdims=0)
    return g.cast(made, g.dtype)


@aten("bucketize.Tensor", "bucketize.Scalar")
def bucketize(g: Emit, self: Tensor | Number, boundaries: Tensor, right: bool) -> Tensor:
    return searchsorted(g, boundaries, self, right, None)


@aten("kthvalue.default")
def kthvalue(g: Emit, self: Tensor, k: int, dim: int, keepdim: bool) -> tuple[Tensor, ...]:
    found = sort(g, self, dim=dim)
    return tuple(_one(g, each, dim, k - 1, keepdim) for each in found)


def _one(g: Emit, x: Tensor, dim: int, place: int, keepdim: bool) -> Tensor:
    """An element of an axis."""
    if not x.rank:
        return x
    axis = g.axis(x, dim)
    made = g.slice(x, axis, place, place + 1)
    return made if keepdim else g.reshape(made, (*x.shape[:axis], *x.shape[axis + 1 :]))


@aten("median.dim")
def median_dim(g: Emit, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, ...]:
    count = self.shape[g.axis(self, dim)] if self.rank else 1
    found = sort(g, self, dim=dim)
    middle = [_one(g, each, dim, (count - 1) // 2, keepdim) for each in found]
    if not self.dtype.is_float:
        return tuple(middle)
    # NaN comes last, and is the median where there is one.
    last = [_one(g, each, dim, count - 1, keepdim) for each in found]
    unknown = g("IsNaN", last[0])
    return tuple(g("Where", unknown, *pair) for pair in zip(last, middle, strict=True))


@aten("median.default")
def median(g: Emit, self: Tensor) -> Tensor:
    return median_dim(g, g.reshape(self, (prod(self.shape),)), 0, False)[0]


@aten("msort.default")
def msort(g: Emit, self: Tensor) -> Tensor:
    return sort(g, self, dim=0)[0]
