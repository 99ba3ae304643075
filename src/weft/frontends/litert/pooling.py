"""Pooling and other operators of windows in images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, Function, Kind, litert
from weft.frontends.litert.windows import window


def _pool(pooled: Callable[[Emit, Tensor, dict[str, Any]], Tensor]) -> Function:
    """The row of an operator that computes every window with the same attributes."""

    def row(
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
        y = pooled(g, x, window(g, x.shape[1:3], kernel, strides, (1, 1), padding))
        if fused_activation_function == 0 or y.dtype.is_float:
            return g.activated(y, fused_activation_function)
        info = g.result
        assert info.quantization is not None
        numbers = g.dequantized(y, info.quantization)
        return g.quantized(g.activated(numbers, fused_activation_function), info)

    return row


def _largest(g: Emit, x: Tensor, attributes: dict[str, Any]) -> Tensor:
    return g("MaxPoolChannelsLast", x, **attributes)


def _mean(g: Emit, x: Tensor, attributes: dict[str, Any]) -> Tensor:
    return g("AveragePoolChannelsLast", x, **attributes)


def _root_mean_square(g: Emit, x: Tensor, attributes: dict[str, Any]) -> Tensor:
    return g("Sqrt", _mean(g, g("Mul", x, x), attributes))


litert("MAX_POOL_2D", kind=Kind.STORED)(_pool(_largest))
litert("AVERAGE_POOL_2D")(_pool(_mean))
litert("L2_POOL_2D")(_pool(_root_mean_square))
