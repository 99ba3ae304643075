"""Resizing, and moving blocks between channels, batch and image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, Kind, litert


def _sizes(g: Emit, x: Tensor, size: Tensor) -> tuple[int, ...]:
    g.require_rank(x, 4)
    sizes = g.ints(size, "the size")
    if len(sizes) != 2 or min(sizes) < 1 or max(sizes) > 1 << 20 or 0 in x.shape:
        g.refuse(f"sizes {list(sizes)} must be two, at least 1")
    return sizes


@litert("RESIZE_BILINEAR")
def resize_bilinear(
    g: Emit,
    x: Tensor,
    size: Tensor,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    sizes = _sizes(g, x, size)
    transform = "half_pixel" if half_pixel_centers else "asymmetric"
    if align_corners:
        transform = "align_corners"
    return g(
        "Resize",
        x,
        sizes=sizes,
        axes=(1, 2),
        mode="linear",
        coordinate_transformation_mode=transform,
    )


@litert("RESIZE_NEAREST_NEIGHBOR", kind=Kind.STORED)
def resize_nearest_neighbor(
    g: Emit,
    x: Tensor,
    size: Tensor,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    sizes = _sizes(g, x, size)
    for axis, wanted in zip((1, 2), sizes, strict=True):
        found = x.shape[axis]
        if found == wanted:
            continue
        span = (found - 1) / (wanted - 1) if align_corners and wanted > 1 else found / wanted
        # In the 32 bits in which LiteRT finds the pixels, too.
        offset = np.float32(0.5 if half_pixel_centers else 0)
        at = (np.arange(wanted, dtype=np.float32) + offset) * np.float32(span)
        at = np.floor(at + np.float32(0.5)) if align_corners else np.floor(at)
        places = np.minimum(at.astype(np.int64), found - 1)
        x = g("Gather", x, g.constant(np.maximum(places, 0)), axis=axis)
    return x


@litert("DEPTH_TO_SPACE", kind=Kind.STORED)
def depth_to_space(g: Emit, x: Tensor, *, block_size: int) -> Tensor:
    g.require_rank(x, 4)
    return g("DepthToSpaceChannelsLast", x, blocksize=block_size)


@litert("SPACE_TO_DEPTH", kind=Kind.STORED)
def space_to_depth(g: Emit, x: Tensor, *, block_size: int) -> Tensor:
    g.require_rank(x, 4)
    return g("SpaceToDepthChannelsLast", x, blocksize=block_size)


def _blocks(
    g: Emit, x: Tensor, block: Tensor, ends: Tensor
) -> tuple[tuple[int, ...], Sequence[tuple[int, int]]]:
    """The sizes of blocks, and how many elements are added or cut at each end of axes 1, 2, ..."""
    sizes, flat = g.ints(block, "the block's shape"), g.ints(ends, "paddings or crops")
    if not 1 <= len(sizes) < x.rank or len(flat) != 2 * len(sizes) or min(*sizes, 1) < 1:
        g.refuse(f"blocks {list(sizes)} do not fit {x.type}")
    if min(flat) < 0:
        g.refuse("paddings and crops must not be negative")
    return sizes, list(zip(flat[::2], flat[1::2], strict=True))


@litert("SPACE_TO_BATCH_ND", kind=Kind.STORED)
def space_to_batch_nd(g: Emit, x: Tensor, block: Tensor, paddings: Tensor) -> Tensor:
    sizes, ends = _blocks(g, x, block, paddings)
    rest = x.rank - 1 - len(sizes)
    if any(map(any, ends)):
        before, after = zip(*ends, strict=True)
        pads = (0, *before, *(0,) * rest, 0, *after, *(0,) * rest)
        x = g("Pad", x, g.stored_zero(x), pads=pads)
    split: list[int] = [x.shape[0]]
    for extent, size in zip(x.shape[1:], sizes, strict=False):
        if extent % size:
            g.refuse(f"blocks {list(sizes)} must divide {x.type}")
        split += extent // size, size
    split += x.shape[1 + len(sizes) :]
    count = len(sizes)
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    perm = (*inner, 0, *outer, *range(2 * count + 1, len(split)))
    moved = g.transpose(g.reshape(x, split), perm)
    batch = int(np.prod(moved.shape[: count + 1]))
    return g.reshape(moved, (batch, *moved.shape[count + 1 :]))


@litert("BATCH_TO_SPACE_ND", kind=Kind.STORED)
def batch_to_space_nd(g: Emit, x: Tensor, block: Tensor, crops: Tensor) -> Tensor:
    sizes, ends = _blocks(g, x, block, crops)
    count = len(sizes)
    blocks = int(np.prod(sizes))
    if x.shape[0] % blocks:
        g.refuse(f"blocks {list(sizes)} must divide the batch of {x.type}")
    split = g.reshape(x, (*sizes, x.shape[0] // blocks, *x.shape[1:]))
    pairs = [each for at in range(count) for each in (count + 1 + at, at)]
    perm = (count, *pairs, *range(2 * count + 1, split.rank))
    moved = g.transpose(split, perm)
    spatial = [extent * size for extent, size in zip(x.shape[1:], sizes, strict=False)]
    y = g.reshape(moved, (x.shape[0] // blocks, *spatial, *x.shape[1 + count :]))
    for at, (before, after) in enumerate(ends):
        extent = y.shape[1 + at]
        if before + after > extent:
            g.refuse(f"crops of {before} and {after} must fit {extent}")
        y = g.slice(y, 1 + at, before, extent - after)
    return y
