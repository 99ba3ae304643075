"""Operators that arrange elements, make constants or tell shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, Kind, litert

_MOST = 1 << 22


@litert("RESHAPE", kind=Kind.STORED)
def reshape(
    g: Emit, x: Tensor, shape: Tensor | None = None, *, new_shape: Sequence[int] = ()
) -> Tensor:
    return _kept(g, x, g.reshape(x, sizes_of(g, x.shape, shape, new_shape)))


def sizes_of(
    g: Emit, given: tuple[int, ...], shape: Tensor | None, new_shape: Sequence[int]
) -> tuple[int, ...]:
    """The shape that elements of another one get."""
    sizes = tuple(new_shape) if shape is None else g.ints(shape, "the shape")
    if shape is None and sizes == (0,):
        sizes = ()  # what old converters write for a scalar
    count = prod(given)
    if sizes.count(-1) == 1:
        rest = prod(each for each in sizes if each != -1)
        if rest <= 0 or count % rest:
            g.refuse(f"{list(given)} cannot get the shape {list(sizes)}")
        sizes = tuple(count // rest if each == -1 else each for each in sizes)
    if any(each < 0 for each in sizes) or prod(sizes) != count:
        g.refuse(f"{list(given)} cannot get the shape {list(sizes)}")
    return sizes


def _kept(g: Emit, x: Tensor, y: Tensor) -> Tensor:
    """A result as a value of its own, so that it has a name of its own."""
    return g("Identity", x) if y is x else y


@litert("SQUEEZE", kind=Kind.STORED)
def squeeze(g: Emit, x: Tensor, *, squeeze_dims: Sequence[int] = ()) -> Tensor:
    axes = axes_to_squeeze(g, x.shape, squeeze_dims)
    return _kept(g, x, g.reshape(x, [s for axis, s in enumerate(x.shape) if axis not in axes]))


def axes_to_squeeze(g: Emit, shape: tuple[int, ...], dims: Sequence[int]) -> set[int]:
    """The axes that go; all of length 1 if none is named."""
    if any(not -len(shape) <= each < len(shape) for each in dims):
        g.refuse(f"axes {list(dims)} must be of {list(shape)}")
    axes = {each % len(shape) for each in dims}
    if not axes:
        return {axis for axis, size in enumerate(shape) if size == 1}
    if any(shape[axis] != 1 for axis in axes):
        g.refuse(f"axes of {list(shape)} that are squeezed must have length 1")
    return axes


@litert("EXPAND_DIMS", kind=Kind.STORED)
def expand_dims(g: Emit, x: Tensor, axis: Tensor) -> Tensor:
    at = place_of_new_axis(g, x.shape, axis)
    return g.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


def place_of_new_axis(g: Emit, shape: tuple[int, ...], axis: Tensor) -> int:
    """Where an axis of length 1 comes in."""
    (at,) = g.ints(axis, "the axis")
    if not -len(shape) - 1 <= at <= len(shape):
        g.refuse(f"axis {at} must fit {list(shape)}")
    return at % (len(shape) + 1)


@litert("TRANSPOSE", kind=Kind.STORED)
def transpose(g: Emit, x: Tensor, perm: Tensor) -> Tensor:
    order = tuple(g.axis(x, each) for each in g.ints(perm, "the permutation"))
    if sorted(order) != list(range(x.rank)):
        g.refuse(f"{list(order)} must be a permutation of the axes of {x.type}")
    return _kept(g, x, g.transpose(x, order))


@litert("CONCATENATION", kind=Kind.STORED)
def concatenation(g: Emit, *x: Tensor, axis: int, fused_activation_function: int = 0) -> Tensor:
    if not x:
        g.refuse("it must have an input")
    joined = g("Concat", *x, axis=g.axis(x[0], axis))
    if fused_activation_function and not joined.dtype.is_float:
        g.refuse("a fused activation of stored integers is not supported")
    return g.activated(joined, fused_activation_function)


@litert("PACK", kind=Kind.STORED)
def pack(g: Emit, *x: Tensor, axis: int = 0) -> Tensor:
    if not x or not -x[0].rank - 1 <= axis <= x[0].rank:
        g.refuse(f"axis {axis} must fit the inputs")
    axis %= x[0].rank + 1
    parts = [g.reshape(each, (*each.shape[:axis], 1, *each.shape[axis:])) for each in x]
    return g("Concat", *parts, axis=axis)


@litert("UNPACK", kind=Kind.STORED)
def unpack(g: Emit, x: Tensor, *, num: int, axis: int = 0) -> list[Tensor]:
    axis = g.axis(x, axis)
    if not x.rank or x.shape[axis] != num or num != len(g.given):
        g.refuse(f"{num} parts must be as many as axis {axis} of {x.type} is long")
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    if num == 1:
        return [_kept(g, x, g.reshape(x, shape))]
    parts = g.several("Split", x, outputs=num, axis=axis, split=(1,) * num)
    return [g.reshape(each, shape) for each in parts]


@litert("TILE", kind=Kind.STORED)
def tile(g: Emit, x: Tensor, repeats: Tensor) -> Tensor:
    counts = g.ints(repeats, "the repeats")
    if len(counts) != x.rank or any(each < 0 for each in counts):
        g.refuse(f"repeats {list(counts)} must fit {x.type}")
    return g("Tile", x, repeats=counts)


@litert("BROADCAST_TO", kind=Kind.STORED)
def broadcast_to(g: Emit, x: Tensor, shape: Tensor) -> Tensor:
    sizes = g.ints(shape, "the shape")
    return _kept(g, x, g.expand(x, sizes))


@litert("BROADCAST_ARGS")
def broadcast_args(g: Emit, a: Tensor, b: Tensor) -> Tensor:
    shapes = g.ints(a, "the shape"), g.ints(b, "the shape")
    if min(*shapes[0], *shapes[1], 1) < 0:
        g.refuse("sizes must not be negative")
    try:
        found = np.broadcast_shapes(*shapes)
    except ValueError:
        g.refuse(f"{list(shapes[0])} and {list(shapes[1])} do not broadcast")
    return g.constant(np.array(found, g.result_dtype.numpy))


@litert("FILL", kind=Kind.STORED)
def fill(g: Emit, shape: Tensor, value: Tensor) -> Tensor:
    sizes = g.ints(shape, "the shape")
    if any(each < 0 for each in sizes) or value.type.size != 1:
        g.refuse(f"one value must fill {list(sizes)}")
    return g("Expand", g.reshape(value, ()), shape=sizes)


@litert("ZEROS_LIKE")
def zeros_like(g: Emit, x: Tensor) -> Tensor:
    return g("Expand", g.number(0, x.dtype), shape=x.shape)


@litert("SHAPE", kind=Kind.RAW)
def shape(g: Emit, x: Tensor) -> Tensor:
    return g.constant(np.array(x.shape, g.result_dtype.numpy))


@litert("RANK", kind=Kind.RAW)
def rank(g: Emit, x: Tensor) -> Tensor:
    return g.constant(np.array(x.rank, g.result_dtype.numpy))


@litert("RANGE")
def range_(g: Emit, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    ends = [g.known(each, "a range's end").reshape(-1) for each in (start, limit, delta)]
    if any(each.size != 1 for each in ends) or not ends[2][0] or not np.isfinite(ends).all():
        g.refuse("a range must have three ends, and a step that is not 0")
    first, last, step = (each[0].item() for each in ends)
    count = max(0, int(np.ceil((last - first) / step)))
    if count > _MOST:
        g.refuse(f"a range of {count} numbers is too long")
    return g.constant((first + step * np.arange(count)).astype(start.dtype.numpy))


@litert("ONE_HOT", kind=Kind.STORED)
def one_hot(
    g: Emit, indices: Tensor, depth: Tensor, on: Tensor, off: Tensor, *, axis: int = -1
) -> Tensor:
    (count,) = g.ints(depth, "the depth")
    if not 0 <= count <= _MOST or not -1 <= axis <= indices.rank:
        g.refuse(f"a depth of {count} along axis {axis} does not fit {indices.type}")
    at = indices.rank if axis == -1 else axis
    places = np.arange(count).astype(indices.dtype.numpy)
    wide = g.reshape(indices, (*indices.shape[:at], 1, *indices.shape[at:]))
    numbers = g.constant(places.reshape(-1, *(1,) * (indices.rank - at)))
    return g("Where", g("Equal", wide, numbers), on, off)


@litert("REVERSE_V2", kind=Kind.STORED)
def reverse_v2(g: Emit, x: Tensor, axes: Tensor) -> Tensor:
    along = tuple(dict.fromkeys(g.axis(x, each) for each in g.ints(axes, "the axes")))
    if not along:
        return g("Identity", x)
    count = len(along)
    ends = tuple(-x.shape[axis] - 1 for axis in along)
    return g("Slice", x, starts=(-1,) * count, ends=ends, axes=along, steps=(-1,) * count)


@litert("REVERSE_SEQUENCE", kind=Kind.STORED)
def reverse_sequence(
    g: Emit, x: Tensor, lengths: Tensor, *, seq_dim: int, batch_dim: int = 0
) -> Tensor:
    time, batch = g.axis(x, seq_dim), g.axis(x, batch_dim)
    if time == batch or x.rank < 2:
        g.refuse("the axes of time and batch must differ")
    front = (time, batch, *(axis for axis in range(x.rank) if axis not in (time, batch)))
    made = g(
        "ReverseSequence",
        g.transpose(x, front),
        g.cast(lengths, DType.I64),
        time_axis=0,
        batch_axis=1,
    )
    return g.transpose(made, tuple(front.index(axis) for axis in range(x.rank)))
