"""Samples of deformable convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.deformable import DeformConvAttributes

CLOSE = 2e-5


def deform(*inputs: str, tolerance: float = CLOSE, **fields: Any) -> Sample:
    return Sample("DeformConv", inputs, DeformConvAttributes(**fields), tolerance)


SAMPLES = [
    # The taps of a 1x1 window, moved by half an element to the right.
    Sample(
        "DeformConv",
        (
            np.array([[1, 3], [5, 9]], np.float32)[None, None],
            np.ones((1, 1, 1, 1), np.float32),
            np.stack([np.zeros((2, 2)), np.full((2, 2), 0.5)])[None].astype(np.float32),
        ),
        DeformConvAttributes(),
        CLOSE,
        expected=([[[[2, 1.5], [7, 4.5]]]],),
    ),
    deform("f32[2,4,5,6]", "f32[3,4,3,2]", "f32[2,12,3,5]", "f32[3]"),
    deform(
        "f32[1,4,5,6]",
        "f32[4,2,3,3]",
        "f32[1,36,3,3]",
        "",
        "f32[1,18,3,3]",
        groups=2,
        offset_group=2,
        strides=(2, 2),
        pads=(1, 1, 1, 1),
    ),
    deform("f32[1,2,7,7]", "f32[1,2,3,3]", "f32[1,18,3,3]", dilations=(2, 2)),
    deform("f16[1,2,4,4]", "f16[1,2,3,3]", "f16[1,18,2,2]", tolerance=4e-3),
]
BAD: list[Bad] = [
    Bad(
        "DeformConv",
        ("f32[1,2,7,7]", "f32[1,2,3,3]", "f32[1,9,5,5]"),
        "deformconv: offset must be [1,18,5,5]; got offset f32[1,9,5,5] (node bad)",
        DeformConvAttributes(),
    ),
]
TYPES: list[Typed] = [
    Typed(
        "DeformConv",
        ("f32[N,2,7,7]", "f32[1,2,3,3]", "f32[N,18,5,5]"),
        ("f32[N,1,5,5]",),
        DeformConvAttributes(),
    ),
]
