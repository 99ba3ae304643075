# pyright: basic
"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from weft.torch.aten.record import Emit, Tensor, aten


def per_axis(value: Sequence[int] | int, rank: int) -> tuple[int, ...]:
    """One number for each axis, of a sequence that may give one for all."""
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * rank if len(given) == 1 else given


@aten("conv1d.default", "conv2d.default", "conv3d.default")
def conv(
    g: Emit,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    rank = weight.rank - 2
    if input.rank != weight.rank:
        g.refuse("a convolution without a batch axis is not supported")
    return g(
        "Conv",
        input,
        weight,
        bias,
        strides=per_axis(stride, rank),
        pads=per_axis(padding, rank) * 2,
        dilations=per_axis(dilation, rank),
        groups=groups,
    )
