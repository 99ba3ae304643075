"""Convolutions; images have their channels last, weights are brought to Weft's order."""

from __future__ import annotations

from weft.frontends.emit import Tensor
from weft.frontends.litert.hybrid import convolution, stored_weights
from weft.frontends.litert.record import Emit, Function, litert
from weft.frontends.litert.windows import SAME, window


def _channels(g: Emit, x: Tensor, each: int) -> int:
    """The groups of a convolution whose weights have so many channels of the input."""
    if not each or x.shape[-1] % each:
        g.refuse(f"weights of {each} channels must divide the input's {x.shape[-1]}")
    return x.shape[-1] // each


def _convolution_2d(*, depthwise: bool) -> Function:
    """The row of a convolution of images; of a depthwise one, weights are ``[1, h, w, out]``."""

    def row(
        g: Emit,
        x: Tensor,
        w: Tensor,
        b: Tensor | None = None,
        *,
        padding: int,
        stride_h: int,
        stride_w: int,
        dilation_h_factor: int = 1,
        dilation_w_factor: int = 1,
        fused_activation_function: int,
    ) -> Tensor:
        g.require_rank(x, 4)
        g.require_rank(w, 4)
        if depthwise and (w.shape[0] != 1 or not x.shape[3] or w.shape[3] % x.shape[3]):
            g.refuse(f"weights {w.type} do not fit the input {x.type}")
        strides, dilations = (stride_h, stride_w), (dilation_h_factor, dilation_w_factor)
        attributes = window(g, x.shape[1:3], w.shape[1:3], strides, dilations, padding)
        groups = x.shape[3] if depthwise else _channels(g, x, w.shape[3])
        attributes["groups"] = groups
        perm = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)
        stored = stored_weights(g, x, 1)
        if stored is not None:
            by_channel = depthwise or groups > 1 or not stored.uniform
            y = convolution(g, x, stored, perm, b, attributes, by_channel=by_channel)
        else:
            y = g("ConvChannelsLast", x, g.rearranged(w, perm), g.bias(b, 2), **attributes)
        return g.activated(y, fused_activation_function)

    return row


litert("CONV_2D")(_convolution_2d(depthwise=False))
litert("DEPTHWISE_CONV_2D")(_convolution_2d(depthwise=True))


@litert("CONV_3D")
def conv_3d(
    g: Emit,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    padding: int,
    stride_d: int,
    stride_h: int,
    stride_w: int,
    dilation_d_factor: int = 1,
    dilation_h_factor: int = 1,
    dilation_w_factor: int = 1,
    fused_activation_function: int,
) -> Tensor:
    g.require_rank(x, 5)
    g.require_rank(w, 5)
    attributes = window(
        g,
        x.shape[1:4],
        w.shape[:3],
        (stride_d, stride_h, stride_w),
        (dilation_d_factor, dilation_h_factor, dilation_w_factor),
        padding,
    )
    groups = _channels(g, x, w.shape[3])
    weight = g.rearranged(w, (4, 3, 0, 1, 2))
    y = g("ConvChannelsLast", x, weight, g.bias(b, 2), groups=groups, **attributes)
    return g.activated(y, fused_activation_function)


@litert("TRANSPOSE_CONV")
def transpose_conv(
    g: Emit,
    output_shape: Tensor,
    w: Tensor,
    x: Tensor,
    b: Tensor | None = None,
    *,
    padding: int,
    stride_h: int,
    stride_w: int,
    fused_activation_function: int = 0,
) -> Tensor:
    g.require_rank(x, 4)
    g.require_rank(w, 4)
    sizes = g.ints(output_shape, "the output's shape")
    strides, kernel = (stride_h, stride_w), w.shape[1:3]
    if len(sizes) != 4 or min(*sizes, *strides, *kernel) < 1 or w.shape[3] != x.shape[3]:
        g.refuse(f"an output {list(sizes)} does not fit {x.type} and {w.type}")
    begins: list[int] = []
    ends: list[int] = []
    more: list[int] = []
    for size, wanted, stride, taps in zip(x.shape[1:3], sizes[1:3], strides, kernel, strict=True):
        reach = (size - 1) * stride + taps
        cut = max(0, reach - wanted)
        # What is cut lies last, except that SAME shares it.
        begins.append(cut // 2 if padding == SAME else 0)
        ends.append(cut - begins[-1])
        more.append(wanted - reach + cut)
    weight = g.rearranged(w, (3, 0, 1, 2))
    if any(each >= stride for each, stride in zip(more, strides, strict=True)):
        g.refuse(f"an output {list(sizes)} is too large for {x.type}")
    y = g(
        "ConvTransposeChannelsLast",
        x,
        weight,
        _transposed_bias(g, b),
        kernel=kernel,
        strides=strides,
        pads=(*begins, *ends),
        output_padding=tuple(more),
    )
    return g.activated(y, fused_activation_function)


def _transposed_bias(g: Emit, b: Tensor | None) -> Tensor | None:
    """The bias; x is the third input here."""
    if b is None:
        return None
    taken, raw = g.taken, g.raw
    try:
        g.taken, g.raw = (taken[2], taken[1], taken[3]), (raw[2], raw[1], raw[3])
        return g.bias(b, 2)
    finally:
        g.taken, g.raw = taken, raw
