# pyright: basic
"""Functions of ``keras.ops`` on images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.frontends.keras.convolution import image
from weft.frontends.keras.network_operations import channels_first, pads_of, sizes_of
from weft.frontends.keras.preprocessing import image_axes, to_aspect, to_padded
from weft.frontends.keras.record import Emit, Tensor, operation
from weft.frontends.keras.reshaping import resized


@operation("Resize")
def resize(
    g: Emit,
    images: Tensor,
    size: Sequence[int],
    interpolation: str = "bilinear",
    antialias: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
    data_format: str | None = None,
) -> Tensor:
    axes = image_axes(g, images, channels_first(g, data_format))
    sizes = sizes_of(g, size, 2, "size")
    if interpolation not in ("bilinear", "nearest", "bicubic"):
        g.refuse(f"interpolation {str(interpolation)[:20]} is not supported")
    if fill_mode != "constant":
        g.refuse(f"fill_mode must be constant, but is {str(fill_mode)[:20]}")
    if not images.dtype.is_float:
        g.refuse("its images must be floating-point numbers")
    x, proportions = images, (sizes[0], sizes[1])
    if crop_to_aspect_ratio:
        x = to_aspect(g, x, axes, proportions)
    elif pad_to_aspect_ratio:
        x = to_padded(g, x, axes, proportions, float(fill_value))
    return resized(g, x, sizes, axes, interpolation, antialias)


@operation("RGBToGrayscale")
def to_grayscale(g: Emit, images: Tensor, data_format: str | None = None) -> Tensor:
    axis = images.rank - (3 if channels_first(g, data_format) else 1)
    if images.shape[axis] == 1:
        return images
    if not images.dtype.is_float:
        g.refuse("its images must be floating-point numbers")
    weights = np.asarray([0.2989, 0.587, 0.114], images.dtype.numpy)
    shape = [3 if at == axis else 1 for at in range(images.rank)]
    weighted = g("Mul", images, g.held(weights.reshape(shape), "weights"))
    return g("ReduceSum", weighted, axes=(axis,), keepdims=1)


@operation("DepthToSpace")
def depth_to_space(
    g: Emit, x: Tensor, block_size: int, data_format: str = "channels_last"
) -> Tensor:
    return image(g, "DepthToSpace", channels_first(g, data_format), x, blocksize=block_size)


@operation("SpaceToDepth")
def space_to_depth(
    g: Emit, x: Tensor, block_size: int, data_format: str = "channels_last"
) -> Tensor:
    if channels_first(g, data_format):
        # With TensorFlow the places in a block come first, with PyTorch and JAX the channels.
        g.refuse("its backends order the channels of channels_first differently")
    return image(g, "SpaceToDepth", False, x, blocksize=block_size)


@operation("ExtractPatches")
def extract_patches(
    g: Emit,
    images: Tensor,
    size: Any,
    strides: Any = None,
    dilation_rate: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:
    first = channels_first(g, data_format)
    x = images if images.rank == 4 else g("Unsqueeze", images, axes=(0,))
    if x.rank != 4:
        g.refuse(f"its images must have 3 or 4 dimensions, but have {images.rank}")
    if first:
        x = g.transpose(x, (0, 2, 3, 1))
    kernel = sizes_of(g, size, 2, "size")
    steps = kernel if strides is None else sizes_of(g, strides, 2, "strides")
    dilations = sizes_of(g, dilation_rate, 2, "dilation_rate")
    pads = pads_of(g, x, False, padding, (kernel, steps, dilations))
    if any(pads):
        x = g("Pad", x, pads=(0, *pads[:2], 0, 0, *pads[2:], 0))
    for axis in (0, 1):
        # [..., size, ...] becomes [..., count, taps, ...].
        at = 1 + 2 * axis
        span = (kernel[axis] - 1) * dilations[axis]
        starts = np.arange(0, x.shape[at] - span, steps[axis])
        places = starts[:, None] + dilations[axis] * np.arange(kernel[axis])
        x = g("Gather", x, g.held(places.astype(np.int64), f"places{axis}"), axis=at)
    batch, tall, high, wide, broad, channels = x.shape
    x = g.transpose(x, (0, 1, 3, 2, 4, 5))
    x = g.reshape(x, (batch, tall, wide, high * broad * channels))
    if first:
        x = g.transpose(x, (0, 3, 1, 2))
    return x if images.rank == 4 else g.reshape(x, x.shape[1:])


def _margins(
    g: Emit,
    x: Tensor,
    axes: tuple[int, int],
    before: Sequence[int | None],
    after: Sequence[int | None],
    target: Sequence[int | None],
    sign: int,
) -> tuple[list[int], list[int]]:
    """What lies before and behind the image on each axis; of three numbers two are given."""
    begins: list[int] = []
    ends: list[int] = []
    for axis, begin, end, size in zip(axes, before, after, target, strict=True):
        total = None if size is None else sign * (size - x.shape[axis])
        if begin is None and end is not None and total is not None:
            begin = total - end
        if end is None and begin is not None and total is not None:
            end = total - begin
        if begin is None or end is None or begin < 0 or end < 0:
            g.refuse(f"margins {begin} and {end} of an axis of {x.shape[axis]} to {size}")
        begins.append(begin)
        ends.append(end)
    return begins, ends


@operation("PadImages")
def pad_images(
    g: Emit,
    images: Tensor,
    top_padding: int | None = None,
    left_padding: int | None = None,
    bottom_padding: int | None = None,
    right_padding: int | None = None,
    target_height: int | None = None,
    target_width: int | None = None,
    data_format: str | None = None,
) -> Tensor:
    axes = image_axes(g, images, channels_first(g, data_format))
    before, after = (top_padding, left_padding), (bottom_padding, right_padding)
    begins, ends = _margins(g, images, axes, before, after, (target_height, target_width), 1)
    pads = [0] * 2 * images.rank
    for axis, begin, end in zip(axes, begins, ends, strict=True):
        pads[axis], pads[images.rank + axis] = begin, end
    return g("Pad", images, pads=tuple(pads))


@operation("CropImages")
def crop_images(
    g: Emit,
    images: Tensor,
    top_cropping: int | None = None,
    left_cropping: int | None = None,
    bottom_cropping: int | None = None,
    right_cropping: int | None = None,
    target_height: int | None = None,
    target_width: int | None = None,
    data_format: str | None = None,
) -> Tensor:
    axes = image_axes(g, images, channels_first(g, data_format))
    before, after = (top_cropping, left_cropping), (bottom_cropping, right_cropping)
    begins, ends = _margins(g, images, axes, before, after, (target_height, target_width), -1)
    for axis, begin, end in zip(axes, begins, ends, strict=True):
        images = g.slice(images, axis, begin, images.shape[axis] - end)
    return images
