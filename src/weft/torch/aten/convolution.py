# pyright: basic
"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontends.emit import Tensor
from weft.torch.aten.record import Emit, aten


def per_axis(value: Sequence[int] | int, rank: int) -> tuple[int, ...]:
    """One number for each axis, of a sequence that may give one for all."""
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * rank if len(given) == 1 else given


def batched(g: Emit, x: Tensor, rank: int) -> Tensor:
    """A value with the axes batch, channels and so many more, of one that may lack the batch."""
    return x if x.rank == rank + 2 else g.reshape(x, (1, *x.shape))


def unbatched(g: Emit, made: Tensor, like: Tensor) -> Tensor:
    """What became of a value by ``batched``, without the batch that it lacked."""
    return made if made.rank == like.rank else g.reshape(made, made.shape[1:])


def _convolve(
    g: Emit,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    pads: tuple[int, ...],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    rank = weight.rank - 2
    made = g(
        "Conv",
        batched(g, input, rank),
        weight,
        bias,
        strides=per_axis(stride, rank),
        pads=pads,
        dilations=per_axis(dilation, rank),
        groups=groups,
    )
    return unbatched(g, made, input)


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
    pads = per_axis(padding, weight.rank - 2) * 2
    return _convolve(g, input, weight, bias, stride, pads, dilation, groups)


@aten("conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv_padding(
    g: Emit,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: str,
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    rank = weight.rank - 2
    taps = zip(weight.shape[2:], per_axis(dilation, rank), strict=True)
    both = [step * (size - 1) if padding == "same" else 0 for size, step in taps]
    pads = (*(total // 2 for total in both), *(total - total // 2 for total in both))
    return _convolve(g, input, weight, bias, stride, pads, dilation, groups)


@aten("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    g: Emit,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Tensor:
    rank = weight.rank - 2
    made = g(
        "ConvTranspose",
        batched(g, input, rank),
        weight,
        bias,
        strides=per_axis(stride, rank),
        pads=per_axis(padding, rank) * 2,
        dilations=per_axis(dilation, rank),
        output_padding=per_axis(output_padding, rank),
        groups=groups,
    )
    return unbatched(g, made, input)


@aten("convolution.default", "_convolution.default", "_convolution.deprecated")
def convolution(
    g: Emit,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    if not transposed:
        return conv(g, input, weight, bias, stride, padding, dilation, groups)
    given = (stride, padding, output_padding, groups, dilation)
    return conv_transpose(g, input, weight, bias, *given)
