# pyright: basic
"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from weft.frontends.emit import Tensor
from weft.torch.aten.record import Emit, aten


def filled(g: Emit, value: float, like: Tensor, shape: Sequence[int]) -> Tensor:
    """A constant of one value, of the element type of a tensor."""
    return g.constant(np.full(tuple(shape), value, like.dtype.numpy))


def _parameters(
    g: Emit, x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Scale and shift, also where there are none."""
    scale = weight if weight is not None else filled(g, 1, x, shape)
    return scale, bias if bias is not None else filled(g, 0, x, shape)


# --- by channel -------------------------------------------------------------------------------


@aten("batch_norm.default")
@aten("_batch_norm_no_update.default", "_native_batch_norm_legit_no_training.default")
@aten("native_batch_norm.default", "_native_batch_norm_legit.default", "cudnn_batch_norm.default")
@aten("_native_batch_norm_legit.no_stats")
def batch_norm(
    g: Emit,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    eps: float = 1e-5,
    training: bool = False,
) -> tuple[Tensor | None, ...] | Tensor:
    scale, shift = _parameters(g, input, weight, bias, (input.shape[1],))
    if running_mean is None or running_var is None:
        # Without statistics of its own it has those of the batch.
        given = _parameters(g, input, None, None, (input.shape[1],))
        made = g("BatchNormalization", input, scale, shift, *given, epsilon=eps, training_mode=1)
        return made if len(g.results) == 1 else (made, *[None] * (len(g.results) - 1))
    if training:
        g.refuse("batch normalization that changes its statistics is not supported")
    # Statistics may be wider than the elements.
    centre, spread = (g.cast(each, input.dtype) for each in (running_mean, running_var))
    made = g("BatchNormalization", input, scale, shift, centre, spread, epsilon=eps)
    return made if len(g.results) == 1 else (made, *[None] * (len(g.results) - 1))


@aten("instance_norm.default")
def instance_norm(
    g: Emit,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    eps: float,
) -> Tensor:
    scale, shift = _parameters(g, input, weight, bias, (input.shape[1],))
    if use_input_stats:
        return g("InstanceNormalization", input, scale, shift, epsilon=eps)
    return g("BatchNormalization", input, scale, shift, running_mean, running_var, epsilon=eps)


@aten("group_norm.default")
def group_norm(
    g: Emit,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    scale, shift = _parameters(g, input, weight, bias, (input.shape[1],))
    return g("GroupNormalization", input, scale, shift, num_groups=num_groups, epsilon=eps)


@aten("native_group_norm.default")
def native_group_norm(
    g: Emit,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    group: int,
    eps: float,
    **_: object,
) -> tuple[Tensor | None, ...]:
    return (group_norm(g, input, group, weight, bias, eps), None, None)


# --- over the last axes -----------------------------------------------------------------------


@aten("layer_norm.default")
def layer_norm(
    g: Emit,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    scale = weight if weight is not None else filled(g, 1, input, normalized_shape)
    return g("LayerNormalization", input, scale, bias, axis=-len(normalized_shape), epsilon=eps)


@aten("native_layer_norm.default")
def native_layer_norm(
    g: Emit,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, ...]:
    made = layer_norm(g, input, normalized_shape, weight, bias, eps)
    # A node of its own, which goes where nothing reads the statistics.
    scale = filled(g, 1, input, normalized_shape)
    axis = -len(normalized_shape)
    _, *statistics = g.several(
        "LayerNormalization", input, scale, outputs=3, axis=axis, epsilon=eps
    )
    return (made, *statistics)


@aten("rms_norm.default")
def rms_norm(
    g: Emit,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    scale = weight if weight is not None else filled(g, 1, input, normalized_shape)
    if eps is None:
        eps = float(ml_dtypes.finfo(input.dtype.numpy).eps)
    return g("RMSNormalization", input, scale, axis=-len(normalized_shape), epsilon=eps)


@aten("_fused_rms_norm.default")
def fused_rms_norm(
    g: Emit,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    eps: float | None,
) -> tuple[Tensor | None, ...]:
    return (rms_norm(g, input, normalized_shape, weight, eps), None)


# --- of weights -------------------------------------------------------------------------------


@aten("_weight_norm.default")
def weight_norm(emit: Emit, v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    # The schema calls the lengths g.
    axes = tuple(axis for axis in range(v.rank) if dim == -1 or axis != dim % v.rank)
    length = emit("ReduceL2", v, axes=axes, keepdims=1)
    return emit("Mul", v, emit("Div", g, length))


@aten("_weight_norm_interface.default")
def weight_norm_interface(
    emit: Emit, v: Tensor, g: Tensor, dim: int = 0
) -> tuple[Tensor | None, ...]:
    return (weight_norm(emit, v, g, dim), None)
