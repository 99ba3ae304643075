# pyright: basic
"""Convolutions: plain, depthwise, separable and transposed, of one to three spatial axes.

Kernels lie as ``[spatial..., in, out]`` in Keras and as ``[out, in, spatial...]`` in Weft; they are
constants, so they are transposed here.  Images stay as they are: channels last unless the layer
says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.frontends.keras.activation import activated
from weft.frontends.keras.record import Config, Emit, Row, Tensor, layer
from weft.ops.channels_last import LAST


def image(g: Emit, op: str, first: bool, *inputs: Tensor | None, **attributes: object) -> Tensor:
    """An op of images in the layer's order of axes."""
    return g(op if first else LAST[op], *inputs, **attributes)


def spatial(x: Tensor, first: bool) -> tuple[int, ...]:
    """The sizes of an image without batch and channels."""
    return x.shape[2:] if first else x.shape[1:-1]


def same(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """TensorFlow's padding ``same``: before all axes, then after them; the odd one goes after."""
    totals = [
        max((-(-size // stride) - 1) * stride + (taps - 1) * dilation + 1 - size, 0)
        for size, taps, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    return (*(total // 2 for total in totals), *(total - total // 2 for total in totals))


def _window(c: Config, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Kernel, strides and dilations."""
    return (
        c.sizes("kernel_size", rank),
        c.sizes("strides", rank, 1),
        c.sizes("dilation_rate", rank, 1),
    )


Window = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Kernel, strides and dilations."""


def padded(x: Tensor, first: bool, padding: str, window: Window) -> tuple[int, ...] | None:
    """What a kind of padding adds before all axes, then after them; ``None`` if it is unknown."""
    kernel, strides, dilations = window
    match padding.lower():
        case "same":
            return same(spatial(x, first), kernel, strides, dilations)
        case "causal" if len(kernel) == 1:
            return ((kernel[0] - 1) * dilations[0], 0)
        case "valid":
            return (0,) * 2 * len(kernel)
        case _:
            return None


def _pads(c: Config, x: Tensor, first: bool, window: Window) -> tuple[int, ...]:
    found = padded(x, first, c.text("padding", "valid"), window)
    if found is None:
        c.text("padding", "valid", ("valid", "same"))  # refuses
    return found or ()


def _check_rank(g: Emit, x: Tensor, rank: int) -> None:
    if x.rank != rank + 2:
        g.refuse(f"its input must have {rank + 2} dimensions, but has {x.rank}")


def _bias(c: Config) -> list[str]:
    return ["bias"] if c.flag("use_bias", True) else []


def convolution(rank: int) -> Row:
    """The row of ``ConvND``."""

    def row(g: Emit, c: Config, inputs: Tensor) -> Tensor:
        _check_rank(g, inputs, rank)
        c.heed("filters")
        kernel, *bias = g.arrays_of("kernel", *_bias(c))
        made = convolved(g, c, inputs, kernel, bias, "kernel")
        return activated(g, made, c.get("activation"))

    return row


def convolved(
    g: Emit, c: Config, x: Tensor, kernel: np.ndarray, bias: Sequence[np.ndarray], name: str
) -> Tensor:
    first, window = c.channels_first(), _window(c, x.rank - 2)
    weight = g.held(np.moveaxis(kernel, (-1, -2), (0, 1)), name)
    _, strides, dilations = window
    return image(
        g,
        "Conv",
        first,
        x,
        weight,
        *(g.held(each, "bias") for each in bias),
        strides=strides,
        dilations=dilations,
        pads=_pads(c, x, first, window),
        groups=c.size("groups", 1),
    )


def _depthwise(
    g: Emit, c: Config, x: Tensor, kernel: np.ndarray, bias: Sequence[np.ndarray]
) -> Tensor:
    """``[spatial..., channels, multiplier]``: every channel has filters of its own."""
    first, window = c.channels_first(), _window(c, x.rank - 2)
    *taps, channels, multiplier = kernel.shape
    weight = np.moveaxis(kernel, (-2, -1), (0, 1)).reshape(channels * multiplier, 1, *taps)
    _, strides, dilations = window
    return image(
        g,
        "Conv",
        first,
        x,
        g.held(weight, "depthwise_kernel"),
        *(g.held(each, "bias") for each in bias),
        strides=strides,
        dilations=dilations,
        pads=_pads(c, x, first, window),
        groups=channels,
    )


def depthwise_convolution(rank: int) -> Row:
    """The row of ``DepthwiseConvND``."""

    def row(g: Emit, c: Config, inputs: Tensor) -> Tensor:
        _check_rank(g, inputs, rank)
        # Keras 2 wrote groups and filters of the class it derives from.
        c.heed("depth_multiplier", "groups", "filters")
        kernel, *bias = g.arrays_of(("depthwise_kernel", "kernel"), *_bias(c))
        made = _depthwise(g, c, inputs, kernel, bias)
        return activated(g, made, c.get("activation"))

    return row


def separable_convolution(rank: int) -> Row:
    """The row of ``SeparableConvND``."""

    def row(g: Emit, c: Config, inputs: Tensor) -> Tensor:
        _check_rank(g, inputs, rank)
        c.heed("depth_multiplier", "groups", "filters")
        depth, point, *bias = g.arrays_of("depthwise_kernel", "pointwise_kernel", *_bias(c))
        each = _depthwise(g, c, inputs, depth, ())
        weight = g.held(np.moveaxis(point, (-1, -2), (0, 1)), "pointwise_kernel")
        first = c.channels_first()
        made = image(g, "Conv", first, each, weight, *(g.held(one, "bias") for one in bias))
        return activated(g, made, c.get("activation"))

    return row


def _transposed_pads(kernel: int, stride: int, padding: str, extra: int | None) -> tuple[int, int]:
    """What is cropped on both sides of the whole scattered output; below 0 it is extended.

    Args:
        kernel: from the first to the last tap.
        stride: of the outputs.
        padding: ``valid`` or ``same``.
        extra: the layer's ``output_padding``.
    """
    if padding == "valid":
        extra = max(kernel, stride) - kernel if extra is None else extra
        return 0, -extra
    total = stride + kernel - 2 if extra is None else kernel + kernel % 2 - 2 + extra
    left = min(total // 2 + total % 2, kernel - 1)
    return kernel - 1 - left, kernel - 1 - (total - left)


def transposed_convolution(rank: int) -> Row:
    """The row of ``ConvNDTranspose``."""

    def row(g: Emit, c: Config, inputs: Tensor) -> Tensor:
        _check_rank(g, inputs, rank)
        c.heed("filters")
        first, (kernel, strides, dilations) = c.channels_first(), _window(c, rank)
        padding = c.text("padding", "valid", ("valid", "same"))
        extra = (
            c.sizes("output_padding", rank, least=0) if c.has("output_padding") else (None,) * rank
        )
        c.heed("output_padding")
        if c.size("groups", 1) != 1:
            g.refuse("groups of a transposed convolution are not supported")
        spans = [(taps - 1) * step + 1 for taps, step in zip(kernel, dilations, strict=True)]
        crops = [
            _transposed_pads(span, stride, padding, more)
            for span, stride, more in zip(spans, strides, extra, strict=True)
        ]
        weight, *bias = g.arrays_of("kernel", *_bias(c))
        made = image(
            g,
            "ConvTranspose",
            first,
            inputs,
            # [spatial..., out, in] becomes [in, out, spatial...].
            g.held(np.moveaxis(weight, (-1, -2), (0, 1)), "kernel"),
            *(g.held(each, "bias") for each in bias),
            strides=strides,
            dilations=dilations,
            pads=(*(max(a, 0) for a, _ in crops), *(max(b, 0) for _, b in crops)),
            output_padding=tuple(max(-b, 0) for _, b in crops),
        )
        return activated(g, made, c.get("activation"))

    return row


for _rank in (1, 2, 3):
    layer(f"Conv{_rank}D", f"Convolution{_rank}D")(convolution(_rank))
    layer(f"Conv{_rank}DTranspose", f"Convolution{_rank}DTranspose")(transposed_convolution(_rank))
for _rank in (1, 2):
    layer(f"DepthwiseConv{_rank}D")(depthwise_convolution(_rank))
    layer(f"SeparableConv{_rank}D", f"SeparableConvolution{_rank}D")(separable_convolution(_rank))
