# pyright: basic
"""Layers that move, repeat, cut or pad elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.frontends.keras.convolution import spatial
from weft.frontends.keras.record import Config, Emit, Row, Tensor, layer


def shaped(g: Emit, x: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor under another shape, of which one size may be open (-1)."""
    known = math.prod(size for size in shape if size != -1)
    count = math.prod(x.shape)
    if list(shape).count(-1) > 1 or (-1 in shape and (known == 0 or count % known)):
        g.refuse(f"{list(x.shape)} cannot have the shape {list(shape)}")
    return g.reshape(x, [count // known if size == -1 else size for size in shape])


@layer("Reshape")
def reshape(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    return shaped(g, inputs, (inputs.shape[0], *c.numbers("target_shape")))


@layer("Flatten")
def flatten(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    x = inputs
    if c.channels_first() and x.rank > 2:
        # Keras flattens as if the channels were last.
        x = g.transpose(x, (0, *range(2, x.rank), 1))
    return g.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


@layer("Permute")
def permute(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    dims = c.numbers("dims")
    if sorted(dims) != list(range(1, inputs.rank)):
        g.refuse(f"dims must be an order of the axes 1 to {inputs.rank - 1}, but is {list(dims)}")
    return g.transpose(inputs, (0, *dims))


@layer("RepeatVector")
def repeat_vector(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    count = c.size("n")
    if inputs.rank != 2:
        g.refuse(f"its input must have 2 dimensions, but has {inputs.rank}")
    batch, size = inputs.shape
    return g.expand(g.reshape(inputs, (batch, 1, size)), (batch, count, size))


def _sides(c: Config, name: str, rank: int, default: int) -> list[tuple[int, int]]:
    """What is at both ends of each axis: one number, one for each axis, or two for each."""
    found: Any = c.get(name, default)
    each = [found] * rank if not isinstance(found, list | tuple) else list(found)
    if rank == 1 and len(each) == 2 and not isinstance(each[0], list | tuple):
        each = [each]
    inner = Config({str(place): value for place, value in enumerate(each)})
    pairs = [inner.sizes(str(place), 2, least=0) for place in range(len(each))]
    if len(pairs) != rank:
        c.sizes(name, rank, least=0)
    return [(before, after) for before, after in pairs]


def cropping(rank: int) -> Row:
    """The row of ``CroppingND``."""

    def row(g: Emit, c: Config, inputs: Tensor) -> Tensor:
        first = c.channels_first() if rank > 1 else False
        begins, ends = zip(*_sides(c, "cropping", rank, 1), strict=True)
        axes = tuple(axis + (2 if first else 1) for axis in range(rank))
        stops = [size - end for size, end in zip(spatial(inputs, first), ends, strict=True)]
        if any(stop <= start for stop, start in zip(stops, begins, strict=True)):
            g.refuse("it must leave something of its input")
        return g("Slice", inputs, starts=begins, ends=tuple(stops), axes=axes, steps=(1,) * rank)

    return row


def zero_padding(rank: int) -> Row:
    """The row of ``ZeroPaddingND``."""

    def row(g: Emit, c: Config, inputs: Tensor) -> Tensor:
        first = c.channels_first()
        begins, ends = zip(*_sides(c, "padding", rank, 1), strict=True)
        front, back = ((0, 0), ()) if first else ((0,), (0,))
        return g("Pad", inputs, pads=(*front, *begins, *back, *front, *ends, *back))

    return row


def up_sampling(rank: int) -> Row:
    """The row of ``UpSamplingND``."""

    def row(g: Emit, c: Config, inputs: Tensor) -> Tensor:
        first = c.channels_first() if rank > 1 else False
        factors = c.sizes("size", rank, 2)
        kinds = ("nearest", "bilinear", "bicubic")
        mode = c.text("interpolation", "nearest", kinds)
        axes = tuple(axis + (2 if first else 1) for axis in range(rank))
        sizes = tuple(
            size * factor for size, factor in zip(spatial(inputs, first), factors, strict=True)
        )
        return resized(g, inputs, sizes, axes, mode)

    return row


def resized(
    g: Emit,
    x: Tensor,
    sizes: Sequence[int],
    axes: Sequence[int],
    mode: str,
    antialias: bool = False,
) -> Tensor:
    """Axes stretched or shrunk, by pixel centres as in TensorFlow 2."""
    modes: dict[str, dict[str, Any]] = {
        "nearest": {"mode": "nearest", "nearest_mode": "floor"},
        # Where it is smoothed, weights of what lies outside are left out.
        "bilinear": {
            "mode": "linear",
            "antialias": int(antialias),
            "exclude_outside": int(antialias),
        },
        "bicubic": {
            "mode": "cubic",
            "cubic_coeff_a": -0.5,
            "exclude_outside": 1,
            "antialias": int(antialias),
        },
    }
    options = modes[mode]
    if mode == "nearest":
        # out * in / size, rounded down; by centres only where that is the same.
        whole = all(size % x.shape[axis] == 0 for size, axis in zip(sizes, axes, strict=True))
        options["coordinate_transformation_mode"] = "asymmetric" if whole else "half_pixel"
        options["nearest_mode"] = "floor" if whole else "round_prefer_ceil"
    full = list(x.shape)
    for size, axis in zip(sizes, axes, strict=True):
        full[axis] = size
    return x if tuple(full) == x.shape else g("Resize", x, sizes=tuple(full), **options)


for _rank in (1, 2, 3):
    layer(f"Cropping{_rank}D")(cropping(_rank))
    layer(f"ZeroPadding{_rank}D")(zero_padding(_rank))
    layer(f"UpSampling{_rank}D")(up_sampling(_rank))
