"""Layers in float whose weights are integers, as LiteRT's hybrid kernels compute them.

A run quantizes the layer's input to i8, sums products in i32 and scales the sums. Followed are the
builtin kernels, reference and optimized, of a LiteRT without delegates:

- fully connected and recurrent layers: every row of the input has a scale, and, if
  ``asymmetric_quantize_inputs`` is set, a zero point;
- convolutions by one scale for all weights: every image has a scale;
- convolutions by several scales or in groups, and depthwise ones: every image has a scale and a
  zero point.

XNNPACK, a delegate, dequantizes some of these weights instead and computes in float.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit
from weft.records import dataclass


@dataclass(frozen=True)
class Weights:
    """Weights as they are stored.

    Attributes:
        integers: in i8.
        scale: one, or one for each output channel.
    """

    integers: Tensor
    scale: np.ndarray

    @property
    def uniform(self) -> bool:
        """Whether all channels have one scale."""
        return bool((self.scale == self.scale[0]).all())


def stored_weights(g: Emit, x: Tensor, place: int) -> Weights | None:
    """The weights of a layer that quantizes its input as it runs; ``None`` for other layers.

    Args:
        g: of the layer.
        x: its input, in float.
        place: of the weights among the operator's inputs.
    """
    raw, info = g.raw[place], g.taken[place]
    if g.float_activations or raw is None or info is None or info.quantization is None:
        return None
    source = g.taken[0] if place else None
    if not x.dtype.is_float or (source is not None and source.quantization is not None):
        return None
    if raw.dtype is DType.U8:
        # Files from before i8: what the bits say as i8.
        array = g.array(raw)
        if array is None or info.quantization.zero_point.any():
            return None
        raw = g.shared(("i8", raw.name), array.view(np.int8), f"{g.base}/weight")
    if raw.dtype is not DType.I8 or info.quantization.zero_point.any():
        return None
    return Weights(raw, info.quantization.scale)


@dataclass(frozen=True)
class Dense:
    """A matrix of weights ``[units, inputs]``, to multiply rows by."""

    g: Emit
    weights: Tensor
    stored: Weights | None
    asymmetric: bool

    def __call__(self, rows: Tensor) -> Tensor:
        """The rows times the weights."""
        if self.stored is None:
            return self.g("Gemm", rows, self.weights, transB=1)
        return rows_product(self.g, rows, self.stored, None, self.asymmetric)


def dense(g: Emit, x: Tensor, weights: Tensor, place: int, asymmetric: bool) -> Dense:
    """The weights of a layer that are an input of it.

    Args:
        g: of the layer.
        x: the layer's input.
        weights: as numbers.
        place: of the weights among the operator's inputs.
        asymmetric: whether inputs that are quantized have a zero point.
    """
    return Dense(g, weights, stored_weights(g, x, place), asymmetric)


def rows_product(
    g: Emit, rows: Tensor, weights: Weights, bias: Tensor | None, asymmetric: bool
) -> Tensor:
    """Rows times weights ``[units, inputs]``, plus the bias; a scale for each row."""
    turned = Weights(g.rearranged(weights.integers, (1, 0)), weights.scale)
    return _with_bias(g, scaled_product(g, rows, turned, asymmetric), bias)


def scaled_product(g: Emit, rows: Tensor, weights: Weights, asymmetric: bool) -> Tensor:
    """Rows ``[..., inputs]`` times weights ``[..., inputs, units]``; a scale for each row."""
    last, zero = rows.rank - 1, None
    if asymmetric:
        whole, scale, zero = g.several("DynamicQuantizeAsymmetric", rows, outputs=3, axis=last)
    else:
        whole, scale = g.several("DynamicQuantizeSymmetric", rows, outputs=2, axis=last)
    sums = g("MatMulInteger", whole, weights.integers, zero)
    return g("Mul", g.cast(sums, DType.F32), _times(g, scale, weights))


def convolution(
    g: Emit,
    x: Tensor,
    weights: Weights,
    perm: Sequence[int],
    bias: Tensor | None,
    attributes: dict[str, Any],
    *,
    by_channel: bool,
) -> Tensor:
    """A convolution, channels last, plus the bias; a scale for each image.

    Args:
        g: of the layer.
        x: images.
        weights: as the file orders them.
        perm: brings the weights to the order of ``ConvInteger``.
        bias: in float.
        attributes: of the convolution.
        by_channel: whether the kernel for a scale by channel computes it.
    """
    integers = g.rearranged(weights.integers, perm)
    op = "ConvIntegerChannelsLast"
    if not by_channel:
        whole, scale = g.several("DynamicQuantizeSymmetric", x, outputs=2, axis=1)
        sums = g.cast(g(op, whole, integers, **attributes), DType.F32)
        return _with_bias(g, g("Mul", sums, _times(g, scale, weights)), bias)
    whole, scale, zero = g.several("DynamicQuantizeAsymmetric", x, outputs=3, axis=1)
    if x.shape[0] == 1:
        sums = g(op, whole, integers, g.reshape(zero, ()), **attributes)
    else:
        # An image's zero point counts for each weight that lies on the image.
        ones = g.constant(np.ones((1, *x.shape[1:]), np.int8), f"{g.base}/ones")
        reached = g(op, ones, integers, **attributes)
        sums = g(op, whole, integers, **attributes)
        sums = g("Sub", sums, g("Mul", g.cast(zero, DType.I32), reached))
    channels = g.constant(np.ascontiguousarray(weights.scale, np.float32), f"{g.base}/scale")
    scaled = g("Mul", g.cast(sums, DType.F32), channels)
    return _with_bias(g, g("Mul", scaled, scale), bias)


def _times(g: Emit, scale: Tensor, weights: Weights) -> Tensor:
    """The scales of an input times those of the weights."""
    held = weights.scale[0] if weights.uniform else weights.scale
    array = np.asarray(held, np.float32)
    return g("Mul", scale, g.shared(("scales", array.tobytes()), array, f"{g.base}/scale"))


def _with_bias(g: Emit, y: Tensor, bias: Tensor | None) -> Tensor:
    return y if bias is None else g("Add", y, bias)
