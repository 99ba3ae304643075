# pyright: basic
"""Rounding to integers, as ``weft.torch.convert`` marks it."""

from __future__ import annotations

import numpy as np

from weft.frontends.emit import Tensor
from weft.torch.aten.record import Emit, aten


@aten("weft::quantize_dequantize.default")
def quantize_dequantize(
    g: Emit, x: Tensor, scale: Tensor, zero_point: Tensor, largest: int
) -> Tensor:
    step = np.float32(g.builder.constants[scale.name].item())
    zero = int(g.builder.constants[zero_point.name].item())
    scale = g.constant(np.array(step), "scale")
    # Signed integers, as post-training quantization stores.
    stored = g.constant(np.array(zero - 128, np.int8), "zero_point")
    if largest < 255:
        # The type holds them at 0; a ReLU that this makes idle goes later.
        low = 0.0 if zero == 0 else None
        x = g("Clip", x, min=low, max=float(np.float32(largest - zero) * step))
    return g("DequantizeLinear", g("QuantizeLinear", x, scale, stored), scale, stored)


@aten("weft::dequantize.default")
def dequantize(g: Emit, x: Tensor, scale: Tensor, axis: int) -> Tensor:
    return g("DequantizeLinear", x, scale, axis=axis)
