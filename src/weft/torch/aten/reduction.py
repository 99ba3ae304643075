# pyright: basic
"""Reductions."""

from __future__ import annotations

from collections.abc import Sequence

from weft.torch.aten.record import Emit, Tensor, aten


@aten("mean.dim", "mean.default")
def mean(g: Emit, self: Tensor, dim: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    return g("ReduceMean", g.cast(self, g.dtype), axes=g.axes(self, dim), keepdims=int(keepdim))
