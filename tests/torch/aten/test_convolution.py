# pyright: basic
"""Rows of convolutions."""

import pytest
import torch
from torch import nn

from tests.torch.aten.checking import check

LINE, IMAGE, CUBE = torch.randn(2, 4, 9), torch.randn(2, 4, 9, 8), torch.randn(1, 2, 5, 6, 5)


@pytest.mark.parametrize("compiled", [False, True])
def test_convolutions(compiled: bool):
    cases = {
        "conv1d": (nn.Conv1d(4, 6, 3, stride=2, padding=1), LINE),
        "conv2d": (nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), bias=False), IMAGE),
        "conv3d": (nn.Conv3d(2, 3, 3, padding=1), CUBE),
        "groups": (nn.Conv2d(4, 8, 3, groups=2, dilation=2), IMAGE),
        "depthwise": (nn.Conv2d(4, 4, 3, groups=4, padding=1), IMAGE),
        "same": (nn.Conv2d(4, 6, (5, 3), padding="same", dilation=(1, 2)), IMAGE),
        "valid": (nn.Conv1d(4, 6, 4, padding="valid"), LINE),
        "unbatched": (nn.Conv2d(4, 6, 3), IMAGE[0]),
        "unbatched_same": (nn.Conv1d(4, 6, 3, padding="same"), LINE[0]),
        "transposed1d": (nn.ConvTranspose1d(4, 3, 3, 2, 1, output_padding=1), LINE),
        "transposed2d": (nn.ConvTranspose2d(4, 6, 3, 2, groups=2), IMAGE),
        "transposed3d": (nn.ConvTranspose3d(2, 3, 2, 2, dilation=2), CUBE),
        "transposed_unbatched": (nn.ConvTranspose2d(4, 6, 2), IMAGE[0]),
    }
    check(cases, compiled=compiled, atol=1e-4)


def test_the_op_that_decompositions_give():
    weight, turned = torch.randn(6, 4, 3, 3), torch.randn(4, 3, 3, 3)

    def plain(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution(x, weight, None, [1, 2], [1, 1], [1, 1], False, [0, 0], 1)

    def transposed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution(x, weight, None, [2], [1], [1], True, [1], 1)

    check({"plain": (plain, IMAGE, weight), "transposed": (transposed, IMAGE, turned)}, atol=1e-4)
