# pyright: basic
"""Ops that stand for quantization in an exported graph; ``aten/quantization.py`` imports them."""

from __future__ import annotations

import torch


@torch.library.custom_op("weft::quantize_dequantize", mutates_args=())
def quantize_dequantize(
    x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, largest: int
) -> torch.Tensor:
    """Rounds to the integers 0 to ``largest`` by ONNX's QuantizeLinear, and back.

    Args:
        x: f32, any shape.
        scale: f32, one element.
        zero_point: an integer in 0 to ``largest``, one element.
        largest: at most 255.
    """
    whole = torch.round(x / scale) + zero_point
    return (whole.clamp(0, largest) - zero_point) * scale


@quantize_dequantize.register_fake
def _(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, largest: int) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("weft::dequantize", mutates_args=())
def dequantize(x: torch.Tensor, scale: torch.Tensor, axis: int) -> torch.Tensor:
    """Weights from integers.

    Args:
        x: i8, any shape.
        scale: f32, one element for each position along ``axis``, or one in all.
        axis: of the scales.
    """
    return x * spread(scale, axis, x.dim())


@dequantize.register_fake
def _(x: torch.Tensor, scale: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.empty_like(x, dtype=scale.dtype)


def spread(values: torch.Tensor, axis: int, rank: int) -> torch.Tensor:
    """Numbers along an axis, as they broadcast against a tensor of a rank."""
    if values.numel() == 1:
        return values.reshape(())
    return values.reshape([-1 if place == axis else 1 for place in range(rank)])
