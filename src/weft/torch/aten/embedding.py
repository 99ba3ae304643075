# pyright: basic
"""Rows of tables."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.torch.aten.record import Emit, aten


@aten("embedding.default")
def embedding(g: Emit, weight: Tensor, indices: Tensor, **_: object) -> Tensor:
    # The other arguments are about gradients.
    return g("Gather", weight, indices, axis=0)


SUM, MEAN, MAX = range(3)
"""Modes of bags."""


@aten("embedding_bag.default", "embedding_bag.padding_idx", "_embedding_bag.default")
@aten("_embedding_bag_forward_only.default")
def embedding_bag(
    g: Emit,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int = SUM,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    **_: object,
) -> tuple[Tensor | None, ...]:
    if indices.rank != 1:
        g.refuse("bags of a matrix of indices are not supported")
    if mode == MAX:
        g.refuse("the largest of bags is not supported")
    rows = g("Gather", weight, indices, axis=0)
    bags = g.result.dims[0]
    count = indices.shape[0]
    starts = g.cast(offsets, DType.I64)
    ends = g.slice(starts, 0, 1, bags + 1) if include_last_offset else _ends(g, starts, count)
    starts = g.reshape(g.slice(starts, 0, 0, bags), (bags, 1))
    place = g.constant(np.arange(count, dtype=np.int64))
    within = g("And", g("LessOrEqual", starts, place), g("Less", place, g.reshape(ends, (bags, 1))))
    if padding_idx is not None and padding_idx >= 0:
        other = g("Equal", indices, g.number(padding_idx, indices.dtype))
        within = g("And", within, g("Not", other))
    members = g.cast(within, weight.dtype)
    if mode == MEAN:
        sizes = g("ReduceSum", members, axes=(1,), keepdims=1)
        members = g("Div", members, g("Clip", sizes, min=1.0))
    if per_sample_weights is not None:
        members = g("Mul", members, per_sample_weights)
    return (g("MatMul", members, rows), None, None, None)


def _ends(g: Emit, starts: Tensor, count: int) -> Tensor:
    bags = starts.shape[0]
    last = g.constant(np.array([count], np.int64))
    return g("Concat", g.slice(starts, 0, 1, bags), last, axis=0) if bags > 1 else last
