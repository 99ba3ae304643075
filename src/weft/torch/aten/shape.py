# pyright: basic
"""Other shapes, orders and types of the same elements, and repetitions of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.torch.aten.record import Emit, aten


@aten(
    "view.default",
    "reshape.default",
    "_unsafe_view.default",
    "_reshape_alias.default",
    "view_as.default",
    "reshape_as.default",
    "ravel.default",
    "flatten.using_ints",
    "unflatten.int",
    "unsqueeze.default",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "atleast_1d.default",
    "atleast_2d.default",
    "atleast_3d.default",
)
def reshape(g: Emit, self: Tensor, **_: object) -> Tensor:
    # PyTorch has worked out the shape.
    return g.reshape(self, g.result.dims)


@aten(
    "alias.default",
    "clone.default",
    "contiguous.default",
    "detach.default",
    "lift.default",
    "lift_fresh.default",
    "lift_fresh_copy.default",
)
def same(g: Emit, self: Tensor) -> Tensor:
    return self


@aten(
    "to.dtype",
    "to.device",
    "to.dtype_layout",
    "to.other",
    "to.prim_Device",
    "_to_copy.default",
    "type_as.default",
    "view.dtype",
)
def to(g: Emit, self: Tensor, **_: object) -> Tensor:
    # PyTorch has worked out the element type.
    return g.cast(self, g.dtype)


@aten(
    "dropout.default",
    "feature_dropout.default",
    "alpha_dropout.default",
    "feature_alpha_dropout.default",
)
def dropout(g: Emit, input: Tensor, p: float, train: bool) -> Tensor:
    if train and p:
        g.refuse("dropout in training is not supported")
    return input


@aten("native_dropout.default")
def native_dropout(g: Emit, input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    kept = g("ConstantOfShape", shape=input.shape, value=True, dtype=DType.BOOL)
    return dropout(g, input, p, bool(train)), kept


# --- orders of axes ---------------------------------------------------------------------------


@aten("permute.default")
def permute(g: Emit, self: Tensor, dims: Sequence[int]) -> Tensor:
    return g.transpose(self, [g.axis(self, dim) for dim in dims])


@aten("transpose.int")
def transpose(g: Emit, self: Tensor, dim0: int, dim1: int) -> Tensor:
    perm = list(range(self.rank))
    if perm:
        first, second = g.axis(self, dim0), g.axis(self, dim1)
        perm[first], perm[second] = second, first
    return g.transpose(self, perm)


@aten("swapaxes.default")
def swapaxes(g: Emit, self: Tensor, axis0: int, axis1: int) -> Tensor:
    return transpose(g, self, axis0, axis1)


@aten("swapdims.default")
def swapdims(g: Emit, self: Tensor, dim0: int, dim1: int) -> Tensor:
    return transpose(g, self, dim0, dim1)


@aten("t.default", "numpy_T.default")
def reversed_axes(g: Emit, self: Tensor) -> Tensor:
    return g.transpose(self, range(self.rank)[::-1])


@aten("mT.default", "adjoint.default", "mH.default")
def matrix_transpose(g: Emit, self: Tensor) -> Tensor:
    return transpose(g, self, -2, -1)


@aten("movedim.intlist", "movedim.int", "moveaxis.intlist", "moveaxis.int")
def movedim(
    g: Emit, self: Tensor, source: Sequence[int] | int, destination: Sequence[int] | int
) -> Tensor:
    targets = dict(zip(g.axes(self, destination), g.axes(self, source), strict=True))
    rest = iter(axis for axis in range(self.rank) if axis not in targets.values())
    return g.transpose(self, [targets[p] if p in targets else next(rest) for p in range(self.rank)])


# --- repetitions ------------------------------------------------------------------------------


@aten("expand.default", "expand_as.default", "broadcast_to.default")
def expand(g: Emit, self: Tensor, **_: object) -> Tensor:
    return g.expand(self, g.result.dims)


@aten("broadcast_tensors.default")
def broadcast_tensors(g: Emit, tensors: Sequence[Tensor]) -> list[Tensor]:
    return [g.expand(each, g.result.dims) for each in tensors]


@aten("meshgrid.indexing", "meshgrid.default")
def meshgrid(g: Emit, tensors: Sequence[Tensor], indexing: str = "ij") -> list[Tensor]:
    shape = g.result.dims
    places = list(range(len(tensors)))
    if indexing == "xy" and len(places) > 1:
        places[:2] = 1, 0
    found: list[Tensor] = []
    for place, each in zip(places, tensors, strict=True):
        lined = [1] * len(shape)
        lined[place] = prod(each.shape)
        found.append(g.expand(g.reshape(each, lined), shape))
    return found


@aten("repeat.default")
def repeat(g: Emit, self: Tensor, repeats: Sequence[int]) -> Tensor:
    x = g.reshape(self, (1,) * (len(repeats) - self.rank) + self.shape)
    return x if all(times == 1 for times in repeats) else g("Tile", x, repeats=tuple(repeats))


@aten("tile.default")
def tile(g: Emit, self: Tensor, dims: Sequence[int]) -> Tensor:
    return repeat(g, self, (1,) * (self.rank - len(dims)) + tuple(dims))


@aten("repeat_interleave.self_int")
def repeat_interleave(g: Emit, self: Tensor, repeats: int, dim: int | None) -> Tensor:
    x = g.reshape(self, (prod(self.shape),)) if dim is None else self
    axis = g.axis(x, dim or 0)
    split = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    wide = (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
    return g.reshape(g.expand(g.reshape(x, split), wide), g.result.dims)


# --- blocks of images -------------------------------------------------------------------------


@aten("pixel_shuffle.default")
def pixel_shuffle(g: Emit, self: Tensor, upscale_factor: int) -> Tensor:
    x = g.reshape(self, (prod(self.shape[:-3]), *self.shape[-3:]))
    return g.reshape(g("DepthToSpace", x, blocksize=upscale_factor, mode="CRD"), g.result.dims)


@aten("pixel_unshuffle.default")
def pixel_unshuffle(g: Emit, self: Tensor, downscale_factor: int) -> Tensor:
    block = downscale_factor
    height, width = self.shape[-2:]
    shape = (prod(self.shape[:-2]), height // block, block, width // block, block)
    return g.reshape(g.transpose(g.reshape(self, shape), (0, 2, 4, 1, 3)), g.result.dims)


@aten("channel_shuffle.default", "native_channel_shuffle.default")
def channel_shuffle(g: Emit, self: Tensor, groups: int) -> Tensor:
    batch, channels, *image = self.shape
    x = g.reshape(self, (batch, groups, channels // groups, prod(image)))
    return g.reshape(g.transpose(x, (0, 2, 1, 3)), self.shape)
