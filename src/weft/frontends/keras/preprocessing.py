# pyright: basic
"""Preprocessing as part of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.record import Config, Emit, Tensor, layer
from weft.frontends.keras.reshaping import resized


@layer(
    "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation", "RandomContrast",
    "RandomBrightness", "RandomHue", "RandomSaturation", "RandomColorJitter", "RandomShear",
    "RandomSharpness", "RandomGrayscale", "RandomPosterization", "RandomErasing",
    "RandomGaussianBlur", "RandomInvert", "RandomPerspective", "RandomElasticTransform",
    "RandomColorDegeneration", "MixUp", "CutMix", "RandAugment", "AugMix", masking=False,
)  # fmt: skip
def augmentation(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    # Only training augments.
    c.heed(*c.fields)
    return inputs


def _numbers(g: Emit, c: Config, name: str, default: Any = None) -> np.ndarray:
    """A field that is a number or nested lists of numbers."""
    found = c.get(name, default)
    if isinstance(found, dict):
        found = found.get("config", found).get("value")
    array = np.asarray(found)
    if array.dtype.kind not in "fiu":
        g.refuse(f"{name} must be numbers")
    return array.astype(g.compute.numpy)


@layer("Rescaling", masking=True)
def rescaling(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    scale, offset = _numbers(g, c, "scale"), _numbers(g, c, "offset", 0.0)
    x = g.cast(inputs, g.compute)
    made = g.mul(x, g.held(scale, "scale"))
    return made if not offset.any() else g("Add", made, g.held(offset, "offset"))


@layer("Normalization", masking=True)
def normalization(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    axes = c.numbers("axis") if c.has("axis") else ()
    kept = {g.axis(inputs, axis) for axis in axes}
    shape = tuple(size if axis in kept else 1 for axis, size in enumerate(inputs.shape))
    c.heed("axis")
    if c.has("mean"):
        mean, variance = _numbers(g, c, "mean"), _numbers(g, c, "variance")
    else:
        c.heed("mean", "variance")
        mean, variance, *_ = g.arrays_of("mean", "variance")
    mean, variance = (
        np.broadcast_to(each.reshape(shape) if each.size > 1 else each.reshape(()), shape)
        for each in (mean, variance)
    )
    spread = np.maximum(np.sqrt(variance), np.asarray(1e-7, g.compute.numpy))
    x = g.cast(inputs, g.compute)
    if c.flag("invert"):
        return g("Add", g("Mul", x, g.held(spread, "spread")), g.held(mean, "mean"))
    return g("Div", g("Sub", x, g.held(mean, "mean")), g.held(spread, "spread"))


def image_axes(g: Emit, x: Tensor, first: bool) -> tuple[int, int]:
    """Height and width of one image or several; ``first`` where channels come before them."""
    if x.rank not in (3, 4):
        g.refuse(f"its input must have 3 or 4 dimensions, but has {x.rank}")
    return (x.rank - 2, x.rank - 1) if first else (x.rank - 3, x.rank - 2)


def _cropped(g: Emit, x: Tensor, axes: tuple[int, int], sizes: tuple[int, int]) -> Tensor:
    for axis, size in zip(axes, sizes, strict=True):
        begin = (x.shape[axis] - size) // 2
        x = g.slice(x, axis, begin, begin + size)
    return x


@layer("CenterCrop")
def center_crop(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    axes, sizes = image_axes(g, inputs, c.channels_first()), (c.size("height"), c.size("width"))
    x = g.cast(inputs, g.compute)
    given = inputs.shape[axes[0]], inputs.shape[axes[1]]
    if all(have >= want for have, want in zip(given, sizes, strict=True)):
        return _cropped(g, x, axes, sizes)
    return resized(g, to_aspect(g, x, axes, sizes), sizes, axes, "bilinear")


def to_aspect(g: Emit, x: Tensor, axes: tuple[int, int], sizes: tuple[int, int]) -> Tensor:
    """The largest centred part of the image that has the target's proportions."""
    height, width = (x.shape[axis] for axis in axes)
    tall = min(height, int(float(width * sizes[0]) / sizes[1]))
    wide = min(width, int(float(height * sizes[1]) / sizes[0]))
    return _cropped(g, x, axes, (tall, wide))


def to_padded(
    g: Emit, x: Tensor, axes: tuple[int, int], sizes: tuple[int, int], fill: float
) -> Tensor:
    """The image amid a border that gives it the target's proportions, up to a pixel."""
    height, width = (x.shape[axis] for axis in axes)
    tall = max(height, int(float(width * sizes[0]) / sizes[1]))
    wide = max(width, int(float(height * sizes[1]) / sizes[0]))
    border = [0] * x.rank
    for axis, more in zip(axes, (tall - height, wide - width), strict=True):
        border[axis] = more // 2
    return g("Pad", x, pads=(*border, *border), value=fill) if any(border) else x


@layer("Resizing")
def resizing(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    c.text("fill_mode", "constant", ("constant",))
    fill = c.number("fill_value", 0.0)
    axes, sizes = image_axes(g, inputs, c.channels_first()), (c.size("height"), c.size("width"))
    mode = c.text("interpolation", "bilinear", ("bilinear", "nearest", "bicubic"))
    antialias = c.flag("antialias")
    x = inputs if inputs.dtype.is_float else g.cast(inputs, DType.F32)
    if c.flag("crop_to_aspect_ratio"):
        x = to_aspect(g, x, axes, sizes)
    elif c.flag("pad_to_aspect_ratio"):
        x = to_padded(g, x, axes, sizes, fill)
    made = resized(g, x, sizes, axes, mode, antialias)
    if inputs.dtype.is_float or g.major < 3:
        return g.cast(made, g.compute)
    # As of Keras 3, integers stay what they are.
    bounds = np.iinfo(inputs.dtype.numpy)
    made = g("Clip", g("Round", made), min=float(bounds.min), max=float(bounds.max))
    return g.cast(made, inputs.dtype)


# --- categories -------------------------------------------------------------------------------


def encoded(g: Emit, indices: Tensor, depth: int, mode: str, dtype: DType) -> Tensor:
    """Indices as vectors: one for each, or counted over the axis behind the batch."""
    if mode == "int":
        return indices
    if mode == "one_hot":
        if indices.shape[-1] == 1 and indices.rank > 1:
            indices = g.reshape(indices, indices.shape[:-1])
        return _one_hot(g, indices, depth, dtype)
    made = _one_hot(g, indices, depth, dtype)
    op = {"multi_hot": "ReduceMax", "count": "ReduceSum"}[mode]
    # Over the axis behind the batch, as Keras does, also where there are more.
    return g(op, made, axes=(1,), keepdims=0) if indices.rank > 1 else made


def _one_hot(g: Emit, indices: Tensor, depth: int, dtype: DType) -> Tensor:
    row = g.held(g.categories(depth, indices.dtype), "categories")
    return g.cast(g("Equal", g("Unsqueeze", indices, axes=(indices.rank,)), row), dtype)


@layer("CategoryEncoding")
def category_encoding(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    mode = c.text("output_mode", "multi_hot", ("one_hot", "multi_hot", "count"))
    indices = g.cast(inputs, DType.I32)
    return encoded(g, indices, c.size("num_tokens"), mode, g.compute)


@layer("Discretization")
def discretization(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    c.heed("num_bins", "epsilon")
    if not c.get("bin_boundaries"):
        g.refuse("it must have bin_boundaries")
    mode = c.text("output_mode", "int", ("int", "one_hot", "multi_hot", "count"))
    x = g.cast(inputs, DType.F32)
    edges = np.asarray(c.get("bin_boundaries"), np.float32)
    above = g("GreaterOrEqual", g("Unsqueeze", x, axes=(x.rank,)), g.held(edges, "edges"))
    whole = DType.I32 if g.major >= 3 else DType.I64
    index = g("ReduceSum", g.cast(above, whole), axes=(x.rank,), keepdims=0)
    return encoded(g, index, len(edges) + 1, mode, DType.F32)
