# pyright: basic
"""Reading at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.torch.aten.record import Emit, aten


@aten("index_select.default")
def index_select(g: Emit, self: Tensor, dim: int, index: Tensor) -> Tensor:
    x = self if self.rank else g.reshape(self, (1,))
    return g.reshape(g("Gather", x, index, axis=g.axis(x, dim)), g.result.dims)


@aten("take.default")
def take(g: Emit, self: Tensor, index: Tensor) -> Tensor:
    return g("Gather", g.reshape(self, (prod(self.shape),)), index, axis=0)


@aten("gather.default")
def gather(g: Emit, self: Tensor, dim: int, index: Tensor) -> Tensor:
    if not self.rank or not index.rank:
        flat = g.reshape(self, (prod(self.shape),))
        return g.reshape(g("Gather", flat, index, axis=0), index.shape)
    return g("GatherElements", self, index, axis=g.axis(self, dim))


@aten("take_along_dim.default")
def take_along_dim(g: Emit, self: Tensor, indices: Tensor, dim: int | None) -> Tensor:
    if dim is None:
        return take(g, self, g.reshape(indices, (prod(indices.shape),)))
    axis = g.axis(self, dim)
    shape = list(np.broadcast_shapes(_without(self.shape, axis), _without(indices.shape, axis)))
    data = g.expand(self, [*shape[:axis], self.shape[axis], *shape[axis:]])
    places = g.expand(indices, [*shape[:axis], indices.shape[axis], *shape[axis:]])
    return g("GatherElements", data, places, axis=axis)


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(shape[:axis]) + tuple(shape[axis + 1 :])


# --- x[i, :, j] -------------------------------------------------------------------------------


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(g: Emit, self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    axes, places = indexed(g, self, indices)
    if not axes:
        return self
    if len(axes) == 1:
        return g("Gather", self, places[0], axis=axes[0])
    shape = np.broadcast_shapes(*(each.shape for each in places))
    rest = [axis for axis in range(self.rank) if axis not in axes]
    x = g.transpose(self, [*axes, *rest])
    flat = [g.array(each) for each in places]
    if all(each is not None for each in flat):
        made = _gathered(g, x, flat, len(axes))  # pyright: ignore[reportArgumentType]
    else:
        made = g("GatherND", x, stacked(g, places, shape))
    return g.transpose(made, _in_place(axes, len(shape), len(rest)))


def _gathered(g: Emit, x: Tensor, places: Sequence[np.ndarray], count: int) -> Tensor:
    """Known places along the first axes, as one axis."""
    sizes = x.shape[:count]
    whole = [each % size for each, size in zip(places, sizes, strict=True)]
    flat = np.ravel_multi_index(np.broadcast_arrays(*whole), sizes)
    x = g.reshape(x, (prod(sizes), *x.shape[count:]))
    return g("Gather", x, g.constant(flat, "places"), axis=0)


def _in_place(axes: Sequence[int], indexed: int, rest: int) -> list[int]:
    """Where the axes of the indices, which are first, go: to those that they index if adjacent."""
    adjacent = list(axes) == list(range(axes[0], axes[0] + len(axes)))
    before = axes[0] if adjacent else 0
    front = list(range(indexed, indexed + before))
    return [*front, *range(indexed), *range(indexed + before, indexed + rest)]


def indexed(g: Emit, x: Tensor, indices: Sequence[Tensor | None]) -> tuple[list[int], list[Tensor]]:
    """The axes that are indexed, and tensors of integers for each.

    Masks count as the places where they hold, which must be known.
    """
    axes: list[int] = []
    places: list[Tensor] = []
    axis = 0
    for each in indices:
        if each is None:
            axis += 1
        elif each.dtype in (DType.BOOL, DType.U8):
            mask = g.array(each)
            if mask is None:
                g.refuse("how many elements a mask selects is known at run time only")
            found = [g.constant(where, "places") for where in np.nonzero(mask)]
            axes += range(axis, axis + len(found))
            places += found
            axis += len(found)
        else:
            axes.append(axis)
            places.append(each)
            axis += 1
    return axes, places


def stacked(g: Emit, places: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """Indices of one shape, along a last axis."""
    columns = [g.reshape(g.expand(g.cast(each, DType.I64), shape), (*shape, 1)) for each in places]
    return columns[0] if len(columns) == 1 else g("Concat", *columns, axis=len(shape))
