# pyright: basic
"""Parts of tensors, and tensors of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from weft.frontends.emit import Tensor
from weft.torch.aliases import views
from weft.torch.aten.record import Emit, aten


@aten("slice.Tensor")
def slice_axis(
    g: Emit, self: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    axis = g.axis(self, dim)
    taken = range(self.shape[axis])[slice(start, end, step)]
    return g.slice(self, axis, taken.start, max(taken.start, taken.stop), step)


@aten("narrow.default")
def narrow(g: Emit, self: Tensor, dim: int, start: int, length: int) -> Tensor:
    axis = g.axis(self, dim)
    start %= self.shape[axis] or 1
    return g.slice(self, axis, start, start + length)


@aten("select.int")
def select(g: Emit, self: Tensor, dim: int, index: int) -> Tensor:
    axis = g.axis(self, dim)
    index %= self.shape[axis]
    return g.reshape(g.slice(self, axis, index, index + 1), g.result.dims)


@aten("unbind.int")
def unbind(g: Emit, self: Tensor, dim: int) -> list[Tensor]:
    axis = g.axis(self, dim)
    shape = self.shape[:axis] + self.shape[axis + 1 :]
    parts = (g.slice(self, axis, place, place + 1) for place in range(self.shape[axis]))
    return [g.reshape(part, shape) for part in parts]


@aten(
    "split.Tensor",
    "split.sizes",
    "split_with_sizes.default",
    "chunk.default",
    "tensor_split.sections",
    "tensor_split.indices",
    "unsafe_split.Tensor",
    "unsafe_chunk.default",
)
def split(g: Emit, self: Tensor, dim: int = 0, **_: object) -> Sequence[Tensor]:
    # PyTorch has worked out the lengths.
    axis = g.axis(self, dim)
    lengths = tuple(type.dims[axis] for type in g.results if type)
    if len(lengths) == 1:
        return [self]
    return g.several("Split", self, outputs=len(lengths), axis=axis, split=lengths)


@aten("cat.default", "concat.default", "concatenate.default")
def cat(g: Emit, tensors: Sequence[Tensor], dim: int) -> Tensor:
    # Empty vectors are left out, whatever the rank of the others.
    some = [each for each in tensors if each.shape != (0,)] or tensors[:1]
    parts = [g.cast(each, g.dtype) for each in some]
    return parts[0] if len(parts) == 1 else g("Concat", *parts, axis=g.axis(parts[0], dim))


@aten("stack.default")
def stack(g: Emit, tensors: Sequence[Tensor], dim: int) -> Tensor:
    axis = dim % len(g.result.dims)
    shape = list(g.result.dims)
    shape[axis] = 1
    return cat(g, [g.reshape(each, shape) for each in tensors], axis)


@aten("hstack.default")
def hstack(g: Emit, tensors: Sequence[Tensor]) -> Tensor:
    parts = [each if each.rank else g.reshape(each, (1,)) for each in tensors]
    return cat(g, parts, min(1, parts[0].rank - 1))


@aten("vstack.default", "row_stack.default")
def vstack(g: Emit, tensors: Sequence[Tensor]) -> Tensor:
    return cat(g, [g.reshape(x, (1, prod(x.shape))) if x.rank < 2 else x for x in tensors], 0)


# --- other places of the same elements --------------------------------------------------------


@aten("flip.default")
def flip(g: Emit, self: Tensor, dims: Sequence[int]) -> Tensor:
    axes = g.axes(self, dims) if dims else ()
    if not axes:
        return self
    last = tuple(self.shape[axis] - 1 for axis in axes)
    before = tuple(-self.shape[axis] - 1 for axis in axes)
    return g("Slice", self, starts=last, ends=before, axes=axes, steps=(-1,) * len(axes))


@aten("fliplr.default")
def fliplr(g: Emit, self: Tensor) -> Tensor:
    return flip(g, self, (1,))


@aten("flipud.default")
def flipud(g: Emit, self: Tensor) -> Tensor:
    return flip(g, self, (0,))


@aten("rot90.default")
def rot90(g: Emit, self: Tensor, k: int, dims: Sequence[int]) -> Tensor:
    first, second = g.axes(self, dims)
    if k % 2 == 0:
        return flip(g, self, (first, second) if k % 4 else ())
    perm = list(range(self.rank))
    perm[first], perm[second] = second, first
    return flip(g, g.transpose(self, perm), (first if k % 4 == 1 else second,))


@aten("roll.default")
def roll(g: Emit, self: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Tensor:
    if not dims:
        flat = g.reshape(self, (prod(self.shape),))
        return g.reshape(roll(g, flat, shifts, (0,)), self.shape)
    x = self
    for shift, dim in zip(shifts, dims, strict=True):
        axis = g.axis(x, dim)
        length = x.shape[axis]
        cut = length - shift % length if length else 0
        if 0 < cut < length:
            x = g("Concat", g.slice(x, axis, cut, length), g.slice(x, axis, 0, cut), axis=axis)
    return x


@aten("diagonal.default", "linalg_diagonal.default")
def diagonal(g: Emit, self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    rows, columns = g.axis(self, dim1), g.axis(self, dim2)
    rest = [axis for axis in range(self.rank) if axis not in (rows, columns)]
    width = self.shape[columns]
    shape = g.result.dims
    x = g.transpose(self, [*rest, rows, columns])
    x = g.reshape(x, (*shape[:-1], self.shape[rows] * width))
    start = offset if offset >= 0 else -offset * width
    stop = start + max(0, shape[-1] - 1) * (width + 1) + (shape[-1] > 0)
    return g.slice(x, len(rest), start, stop, width + 1)


@aten("tril.default")
def tril(g: Emit, self: Tensor, diagonal: int) -> Tensor:
    return g("Trilu", self, upper=0, k=diagonal)


@aten("triu.default")
def triu(g: Emit, self: Tensor, diagonal: int) -> Tensor:
    return g("Trilu", self, upper=1, k=diagonal)


# --- windows ----------------------------------------------------------------------------------


@aten("unfold.default")
def unfold(g: Emit, self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    axis = g.axis(self, dimension)
    count = g.result.dims[axis]
    if size != step or count * size != self.shape[axis]:
        return g("Frames", self, length=size, step=step, axis=axis)
    x = g.reshape(self, (*self.shape[:axis], count, size, *self.shape[axis + 1 :]))
    return g.transpose(x, [place for place in range(x.rank) if place != axis + 1] + [axis + 1])


@aten("as_strided.default")
def as_strided(
    g: Emit,
    self: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    node = g.nodes["self"]
    value = node.meta["val"]
    if views(node)[0].op == "placeholder" or not value.is_contiguous():
        # An input of another call may lie otherwise.
        g.refuse("elements by strides are not supported of inputs and what is not contiguous")
    offset = value.storage_offset()
    first = (offset if storage_offset is None else storage_offset) - offset
    if not prod(size):
        return g("ConstantOfShape", shape=tuple(size), value=0, dtype=g.dtype)
    shape = [each for each in self.shape if each != 1] or [1]
    kept = {axis: (length, stride[axis]) for axis, length in enumerate(size) if length != 1}
    while True:
        owners, tables = _strided(shape, first, kept)
        beyond = [axis for axis, table in enumerate(tables) if table.max() >= shape[axis]]
        if first >= 0 and not beyond:
            break
        if first < 0 or beyond[-1] == 0:
            g.refuse("elements by strides are not supported beyond the tensor itself")
        # What reaches into the next row of an axis goes along both.
        shape[beyond[-1] - 1 : beyond[-1] + 1] = [prod(shape[beyond[-1] - 1 : beyond[-1] + 1])]
    x = g.reshape(self, shape)
    for axis, table in reversed(list(enumerate(tables))):
        if table.shape != (shape[axis],) or (table != np.arange(shape[axis])).any():
            x = g("Gather", x, g.constant(table, "places"), axis=axis)
    order = [axis for group in owners for axis in group]
    return g.reshape(g.transpose(x, [order.index(axis) for axis in sorted(order)]), size)


def _strided(
    shape: Sequence[int], first: int, wanted: Mapping[int, tuple[int, int]]
) -> tuple[list[list[int]], list[np.ndarray]]:
    """For each axis of a contiguous tensor, which wanted axes go along it, and where they read.

    Args:
        shape: of the tensor.
        first: the place of the first element read.
        wanted: by axis length and stride.
    """
    steps = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    owners: list[list[int]] = [[] for _ in shape]
    for each, (_, stride) in wanted.items():
        whole = [axis for axis, step in enumerate(steps) if stride % step == 0]
        owners[whole[0] if stride else -1].append(each)
    tables: list[np.ndarray] = []
    for axis, step in enumerate(steps):
        start, first = divmod(first, step)
        table = np.array(start)
        for each in owners[axis]:
            length, stride = wanted[each]
            table = table[..., None] + np.arange(length) * (stride // step)
        tables.append(table)
    return owners, tables


def _block_places(extent: int, kernel: int, stride: int, dilation: int) -> np.ndarray:
    count = (extent - dilation * (kernel - 1) - 1) // stride + 1
    return np.arange(kernel)[:, None] * dilation + np.arange(count) * stride


@aten("im2col.default")
def im2col(
    g: Emit,
    self: Tensor,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    x = g.reshape(self, (prod(self.shape[:-3]), *self.shape[-3:]))
    if any(padding):
        x = g("Pad", x, pads=(0, 0, *padding, 0, 0, *padding))
    rows, columns = (
        g.constant(_block_places(*each), "places")
        for each in zip(x.shape[2:], kernel_size, stride, dilation, strict=True)
    )
    x = g("Gather", g("Gather", x, rows, axis=2), columns, axis=4)
    return g.reshape(g.transpose(x, (0, 1, 2, 4, 3, 5)), g.result.dims)


@aten("col2im.default")
def col2im(
    g: Emit,
    self: Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    made = g(
        "Col2Im",
        g.reshape(self, (prod(self.shape[:-2]), *self.shape[-2:])),
        image_shape=tuple(output_size),
        block_shape=tuple(kernel_size),
        dilations=tuple(dilation),
        pads=tuple(padding) * 2,
        strides=tuple(stride),
    )
    return g.reshape(made, g.result.dims)
