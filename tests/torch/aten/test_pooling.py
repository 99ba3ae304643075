# pyright: basic
"""Rows of pools."""

import pytest
import torch
from torch import nn

from tests.torch.aten.checking import check

LINE, IMAGE, CUBE = torch.randn(2, 3, 11), torch.randn(2, 3, 9, 8), torch.randn(1, 2, 6, 5, 7)

FAR = IMAGE.clone()
FAR[0, 1, 2, 3], FAR[1, 2, 8, 7] = float("inf"), float("nan")


@pytest.mark.parametrize("compiled", [False, True])
def test_pools(compiled: bool):
    cases = {
        "max1d": (nn.MaxPool1d(3, padding=1), LINE),
        "max2d": (nn.MaxPool2d(3, 2, 1), IMAGE),
        "max2d_ceil": (nn.MaxPool2d((2, 3), 3, ceil_mode=True, dilation=2), IMAGE),
        "max2d_unbatched": (nn.MaxPool2d(2), IMAGE[0]),
        "max3d": (nn.MaxPool3d(2), CUBE),
        "places": (nn.MaxPool2d(3, 2, 1, return_indices=True), IMAGE),
        "places1d": (nn.MaxPool1d(3, return_indices=True), LINE),
        "mean1d": (nn.AvgPool1d(3, 2, padding=1, count_include_pad=False), LINE),
        "mean2d": (nn.AvgPool2d(3, 2, 1), IMAGE),
        "mean2d_ceil": (nn.AvgPool2d(3, 2, 1, ceil_mode=True), IMAGE),
        "mean2d_ceil_inside": (nn.AvgPool2d(3, 2, 1, True, count_include_pad=False), IMAGE),
        "mean2d_divisor": (nn.AvgPool2d(3, 2, 1, True, divisor_override=5), IMAGE),
        "mean2d_unbatched": (nn.AvgPool2d(2), IMAGE[0]),
        "mean3d": (nn.AvgPool3d(2), CUBE),
        "norm2d": (nn.LPPool2d(2, 3, 2), IMAGE),
        "norm1d": (nn.LPPool1d(3, 2, ceil_mode=True), LINE.abs()),
    }
    check(cases, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_pools_to_a_size(compiled: bool):
    cases = {
        "mean_to_one": (nn.AdaptiveAvgPool2d(1), IMAGE),
        "mean_divides": (nn.AdaptiveAvgPool2d((3, 4)), IMAGE),
        "mean_overlaps": (nn.AdaptiveAvgPool2d((4, 3)), IMAGE),
        "mean_grows": (nn.AdaptiveAvgPool2d((13, 8)), IMAGE),
        "mean_same": (nn.AdaptiveAvgPool2d((None, 3)), IMAGE),
        "mean1d": (nn.AdaptiveAvgPool1d(4), LINE),
        "mean1d_one": (nn.AdaptiveAvgPool1d(1), LINE),
        "mean3d": (nn.AdaptiveAvgPool3d((2, 3, 2)), CUBE),
        "mean_unbatched": (nn.AdaptiveAvgPool2d(2), IMAGE[0]),
        "mean_of_infinity": (nn.AdaptiveAvgPool2d((4, 9)), FAR),
        "max_to_one": (nn.AdaptiveMaxPool2d(1), IMAGE),
        "max_overlaps": (nn.AdaptiveMaxPool2d((4, 3)), IMAGE),
        "max1d": (nn.AdaptiveMaxPool1d(4), LINE),
        "max3d": (nn.AdaptiveMaxPool3d(2), CUBE),
    }
    check(cases, compiled=compiled)
