# pyright: basic
"""Copies of a tensor with some elements replaced: what remains of writes in place."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Number, Tensor
from weft.torch.aten.comparison import masked_fill
from weft.torch.aten.indexing import indexed, stacked
from weft.torch.aten.record import Emit, Row, aten


@aten("copy.default", "copy_.default")
def copy(g: Emit, self: Tensor, src: Tensor) -> Tensor:
    return g.expand(g.cast(src, self.dtype), self.shape)


# --- parts ------------------------------------------------------------------------------------


def _replaced(g: Emit, x: Tensor, axis: int, start: int, part: Tensor) -> Tensor:
    """A tensor with a part of an axis replaced."""
    stop = start + part.shape[axis]
    before = [g.slice(x, axis, 0, start)] if start else []
    after = [g.slice(x, axis, stop, x.shape[axis])] if stop < x.shape[axis] else []
    parts = [*before, g.cast(part, x.dtype), *after]
    return parts[0] if len(parts) == 1 else g("Concat", *parts, axis=axis)


@aten("slice_scatter.default")
def slice_scatter(
    g: Emit, self: Tensor, src: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    axis = g.axis(self, dim)
    taken = range(self.shape[axis])[slice(start, end, step)]
    if not taken:
        return self
    shape = (*self.shape[:axis], len(taken), *self.shape[axis + 1 :])
    part = g.expand(src, shape)
    if step == 1:
        return _replaced(g, self, axis, taken.start, part)
    return _at(g, self, axis, g.constant(np.array(taken), "places"), part, "none")


@aten("select_scatter.default")
def select_scatter(g: Emit, self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    axis = g.axis(self, dim)
    shape = (*self.shape[:axis], 1, *self.shape[axis + 1 :])
    return _replaced(g, self, axis, index % self.shape[axis], g.reshape(src, shape))


@aten("diagonal_scatter.default")
def diagonal_scatter(
    g: Emit, self: Tensor, src: Tensor, offset: int, dim1: int, dim2: int
) -> Tensor:
    rows, columns = g.axis(self, dim1), g.axis(self, dim2)
    perm = [each for each in range(self.rank) if each not in (rows, columns)] + [rows, columns]
    height, width = self.shape[rows], self.shape[columns]
    if not prod(src.shape):
        return self
    places = np.clip(np.arange(height) + min(offset, 0), 0, src.shape[-1] - 1)
    values = g("Gather", g.cast(src, self.dtype), g.constant(places, "places"), axis=src.rank - 1)
    on = g.constant(np.eye(height, width, offset, bool), "diagonal")
    x = g.transpose(self, perm)
    made = g("Where", on, g.reshape(values, (*values.shape, 1)), x)
    return g.transpose(made, [perm.index(each) for each in range(self.rank)])


# --- along one axis ---------------------------------------------------------------------------


def _at(g: Emit, x: Tensor, axis: int, places: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Whole slices at places of an axis."""
    perm = [axis, *(each for each in range(x.rank) if each != axis)]
    back = [perm.index(each) for each in range(x.rank)]
    depth = g.reshape(g.cast(places, DType.I64), (prod(places.shape), 1))
    moved = g.transpose(g.cast(updates, x.dtype), perm)
    made = g("ScatterND", g.transpose(x, perm), depth, moved, reduction=reduction)
    return g.transpose(made, back)


@aten("index_add.default")
def index_add(
    g: Emit, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Number = 1
) -> Tensor:
    updates = source if alpha == 1 else g("Mul", source, g.number(alpha, source.dtype))
    return _at(g, self, g.axis(self, dim), index, updates, "add")


@aten("index_copy.default")
def index_copy(g: Emit, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _at(g, self, g.axis(self, dim), index, source, "none")


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(g: Emit, self: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    axis = g.axis(self, dim)
    shape = (*self.shape[:axis], prod(index.shape), *self.shape[axis + 1 :])
    return _at(g, self, axis, index, g.expand(g.cast(value, self.dtype), shape), "none")


def _scatter(reduction: str) -> Row:
    def row(g: Emit, self: Tensor, dim: int, index: Tensor, src: Tensor | Number) -> Tensor:
        return scattered(g, self, dim, index, src, reduction)

    return row


def scattered(
    g: Emit, x: Tensor, dim: int, index: Tensor, src: Tensor | Number, reduction: str
) -> Tensor:
    """Elements at places of an axis."""
    if not x.rank:
        g.refuse("scattering into a number is not supported")
    updates = g.cast(src, x.dtype)
    if not isinstance(src, Tensor):
        updates = g.expand(updates, index.shape)
    for axis, length in enumerate(index.shape):
        updates = g.slice(updates, axis, 0, length)
    places = g.cast(index, DType.I64)
    return g("ScatterElements", x, places, updates, axis=g.axis(x, dim), reduction=reduction)


aten("scatter.src")(_scatter("none"))
aten("scatter_add.default")(_scatter("add"))


@aten("scatter.value")
def scatter_value(g: Emit, self: Tensor, dim: int, index: Tensor, value: Number) -> Tensor:
    return scattered(g, self, dim, index, value, "none")


@aten("scatter.reduce")
def scatter_reduced(
    g: Emit, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str
) -> Tensor:
    return scattered(g, self, dim, index, src, {"add": "add", "multiply": "mul"}[reduce])


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@aten("scatter_reduce.two")
def scatter_reduce(
    g: Emit,
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    include_self: bool = True,
) -> Tensor:
    if reduce not in _REDUCTIONS or not include_self:
        g.refuse(f"scatter_reduce {reduce} with include_self={include_self} is not supported")
    return scattered(g, self, dim, index, src, _REDUCTIONS[reduce])


# --- x[i, :, j] = values ----------------------------------------------------------------------


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(
    g: Emit,
    self: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    mask = indices[0] if len(indices) == 1 else None
    if (
        mask is not None
        and mask.dtype is DType.BOOL
        and g.array(mask) is None
        and prod(values.shape) == 1
        and not accumulate
    ):
        lined = g.reshape(mask, mask.shape + (1,) * (self.rank - mask.rank))
        return masked_fill(g, self, lined, g.reshape(values, ()))
    axes, places = indexed(g, self, indices)
    shape = np.broadcast_shapes(*(each.shape for each in places))
    rest = [axis for axis in range(self.rank) if axis not in axes]
    perm = [*axes, *rest]
    kept = tuple(self.shape[axis] for axis in rest)
    # Values are laid out as what x[i, :, j] gives.
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    before = axes[0] if adjacent else 0
    updates = g.expand(g.cast(values, self.dtype), (*kept[:before], *shape, *kept[before:]))
    order = [*range(before, before + len(shape)), *range(before)]
    updates = g.transpose(updates, [*order, *range(len(order), updates.rank)])
    made = g(
        "ScatterND",
        g.transpose(self, perm),
        stacked(g, places, shape),
        updates,
        reduction="add" if accumulate else "none",
    )
    return g.transpose(made, [perm.index(each) for each in range(self.rank)])


@aten("masked_scatter.default")
def masked_scatter(g: Emit, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    shape = tuple(np.broadcast_shapes(self.shape, mask.shape))
    chosen = g.reshape(g.expand(mask, shape), (prod(shape),))
    count = g("CumSum", g.cast(chosen, DType.I64), axis=0)
    last = g.number(max(0, prod(source.shape) - 1), DType.I64)
    place = g(
        "Min", g("Max", g("Sub", count, g.number(1, DType.I64)), g.number(0, DType.I64)), last
    )
    taken = g("Gather", g.reshape(source, (prod(source.shape),)), place, axis=0)
    flat = g.reshape(g.expand(self, shape), (prod(shape),))
    return g.reshape(g("Where", chosen, taken, flat), shape)
