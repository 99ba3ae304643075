"""Pooling and other operators of windows in images."""

from __future__ import annotations

from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, Kind, litert
from weft.frontends.litert.windows import window


@litert("MAX_POOL_2D", kind=Kind.STORED)
def max_pool_2d(
    g: Emit,
    x: Tensor,
    *,
    padding: int,
    stride_h: int,
    stride_w: int,
    filter_height: int,
    filter_width: int,
    fused_activation_function: int,
) -> Tensor:
    g.require_rank(x, 4)
    kernel, strides = (filter_height, filter_width), (stride_h, stride_w)
    attributes = window(g, x.shape[1:3], kernel, strides, (1, 1), padding)
    y = g("MaxPoolChannelsLast", x, **attributes)
    if fused_activation_function == 0 or x.dtype.is_float:
        return g.activated(y, fused_activation_function)
    info = g.result
    assert info.quantization is not None
    numbers = g.dequantized(y, info.quantization)
    return g.quantized(g.activated(numbers, fused_activation_function), info)


@litert("AVERAGE_POOL_2D")
def average_pool_2d(
    g: Emit,
    x: Tensor,
    *,
    padding: int,
    stride_h: int,
    stride_w: int,
    filter_height: int,
    filter_width: int,
    fused_activation_function: int,
) -> Tensor:
    g.require_rank(x, 4)
    kernel, strides = (filter_height, filter_width), (stride_h, stride_w)
    attributes = window(g, x.shape[1:3], kernel, strides, (1, 1), padding)
    y = g("AveragePoolChannelsLast", x, **attributes)
    return g.activated(y, fused_activation_function)


@litert("L2_POOL_2D")
def l2_pool_2d(
    g: Emit,
    x: Tensor,
    *,
    padding: int,
    stride_h: int,
    stride_w: int,
    filter_height: int,
    filter_width: int,
    fused_activation_function: int,
) -> Tensor:
    g.require_rank(x, 4)
    kernel, strides = (filter_height, filter_width), (stride_h, stride_w)
    attributes = window(g, x.shape[1:3], kernel, strides, (1, 1), padding)
    mean = g("AveragePoolChannelsLast", g("Mul", x, x), **attributes)
    return g.activated(g("Sqrt", mean), fused_activation_function)
