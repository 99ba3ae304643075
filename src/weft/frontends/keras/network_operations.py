# pyright: basic
"""Functions of ``keras.ops`` that compute what layers do, with weights that are operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.attention import penalties
from weft.frontends.keras.convolution import Window, image, padded
from weft.frontends.keras.normalization import normalized
from weft.frontends.keras.operations import EPSILON, Operand, tensor
from weft.frontends.keras.pooling import adapted
from weft.frontends.keras.record import Emit, Row, Tensor, operation


def channels_first(g: Emit, data_format: str | None) -> bool:
    if data_format not in (None, "channels_first", "channels_last"):
        g.refuse(f"data_format {str(data_format)[:20]} is not known")
    return data_format == "channels_first"


def sizes_of(g: Emit, given: Any, rank: int, what: str) -> tuple[int, ...]:
    """A number for every axis, or one for each."""
    found = (given,) * rank if isinstance(given, int) else tuple(given)
    if len(found) != rank or not all(isinstance(each, int) and each > 0 for each in found):
        g.refuse(f"{what} must be {rank} positive numbers, but is {str(given)[:40]}")
    return found


def pads_of(g: Emit, x: Tensor, first: bool, padding: str, window: Window) -> tuple[int, ...]:
    """Before all axes, then after them."""
    found = padded(x, first, padding, window)
    if found is None:
        g.refuse(f"padding {padding[:20]} is not supported")
    return found


# --- convolutions -----------------------------------------------------------------------------


def _kernel(g: Emit, given: Operand, order: Sequence[int]) -> Tensor:
    """A kernel with its axes in Weft's order."""
    if isinstance(given, Tensor):
        return g.transpose(given, order)
    return g.held(np.transpose(np.asarray(given, g.compute.numpy), order), "kernel")


def _swapped(rank: int) -> tuple[int, ...]:
    """``[spatial..., a, b]`` as ``[b, a, spatial...]``."""
    return (rank - 1, rank - 2, *range(rank - 2))


def _convolved(
    g: Emit,
    x: Tensor,
    weight: Tensor,
    groups: int,
    strides: Any,
    padding: str,
    dilation_rate: Any,
    first: bool,
) -> Tensor:
    rank = x.rank - 2
    kernel = weight.shape[2:]
    steps = sizes_of(g, strides, rank, "strides")
    dilations = sizes_of(g, dilation_rate, rank, "dilation_rate")
    pads = pads_of(g, x, first, padding, (kernel, steps, dilations))
    given = {"strides": steps, "dilations": dilations, "pads": pads, "groups": groups}
    return image(g, "Conv", first, x, weight, **given)


@operation("Conv")
def convolution(
    g: Emit,
    inputs: Tensor,
    kernel: Operand,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Tensor:
    first = channels_first(g, data_format)
    weight = _kernel(g, kernel, _swapped(inputs.rank))
    groups = inputs.shape[1 if first else -1] // weight.shape[1]
    return _convolved(g, inputs, weight, groups, strides, padding, dilation_rate, first)


@operation("DepthwiseConv")
def depthwise_convolution(
    g: Emit,
    inputs: Tensor,
    kernel: Operand,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Tensor:
    first, rank = channels_first(g, data_format), inputs.rank
    # [spatial..., channels, multiplier] becomes [channels * multiplier, 1, spatial...].
    moved = _kernel(g, kernel, (rank - 2, rank - 1, *range(rank - 2)))
    channels, multiplier, *taps = moved.shape
    weight = g.reshape(moved, (channels * multiplier, 1, *taps))
    return _convolved(g, inputs, weight, channels, strides, padding, dilation_rate, first)


@operation("SeparableConv")
def separable_convolution(
    g: Emit,
    inputs: Tensor,
    depthwise_kernel: Operand,
    pointwise_kernel: Operand,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Tensor:
    each = depthwise_convolution(
        g, inputs, depthwise_kernel, strides, padding, data_format, dilation_rate
    )
    return convolution(g, each, pointwise_kernel, data_format=data_format)


# --- pooling ----------------------------------------------------------------------------------


def _window_pooling(op: str) -> Row:
    def row(
        g: Emit,
        inputs: Tensor,
        pool_size: Any,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
    ) -> Tensor:
        first, rank = channels_first(g, data_format), inputs.rank - 2
        kernel = sizes_of(g, pool_size, rank, "pool_size")
        steps = kernel if strides is None else sizes_of(g, strides, rank, "strides")
        pads = pads_of(g, inputs, first, padding, (kernel, steps, (1,) * rank))
        return image(g, op, first, inputs, kernel=kernel, strides=steps, pads=pads)

    return row


operation("MaxPool")(_window_pooling("MaxPool"))
operation("AveragePool")(_window_pooling("AveragePool"))


def _adaptive_pooling(op: str) -> Row:
    def row(g: Emit, inputs: Tensor, output_size: Any, data_format: str | None = None) -> Tensor:
        sizes = sizes_of(g, output_size, inputs.rank - 2, "output_size")
        return adapted(g, op, inputs, sizes, channels_first(g, data_format))

    return row


operation("AdaptiveMaxPool")(_adaptive_pooling("Max"))
operation("AdaptiveAveragePool")(_adaptive_pooling("Average"))


# --- normalization ----------------------------------------------------------------------------


@operation("BatchNorm")
def batch_normalization(
    g: Emit,
    x: Tensor,
    mean: Operand,
    variance: Operand,
    offset: Operand = None,
    scale: Operand = None,
    axis: int = -1,
    epsilon: float = 1e-3,
) -> Tensor:
    axes = (g.axis(x, axis),)
    factor = g("Reciprocal", g("Sqrt", g.add(_along(g, variance, x, axes), epsilon)))
    if scale is not None:
        factor = g("Mul", factor, _along(g, scale, x, axes))
    made = g("Mul", g("Sub", x, _along(g, mean, x, axes)), factor)
    return made if offset is None else g("Add", made, _along(g, offset, x, axes))


def _along(g: Emit, given: Operand, x: Tensor, axes: Sequence[int]) -> Tensor:
    """A parameter of these axes, shaped to meet a tensor."""
    found = g.cast(tensor(g, given), x.dtype)
    if found.type.size == 1:
        return g.reshape(found, (1,) * x.rank)
    return g.reshape(found, tuple(size if at in axes else 1 for at, size in enumerate(x.shape)))


@operation("LayerNorm")
def layer_normalization(
    g: Emit,
    x: Tensor,
    gamma: Operand = None,
    beta: Operand = None,
    axis: Any = -1,
    epsilon: float | None = None,
    rms_scaling: bool = False,
) -> Tensor:
    axes, more = g.axes(x, axis), EPSILON if epsilon is None else epsilon
    made = normalized(g, x, axes, {}, more, centered=not rms_scaling)
    if gamma is not None:
        made = g("Mul", made, _along(g, gamma, x, axes))
    return made if beta is None or rms_scaling else g("Add", made, _along(g, beta, x, axes))


@operation("RMSNorm")
def rms_normalization(
    g: Emit, x: Tensor, scale: Operand = None, axis: Any = -1, epsilon: float | None = None
) -> Tensor:
    axes, more = g.axes(x, axis), EPSILON if epsilon is None else epsilon
    square = g("ReduceMean", g("Mul", x, x), axes=axes, keepdims=1)
    made = g("Div", x, g("Sqrt", g.add(square, more)))
    return made if scale is None else g("Mul", made, _along(g, scale, x, axes))


# --- attention --------------------------------------------------------------------------------


@operation("DotProductAttention")
def dot_product_attention(
    g: Emit,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Operand = None,
    mask: Operand = None,
    scale: float | None = None,
    is_causal: bool = False,
    flash_attention: bool | None = None,
    attn_logits_soft_cap: float | None = None,
) -> Tensor:
    """``[batch, steps, heads, size]`` each."""
    del flash_attention  # how, not what
    if any(each.rank != 4 for each in (query, key, value)):
        g.refuse("its operands must have 4 dimensions")
    if attn_logits_soft_cap is not None:
        g.refuse("a soft cap of scores is not supported")
    if bias is not None and (mask is not None or is_causal):
        g.refuse("a bias beside a mask is not supported")
    order = (0, 2, 1, 3)
    q, k, v = (g.transpose(each, order) for each in (query, key, value))
    added = None
    if bias is not None:
        added = g.cast(tensor(g, bias), q.dtype)
    elif mask is not None:
        seen = g.cast(tensor(g, mask), DType.BOOL)
        if is_causal:
            earlier = np.tri(q.shape[2], k.shape[2], dtype=bool)
            seen = g("And", seen, g.held(earlier, "visible"))
        added = penalties(g, seen, q.dtype)
    if added is not None:
        added = g.reshape(added, (*(1,) * (4 - added.rank), *added.shape))
        added = g.expand(added, (*added.shape[:2], q.shape[2], k.shape[2]))
    made = g(
        "Attention",
        q,
        k,
        v,
        added,
        scale=query.shape[3] ** -0.5 if scale is None else float(scale),
        is_causal=int(is_causal and mask is None),
    )
    return g.transpose(made, order)
