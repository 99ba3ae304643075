"""Rows of resampling and padding."""

from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.nn.functional import interpolate, pad

from tests.torch.aten.checking import check

LINE = torch.randn(2, 3, 7)
IMAGE = torch.randn(2, 3, 5, 7)
VOLUME = torch.randn(1, 2, 3, 4, 5)
SMOOTH = ("bilinear", "bicubic")


def _resized(**arguments: Any):
    return lambda x: interpolate(x, **arguments)


RESIZED = {
    **{
        f"{mode}_{place}": (_resized(mode=mode, **how), IMAGE)
        for mode in ("nearest", "nearest-exact", *SMOOTH)
        for place, how in enumerate(
            (
                {"size": (10, 14)},
                {"size": (3, 11)},
                {"size": (1, 1)},
                {"scale_factor": 2},
                {"scale_factor": (1.3, 0.6)},
                {"scale_factor": 0.7, "recompute_scale_factor": True},
            )
        )
    },
    **{
        f"{mode}_aligned_{place}": (_resized(mode=mode, align_corners=True, size=size), IMAGE)
        for mode in SMOOTH
        for place, size in enumerate(((9, 13), (2, 3), (1, 1)))
    },
    **{
        f"{mode}_antialiased_{place}": (_resized(mode=mode, antialias=True, size=size), IMAGE)
        for mode in SMOOTH
        for place, size in enumerate(((3, 2), (9, 5), (2, 20)))
    },
    "linear": (_resized(mode="linear", size=11), LINE),
    "linear_aligned": (_resized(mode="linear", size=3, align_corners=True), LINE),
    "nearest_1d": (_resized(scale_factor=3), LINE),
    "nearest_3d": (_resized(size=(6, 4, 8)), VOLUME),
    "trilinear": (_resized(mode="trilinear", scale_factor=(2, 1.5, 0.8)), VOLUME),
    "by_size": (lambda x: torch.ops.aten.upsample_bilinear2d(x, [8, 9], False, 1.7, 1.4), IMAGE),
}

GRID = torch.rand(2, 4, 6, 2) * 2.4 - 1.2
THETA = torch.randn(2, 2, 3) * 0.5 + torch.eye(2, 3)
SAMPLED = {
    **{
        f"grid_{mode}_{padding}_{align}": (
            lambda x, grid, m=mode, p=padding, a=align: functional.grid_sample(x, grid, m, p, a),
            IMAGE,
            GRID,
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for align in (False, True)
    },
    "affine": (lambda t: functional.affine_grid(t, [2, 3, 4, 5], align_corners=True), THETA),
    "affine_half": (lambda t: functional.affine_grid(t, [2, 3, 4, 5], align_corners=False), THETA),
}
PADDED = {
    "constant": (lambda x: (pad(x, (1, 2)), pad(x, (0, 1, 2, 0), value=3.5)), IMAGE),
    "negative": (lambda x: (pad(x, (-1, 2, 1, -2)), pad(x, (-2, -3))), IMAGE),
    "reflect": (
        lambda x: (pad(x, (2, 1, 3, 4), "reflect"), pad(x[0, 0], (1, 2), "reflect")),
        IMAGE,
    ),
    "replicate": (
        lambda x: (pad(x, (2, 1, 3, 0), "replicate"), pad(x, (-1, 3, 0, 1), "replicate")),
        IMAGE,
    ),
    "circular": (lambda x: pad(x, (2, 1, 5, 0), "circular"), IMAGE),
    "volume": (lambda x: [pad(x, (1, 2, 2, 1, 1, 0), m) for m in ("reflect", "replicate")], VOLUME),
    "whole": (lambda x: pad(x, (1, 1), value=7), torch.arange(6).reshape(2, 3)),
    "modules": (
        lambda x: (
            torch.nn.ReflectionPad2d(1)(x),
            torch.nn.ReplicationPad2d(2)(x),
            torch.nn.ZeroPad2d((1, 0, 0, 2))(x),
        ),
        IMAGE,
    ),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("cases", [RESIZED, SAMPLED, PADDED])
def test_rows(cases: dict[str, tuple], compiled: bool):
    check(cases, compiled=compiled)


def test_the_nearest_element_is_that_of_pytorch_for_all_lengths():
    cases = {
        f"{source}_{target}_{mode}": (
            _resized(mode=mode, size=target),
            torch.arange(source, dtype=torch.float32).reshape(1, 1, source),
        )
        for source in (3, 7, 10)
        for target in range(1, 34, 3)
        for mode in ("nearest", "nearest-exact")
    }
    check(cases)
