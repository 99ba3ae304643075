"""Samples of grid sampling and affine grids."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.ops.sampling import AffineGridAttributes, GridSampleAttributes

WIDE = random("f32[2,3,4,2]", -2.5, 2.5)

SAMPLES = [
    *(
        Sample(
            "GridSample",
            ("f32[2,2,5,4]", WIDE),
            GridSampleAttributes(mode, padding, align),
            tolerance=1e-5,
        )
        for mode, padding, align in product(
            ("nearest", "linear", "cubic"), ("zeros", "border", "reflection"), (0, 1)
        )
    ),
    # As PyTorch and onnxruntime: beyond the border, cubic weights still bend.
    *(
        Sample(
            "GridSample",
            (
                np.array([[[[1, 4, 9, 16]] * 3]], np.float32),
                np.array([[[[-1.25, 0], [0.875, 0], [1.25, 0]]]], np.float32),
            ),
            GridSampleAttributes("cubic", "border", align),
            expected=([[[expected]]],),
            tolerance=1e-6,
        )
        for align, expected in (
            (0, [1.0, 16.738281, 16.0]),
            (1, [0.67041, 14.961243, 16.769043]),
        )
    ),
    Sample(
        "GridSample",
        ("f32[1,2,3,4,5]", random("f32[1,2,2,3,3]", -1.5, 1.5)),
        GridSampleAttributes("linear"),
        tolerance=1e-5,
    ),
    Sample(
        "GridSample",
        ("f32[1,2,1,4]", random("f32[1,2,2,2]", -1.5, 1.5)),
        GridSampleAttributes("bilinear", "reflection", 1),
        tolerance=1e-5,
    ),
    Sample(
        "GridSample",
        ("u8[1,2,5,4]", random("f32[1,2,2,2]", -1.5, 1.5)),
        GridSampleAttributes("nearest"),
    ),
    Sample(
        "GridSample",
        (np.array([[[[1.0, 3.0], [5.0, 7.0]]]], np.float32), np.zeros((1, 1, 1, 2), np.float32)),
        GridSampleAttributes(),
        expected=([[[[4.0]]]],),
        tolerance=1e-6,
    ),
    *(
        Sample(
            "AffineGrid",
            (f"{dtype}[2,{rank},{rank + 1}]",),
            AffineGridAttributes((2, 3, 4, 5, 6)[: rank + 2], align),
            tolerance=1e-5,
        )
        for dtype, rank, align in product(("f32", "f64"), (2, 3), (0, 1))
    ),
    Sample("AffineGrid", ("f32[1,2,3]",), AffineGridAttributes((1, 1, 1, 2), 1), tolerance=1e-6),
]
BAD: list[Bad] = [
    Bad(
        "GridSample",
        ("f32[1,1,2,2]", "f32[1,2,2,2]"),
        "gridsample: mode must be nearest, linear or cubic and padding_mode zeros, border or "
        "reflection; got 'area' and 'zeros' (node bad)",
        GridSampleAttributes("area"),
    ),
    Bad(
        "GridSample",
        ("f32[1,1,2,2]", "f32[1,2,2,3]"),
        "gridsample: the grid must have a point of the input's spatial rank at each place; "
        "got f32[1,1,2,2], f32[1,2,2,3] (node bad)",
        GridSampleAttributes(),
    ),
    Bad(
        "GridSample",
        ("f32[1,1,2,2]", "f32[2,2,2,2]"),
        "gridsample: input and grid must have one batch, and the grid floating-point values; "
        "got f32[1,1,2,2], f32[2,2,2,2] (node bad)",
        GridSampleAttributes(),
    ),
    Bad(
        "GridSample",
        ("f32[1,1,2,0]", "f32[1,2,2,2]"),
        "gridsample: there is nothing to sample; got f32[1,1,2,0], f32[1,2,2,2] (node bad)",
        GridSampleAttributes(),
    ),
    Bad(
        "GridSample",
        ("i8[1,1,2,2]", "f32[1,2,2,2]"),
        "gridsample: mode linear needs a floating-point input; "
        "got i8[1,1,2,2], f32[1,2,2,2] (node bad)",
        GridSampleAttributes(),
    ),
    Bad(
        "AffineGrid",
        ("f32[1,2,2]",),
        "affinegrid: theta must hold a matrix [2,3] for a size of 4 numbers, or [3,4] for 5; "
        "got f32[1,2,2], size [1, 1, 2, 2] (node bad)",
        AffineGridAttributes((1, 1, 2, 2)),
    ),
    Bad(
        "AffineGrid",
        ("f32[3,2,3]",),
        "affinegrid: theta and size must have one batch; "
        "got f32[3,2,3], size [1, 1, 2, 2] (node bad)",
        AffineGridAttributes((1, 1, 2, 2)),
    ),
    Bad(
        "AffineGrid",
        ("f32[1,2,3]",),
        "affinegrid: theta must hold floating-point values, size positive numbers; "
        "got f32[1,2,3] (node bad)",
        AffineGridAttributes((1, 1, 0, 2)),
    ),
]
TYPES: list[Typed] = [
    Typed(
        "GridSample",
        ("f32[N,3,8,8]", "f32[N,4,5,2]"),
        ("f32[N,3,4,5]",),
        GridSampleAttributes(),
    ),
]
