# pyright: basic
"""Functions of ``keras.ops`` that move, repeat and choose elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.operations import Operand, promoted, tensor
from weft.frontends.keras.record import Emit, Made, Row, Tensor, operation
from weft.frontends.keras.reshaping import shaped


@operation("Reshape")
def reshape(g: Emit, x: Tensor, newshape: Sequence[int]) -> Tensor:
    # The batch, which was open, is a number here.
    sizes = [newshape] if isinstance(newshape, int) else list(newshape)
    if None in sizes:
        sizes = [-1 if each is None else each for each in sizes]
    return shaped(g, x, sizes)


@operation("Transpose")
def transpose(g: Emit, x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    order = range(x.rank)[::-1] if axes is None else g.axes(x, list(axes))
    return g.transpose(x, tuple(order))


@operation("Swapaxes")
def swap_axes(g: Emit, x: Tensor, axis1: int, axis2: int) -> Tensor:
    order = list(range(x.rank))
    a, b = g.axis(x, axis1), g.axis(x, axis2)
    order[a], order[b] = order[b], order[a]
    return g.transpose(x, order)


@operation("Moveaxis")
def move_axis(g: Emit, x: Tensor, source: Any, destination: Any) -> Tensor:
    first, last = g.axes(x, source), g.axes(x, destination)
    order = [axis for axis in range(x.rank) if axis not in first]
    for place, axis in sorted(zip(last, first, strict=True)):
        order.insert(place, axis)
    return g.transpose(x, order)


@operation("ExpandDims")
def expand_dims(g: Emit, x: Tensor, axis: Any) -> Tensor:
    given = [axis] if isinstance(axis, int) else list(axis)
    rank = x.rank + len(given)
    return g("Unsqueeze", x, axes=tuple(each % rank for each in given))


@operation("Squeeze")
def squeeze(g: Emit, x: Tensor, axis: Any = None) -> Tensor:
    axes = [at for at, size in enumerate(x.shape) if size == 1] if axis is None else g.axes(x, axis)
    return g("Squeeze", x, axes=tuple(axes)) if axes else x


@operation("Concatenate")
def concatenate(g: Emit, xs: Sequence[Tensor], axis: int = -1) -> Tensor:
    dtype = xs[0].dtype
    for each in xs[1:]:
        dtype = promoted(dtype, each.dtype)
    return g.concat([g.cast(each, dtype) for each in xs], g.axis(xs[0], axis))


@operation("Stack")
def stack(g: Emit, x: Sequence[Tensor], axis: int = 0) -> Tensor:
    place = axis % (x[0].rank + 1)
    return g.concat([g("Unsqueeze", each, axes=(place,)) for each in x], place)


@operation("Split")
def split(g: Emit, x: Tensor, indices_or_sections: Any, axis: int = 0) -> Made:
    axis = g.axis(x, axis)
    size = x.shape[axis]
    if isinstance(indices_or_sections, int):
        step = size // indices_or_sections
        edges = [step * at for at in range(indices_or_sections)]
    else:
        edges = [0, *(int(each) for each in np.asarray(indices_or_sections).tolist())]
    return [g.slice(x, axis, at, end) for at, end in zip(edges, [*edges[1:], size], strict=True)]


@operation("BroadcastTo")
def broadcast_to(g: Emit, x: Tensor, shape: Sequence[int]) -> Tensor:
    around = [1] * (len(shape) - x.rank) + list(x.shape)
    sizes = [have if want in (None, -1) else want for have, want in zip(around, shape, strict=True)]
    return g.expand(x, sizes)


@operation("Tile")
def tile(g: Emit, x: Tensor, repeats: Any) -> Tensor:
    given = [repeats] if isinstance(repeats, int) else list(repeats)
    rank = max(len(given), x.rank)
    x = g.reshape(x, (*(1,) * (rank - x.rank), *x.shape))
    return g("Tile", x, repeats=(*(1,) * (rank - len(given)), *given))


@operation("Repeat")
def repeat(g: Emit, x: Tensor, repeats: Any, axis: int | None = None) -> Tensor:
    if not isinstance(repeats, int):
        g.refuse("different numbers of repeats are not supported")
    if axis is None:
        x, axis = g.reshape(x, (x.type.size,)), 0
    axis = g.axis(x, axis)
    shape = list(x.shape)
    wide = g.expand(
        g("Unsqueeze", x, axes=(axis + 1,)), (*shape[: axis + 1], repeats, *shape[axis + 1 :])
    )
    return g.reshape(wide, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]))


@operation("Flip")
def flip(g: Emit, x: Tensor, axis: Any = None) -> Tensor:
    for each in g.axes(x, axis):
        x = g.flip(x, each)
    return x


@operation("Roll")
def roll(g: Emit, x: Tensor, shift: int, axis: int | None = None) -> Tensor:
    shape = x.shape
    if axis is None:
        x, axis = g.reshape(x, (x.type.size,)), 0
    shifts, axes = ([shift], [axis]) if isinstance(shift, int) else (list(shift), list(axis))  # type: ignore[arg-type]
    for step, each in zip(shifts, axes, strict=True):
        place = g.axis(x, each)
        size = x.shape[place]
        at = -step % size
        if at:
            x = g.concat([g.slice(x, place, at, size), g.slice(x, place, 0, at)], place)
    return g.reshape(x, shape)


@operation("Pad")
def pad(
    g: Emit,
    x: Tensor,
    constant_values: float | None = None,
    pad_width: Any = 0,
    mode: str = "constant",
) -> Tensor:
    pairs = np.broadcast_to(np.asarray(pad_width), (x.rank, 2)).tolist()
    modes = {"constant": "constant", "reflect": "reflect"}
    if mode not in modes:
        g.refuse(f"padding in mode {mode} is not supported")
    pads = (*(a for a, _ in pairs), *(b for _, b in pairs))
    return g("Pad", x, pads=pads, mode=modes[mode], value=float(constant_values or 0))


@operation("Take")
def take(g: Emit, x: Tensor, indices: Operand, axis: int | None = None) -> Tensor:
    x = tensor(g, x)
    if axis is None:
        x, axis = g.reshape(x, (x.type.size,)), 0
    return g("Gather", x, tensor(g, indices, DType.I32), axis=g.axis(x, axis))


@operation("TakeAlongAxis")
def take_along(g: Emit, x: Tensor, indices: Tensor, axis: int = -1) -> Tensor:
    return g("GatherElements", x, indices, axis=g.axis(x, axis))


@operation("OneHot")
def one_hot(
    g: Emit, x: Tensor, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Tensor:
    place = axis % (x.rank + 1)
    row = np.arange(num_classes, dtype=x.dtype.numpy)
    row = row.reshape([-1 if at == place else 1 for at in range(x.rank + 1)])
    same = g("Equal", g("Unsqueeze", x, axes=(place,)), g.constant(row, f"{g.name}/classes"))
    return g.cast(same, DType.of(np.dtype(str(dtype or "float32"))))


def _filled(value: float) -> Row:
    def row(g: Emit, x: Tensor, dtype: Any = None) -> Tensor:
        kind = x.dtype if dtype is None else DType.of(np.dtype(str(dtype)))
        return g("ConstantOfShape", shape=x.shape, value=value, dtype=kind)

    return row


operation("ZerosLike")(_filled(0.0))
operation("OnesLike")(_filled(1.0))


@operation("Identity", "StopGradient", "Copy")
def identity(g: Emit, x: Tensor | None = None, variable: Tensor | None = None) -> Tensor:
    given = x if x is not None else variable
    assert given is not None
    return given


@operation("GetItem")
def get_item(g: Emit, x: Tensor, key: Any) -> Tensor:
    items = list(key) if isinstance(key, list | tuple) else [key]
    used = sum(item is not None and item is not Ellipsis for item in items)
    if Ellipsis not in items:
        items.append(Ellipsis)
    place = next(at for at, item in enumerate(items) if item is Ellipsis)
    items[place : place + 1] = [slice(None)] * (x.rank - used)
    starts, ends, axes, steps = [], [], [], []
    shape: list[int] = []
    axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            continue
        if isinstance(item, bool) or not isinstance(item, int | slice):
            g.refuse(f"index {str(item)[:40]} is not supported")
        size = x.shape[axis]
        part = item if isinstance(item, slice) else slice(item, item + 1 or None)
        begin, end, step = part.indices(size)
        count = len(range(begin, end, step))
        if isinstance(item, int) and count != 1:
            g.refuse(f"index {item} of an axis of {size}")
        if (begin, end, step) != (0, size, 1):
            starts.append(begin)
            ends.append(end if end >= 0 else -size - 1)
            axes.append(axis)
            steps.append(step)
        if isinstance(item, slice):
            shape.append(count)
        axis += 1
    if axes:
        x = g(
            "Slice", x, starts=tuple(starts), ends=tuple(ends), axes=tuple(axes), steps=tuple(steps)
        )
    return g.reshape(x, shape)
