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


@operation("Split", "ArraySplit")
def split(g: Emit, x: Tensor, indices_or_sections: Any, axis: int = 0) -> Made:
    axis = g.axis(x, axis)
    size = x.shape[axis]
    if isinstance(indices_or_sections, int):
        if not 0 < indices_or_sections <= max(size, 1):
            g.refuse(f"{size} elements cannot be split into {indices_or_sections} sections")
        # Of sections that cannot be equal, the first are longer by one.
        step, more = divmod(size, indices_or_sections)
        edges = [step * at + min(at, more) for at in range(indices_or_sections)]
    else:
        given = (int(each) for each in np.asarray(indices_or_sections).tolist())
        edges = [0, *(min(each if each >= 0 else max(each + size, 0), size) for each in given)]
    ends = [max(at, end) for at, end in zip(edges, [*edges[1:], size], strict=True)]
    return [g.slice(x, axis, at, end) for at, end in zip(edges, ends, strict=True)]


@operation("Vsplit")
def split_rows(g: Emit, x: Tensor, indices_or_sections: Any) -> Made:
    return split(g, x, indices_or_sections, 0)


@operation("Hsplit")
def split_columns(g: Emit, x: Tensor, indices_or_sections: Any) -> Made:
    return split(g, x, indices_or_sections, 1 if x.rank > 1 else 0)


@operation("Dsplit")
def split_planes(g: Emit, x: Tensor, indices_or_sections: Any) -> Made:
    return split(g, x, indices_or_sections, 2)


@operation("Unstack")
def unstack(g: Emit, x: Tensor, num: int | None = None, axis: int = 0) -> Made:
    del num  # the axis has as many
    place = g.axis(x, axis)
    shape = (*x.shape[:place], *x.shape[place + 1 :])
    return [g.reshape(g.slice(x, place, at, at + 1), shape) for at in range(x.shape[place])]


@operation("Vstack")
def stack_rows(g: Emit, xs: Sequence[Tensor]) -> Tensor:
    return concatenate(g, [x if x.rank > 1 else g.reshape(x, (1, x.type.size)) for x in xs], 0)


@operation("Hstack")
def stack_columns(g: Emit, xs: Sequence[Tensor]) -> Tensor:
    return concatenate(g, xs, 1 if xs[0].rank > 1 else 0)


@operation("Dstack")
def stack_planes(g: Emit, xs: Sequence[Tensor]) -> Tensor:
    shapes = [x.shape if x.rank > 2 else (*(1,) * (2 - x.rank), *x.shape, 1) for x in xs]
    return concatenate(g, [g.reshape(x, s) for x, s in zip(xs, shapes, strict=True)], 2)


@operation("Append")
def append(g: Emit, x1: Tensor, x2: Tensor, axis: int | None = None) -> Tensor:
    if axis is None:
        x1, x2, axis = ravel(g, x1), ravel(g, x2), 0
    return concatenate(g, [x1, x2], axis)


@operation("Ravel")
def ravel(g: Emit, x: Tensor) -> Tensor:
    return g.reshape(x, (x.type.size,))


@operation("Meshgrid")
def mesh_grid(g: Emit, *x: Tensor, indexing: str = "xy") -> Made:
    sizes = [each.type.size for each in x]
    places = [*range(len(x))]
    if indexing == "xy" and len(x) > 1:
        places[:2] = 1, 0
    shape = [sizes[place] for place in places]
    made: list[Tensor] = []
    for each, place in zip(x, places, strict=True):
        row = [1] * len(x)
        row[place] = each.type.size
        made.append(g.expand(g.reshape(each, row), shape))
    return made


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


@operation("Flipud")
def flip_rows(g: Emit, x: Tensor) -> Tensor:
    return g.flip(x, 0)


@operation("Fliplr")
def flip_columns(g: Emit, x: Tensor) -> Tensor:
    return g.flip(x, 1)


@operation("Rot90")
def rotate(g: Emit, array: Tensor, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    first, second = g.axes(array, list(axes))
    if k % 4 == 2:
        return g.flip(g.flip(array, first), second)
    if k % 4 == 1:
        return swap_axes(g, g.flip(array, second), first, second)
    return g.flip(swap_axes(g, array, first, second), second) if k % 4 else array


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


# --- triangles and diagonals ------------------------------------------------------------------


def _triangle(upper: bool) -> Row:
    return lambda g, x, k=0: g("Trilu", x, upper=int(upper), k=int(k))


operation("Tril")(_triangle(upper=False))
operation("Triu")(_triangle(upper=True))


@operation("Diagonal")
def diagonal(g: Emit, x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    first, second = g.axes(x, [axis1, axis2])
    rest = [axis for axis in range(x.rank) if axis not in (first, second)]
    rows, columns = x.shape[first], x.shape[second]
    row, column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - row, columns - column), 0)
    places = (row + np.arange(count)) * columns + column + np.arange(count)
    sizes = [x.shape[axis] for axis in rest]
    flat = g.reshape(g.transpose(x, (*rest, first, second)), (*sizes, rows * columns))
    return g("Gather", flat, g.held(places.astype(np.int64), "diagonal"), axis=len(rest))


@operation("Trace")
def trace(g: Emit, x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    found = diagonal(g, x, offset, axis1, axis2)
    return g("ReduceSum", found, axes=(found.rank - 1,), keepdims=0)


# --- order ------------------------------------------------------------------------------------


@operation("TopK")
def top_k(g: Emit, x: Tensor, k: int, sorted: bool = True) -> Made:
    values, places = g.several("TopK", x, outputs=2, k=k, axis=x.rank - 1, sorted=int(sorted))
    return [values, g.cast(places, DType.I32)]


def _ordered(g: Emit, x: Tensor, axis: int | None) -> Sequence[Tensor]:
    """The elements of an axis from the smallest to the largest, and their places."""
    if axis is None:
        x, axis = ravel(g, x), 0
    place = g.axis(x, axis)
    return g.several("TopK", x, outputs=2, k=x.shape[place], axis=place, largest=0)


@operation("Sort")
def sort(g: Emit, x: Tensor, axis: int | None = -1) -> Tensor:
    return _ordered(g, x, axis)[0]


@operation("Argsort")
def arg_sort(g: Emit, x: Tensor, axis: int | None = -1) -> Tensor:
    return g.cast(_ordered(g, x, axis)[1], DType.I32)


# --- creation ---------------------------------------------------------------------------------


@operation("OneHot")
def one_hot(
    g: Emit, x: Tensor, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Tensor:
    place = axis % (x.rank + 1)
    x = x if x.dtype in (DType.I32, DType.I64) else g.cast(x, DType.I32)
    row = g.categories(num_classes, x.dtype)
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


@operation("FullLike")
def full_like(g: Emit, x: Tensor, fill_value: Operand, dtype: Any = None) -> Tensor:
    kind = x.dtype if dtype is None else DType.of(np.dtype(str(dtype)))
    return g.expand(g.cast(tensor(g, fill_value), kind), x.shape)


@operation("MultiHot")
def multi_hot(
    g: Emit,
    inputs: Tensor,
    num_classes: int,
    axis: int = -1,
    dtype: Any = None,
    sparse: bool = False,
    **kwargs: Any,
) -> Tensor:
    del kwargs
    made = one_hot(g, inputs, num_classes, axis, dtype, sparse)
    return g("ReduceMax", made, axes=(1 if inputs.rank > 1 else 0,), keepdims=0)


@operation("Identity", "StopGradient", "Copy")
def identity(g: Emit, x: Tensor | None = None, variable: Tensor | None = None) -> Tensor:
    given = x if x is not None else variable
    assert given is not None
    return given


@operation("Slice")
def part(g: Emit, inputs: Tensor, start_indices: Any, shape: Sequence[int]) -> Tensor:
    if isinstance(start_indices, Tensor):
        g.refuse("where it starts must be known")
    starts = [int(each) for each in np.asarray(start_indices).ravel().tolist()]
    for axis, (start, size) in enumerate(zip(starts, shape, strict=True)):
        # As in XLA, a part that would end outside starts earlier.
        start = max(min(start, inputs.shape[axis] - size), 0)
        inputs = g.slice(inputs, axis, start, start + size)
    return inputs


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
