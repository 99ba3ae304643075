# pyright: basic
"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

from weft.torch.aten.convolution import per_axis
from weft.torch.aten.record import Emit, Tensor, aten


@aten("max_pool1d.default", "max_pool2d.default", "max_pool3d.default")
def max_pool(
    g: Emit,
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Tensor:
    rank = g.result.shape.__len__() - 2
    if self.rank != rank + 2 or rank < 1:
        g.refuse("pooling without a batch axis is not supported")
    kernel = per_axis(kernel_size, rank)
    return g(
        "MaxPool",
        self,
        kernel=kernel,
        strides=per_axis(stride, rank) if len(stride) else kernel,
        pads=per_axis(padding, rank) * 2,
        dilations=per_axis(dilation, rank),
        ceil_mode=int(ceil_mode),
    )


@aten("adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(g: Emit, self: Tensor, output_size: Sequence[int]) -> Tensor:
    if self.rank == 4 and tuple(output_size) == (1, 1):
        return g("GlobalAveragePool", self)
    g.refuse("adaptive pooling to other sizes than 1 is not supported")
