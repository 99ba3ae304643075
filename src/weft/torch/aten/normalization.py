# pyright: basic
"""Normalizations."""

from __future__ import annotations

import numpy as np

from weft.torch.aten.record import Emit, Tensor, aten


def filled(g: Emit, value: float, like: Tensor, size: int) -> Tensor:
    """A vector of one value, of the element type of a tensor."""
    return g.constant(np.full(size, value, like.dtype.numpy))


@aten("batch_norm.default", "_native_batch_norm_legit_no_training.default")
def batch_norm(
    g: Emit,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    eps: float,
    training: bool = False,
) -> tuple[Tensor, ...] | Tensor:
    if training or running_mean is None or running_var is None:
        g.refuse("batch normalization with statistics of the batch is not supported")
    channels = input.shape[1]
    scale = weight if weight is not None else filled(g, 1, input, channels)
    shift = bias if bias is not None else filled(g, 0, input, channels)
    made = g("BatchNormalization", input, scale, shift, running_mean, running_var, epsilon=eps)
    return made if len(g.results) == 1 else (made,)
