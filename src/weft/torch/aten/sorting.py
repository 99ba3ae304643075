# pyright: basic
"""Orders of elements."""

from __future__ import annotations

from weft.dtypes import DType
from weft.torch.aten.record import Emit, Tensor, aten


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


@aten("msort.default")
def msort(g: Emit, self: Tensor) -> Tensor:
    return sort(g, self, dim=0)[0]
