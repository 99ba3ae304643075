"""Samples of deformable convolution."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.ops.deformable import DeformConvAttributes

ONES = np.ones((1, 1, 2, 2), np.float32)
SQUARE = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
HALF = np.zeros((1, 8, 2, 2), np.float32)
HALF[:, 0] = 0.5

SAMPLES = [
    Sample(
        "DeformConv",
        (SQUARE, ONES, HALF),
        DeformConvAttributes(),
        expected=([[[[9.5, 13.5], [21.5, 25.5]]]],),
        tolerance=1e-6,
    ),
    Sample(
        "DeformConv",
        ("f32[2,4,5,6]", "f32[6,2,3,2]", "f32[2,24,3,3]", "f32[6]", "f32[2,12,3,3]"),
        DeformConvAttributes((3, 2), (2, 2), (1, 0, 1, 1), (1, 2), 2, 2),
        tolerance=1e-5,
    ),
    Sample(
        "DeformConv",
        ("f32[1,2,7]", "f32[3,2,3]", random("f32[1,3,5]"), None, "f32[1,3,5]"),
        DeformConvAttributes(),
        tolerance=1e-5,
    ),
]
BAD: list[Bad] = [
    Bad(
        "DeformConv",
        ("f32[1,1,3,3]", "f32[1,1,2]", "f32[1,8,2,2]"),
        "deformconv: input and weight must have one rank of 3 or more; "
        "got f32[1,1,3,3], f32[1,1,2], f32[1,8,2,2] (node bad)",
        DeformConvAttributes(),
    ),
    Bad(
        "DeformConv",
        ("f32[1,1,3,3]", "f32[1,1,2,2]", "f32[1,8,2,2]"),
        "deformconv: kernel, strides, dilations and pads must fit the spatial axes and the "
        "weight; got f32[1,1,3,3], f32[1,1,2,2], kernel [3, 3] (node bad)",
        DeformConvAttributes((3, 3)),
    ),
    Bad(
        "DeformConv",
        ("f32[1,1,3,3]", "f32[1,1,2,2]", "f32[1,8,2,2]"),
        "deformconv: strides and dilations must be at least 1; got (0, 1), (1, 1) (node bad)",
        DeformConvAttributes(strides=(0, 1)),
    ),
    Bad(
        "DeformConv",
        ("f32[1,1,3,3]", "f32[1,1,4,4]", "f32[1,8,2,2]"),
        "deformconv: the window must fit into the padded input; "
        "got f32[1,1,3,3], f32[1,1,4,4], f32[1,8,2,2] (node bad)",
        DeformConvAttributes(),
    ),
    Bad(
        "DeformConv",
        ("f32[1,1,3,3]", "f32[1,2,2,2]", "f32[1,8,2,2]"),
        "deformconv: input and weight must have channels for 1 groups; "
        "got f32[1,1,3,3], f32[1,2,2,2], f32[1,8,2,2] (node bad)",
        DeformConvAttributes(),
    ),
    Bad(
        "DeformConv",
        ("f32[1,1,3,3]", "f32[1,1,2,2]", "f32[1,8,2,2]"),
        "deformconv: offset_group must divide 1 channels; "
        "got f32[1,1,3,3], f32[1,1,2,2], f32[1,8,2,2] (node bad)",
        DeformConvAttributes(offset_group=2),
    ),
    Bad(
        "DeformConv",
        ("f32[1,1,3,3]", "f32[1,1,2,2]", "f32[1,4,2,2]"),
        "deformconv: offset must have the shape [8, 2, 2] after the batch; "
        "got f32[1,1,3,3], f32[1,1,2,2], f32[1,4,2,2] (node bad)",
        DeformConvAttributes(),
    ),
    Bad(
        "DeformConv",
        ("f32[1,1,3,3]", "f32[1,1,2,2]", "f32[1,8,2,2]", "f32[2]"),
        "deformconv: the bias must have 1 elements; "
        "got f32[1,1,3,3], f32[1,1,2,2], f32[1,8,2,2], f32[2] (node bad)",
        DeformConvAttributes(),
    ),
    Bad(
        "DeformConv",
        ("f32[1,1,3,3]", "f32[1,1,2,2]", "f32[1,8,2,2]", "", "f32[1,4,3,2]"),
        "deformconv: mask must have the shape [4, 2, 2] after the batch; "
        "got f32[1,1,3,3], f32[1,1,2,2], f32[1,8,2,2], f32[1,4,3,2] (node bad)",
        DeformConvAttributes(),
    ),
    Bad(
        "DeformConv",
        ("f32[1,1,3,3]", "f64[1,1,2,2]", "f32[1,8,2,2]"),
        "deformconv: the inputs must be of one floating-point type; "
        "got f32[1,1,3,3], f64[1,1,2,2], f32[1,8,2,2] (node bad)",
        DeformConvAttributes(),
    ),
]
TYPES: list[Typed] = [
    Typed(
        "DeformConv",
        ("f32[N,1,3,3]", "f32[1,1,2,2]", "f32[N,8,2,2]"),
        ("f32[N,1,2,2]",),
        DeformConvAttributes(),
    ),
]
