"""Samples of scatter, max unpooling and blocks to images."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.scatter import (
    Col2ImAttributes,
    MaxUnpoolAttributes,
    ScatterElementsAttributes,
    ScatterNDAttributes,
)

REDUCTIONS = ("none", "add", "mul", "min", "max")
PLACES = np.array([[0, -1, 0], [2, 0, 1]])
MEETING = np.array([[0, 0, 0], [2, 1, 2]], np.int32)
CORNERS = np.array([[[[0, 3], [8, 10]]]])

SAMPLES = [
    *(
        Sample(
            "ScatterElements",
            (f"{dtype}[3,4]", PLACES if reduction == "none" else MEETING, f"{dtype}[2,3]"),
            ScatterElementsAttributes(0, reduction),
            tolerance=1e-6,
        )
        for reduction in REDUCTIONS
        for dtype in ("f32", "i8", "u64")
    ),
    Sample(
        "ScatterElements",
        ("bool[2,5]", PLACES, "bool[2,3]"),
        ScatterElementsAttributes(-1),
    ),
    Sample(
        "ScatterElements",
        (np.array([1.0, 2, 3, 4, 5]), np.array([1, 3]), np.array([1.1, 2.1])),
        expected=([1, 1.1, 3, 2.1, 5],),
        attributes=ScatterElementsAttributes(),
    ),
    *(
        Sample(
            "ScatterND",
            ("f32[3,4,2]", np.array([[0, -1], [2, 1], [0, 3]]), "f32[3,2]"),
            ScatterNDAttributes(reduction),
            tolerance=1e-6,
        )
        for reduction in REDUCTIONS
        if reduction != "none"
    ),
    Sample("ScatterND", ("f32[3,4]", np.array([[[0], [2]]]), "f32[1,2,4]"), ScatterNDAttributes()),
    Sample(
        "ScatterND",
        (np.arange(1, 9), np.array([[4], [3], [1], [7]]), np.array([9, 10, 11, 12])),
        ScatterNDAttributes(),
        expected=([1, 11, 3, 10, 9, 6, 7, 12],),
    ),
    Sample("MaxUnpool", ("f32[1,1,2,2]", CORNERS), MaxUnpoolAttributes((2, 2), None, (2, 2))),
    Sample(
        "MaxUnpool",
        ("f32[1,1,2,2]", CORNERS),
        MaxUnpoolAttributes((2, 2), (0, 0, 0, 0), (2, 2), (1, 1, 5, 6)),
    ),
    Sample("Col2Im", ("f32[2,12,9]",), Col2ImAttributes((4, 4), (2, 2)), tolerance=1e-6),
    Sample(
        "Col2Im",
        ("f32[1,12,9]",),
        Col2ImAttributes((5, 6), (2, 3), (2, 1), (1, 0, 2, 1), (2, 2)),
        tolerance=1e-6,
    ),
    Sample("Col2Im", ("f32[1,6,4]",), Col2ImAttributes((5,), (2,)), tolerance=1e-6),
    Sample("Col2Im", ("f32[2,4,4]",), Col2ImAttributes((11,), (4,), strides=(2,)), tolerance=1e-6),
    Sample(
        "Col2Im",
        ("f32[1,5,4]",),
        Col2ImAttributes((12,), (5,), None, (1, 2), (3,)),
        tolerance=1e-6,
    ),
]
BAD: list[Bad] = [
    Bad(
        "ScatterElements",
        ("f32[3]", "i64[2]", "f32[2]"),
        "scatterelements: reduction must be none, add, mul, min or max; got 'mean' (node bad)",
        ScatterElementsAttributes(0, "mean"),
    ),
    Bad(
        "ScatterElements",
        ("f32[3]", "i64[2]", "f64[2]"),
        "scatterelements: data and updates must be of one type; "
        "got f32[3], i64[2], f64[2] (node bad)",
        ScatterElementsAttributes(),
    ),
    Bad(
        "ScatterElements",
        ("f32[3]", "i64[2]", "f32[3]"),
        "scatterelements: indices and updates must have one shape, of the rank of data; "
        "got f32[3], i64[2], f32[3] (node bad)",
        ScatterElementsAttributes(),
    ),
    Bad(
        "ScatterElements",
        ("f16[3]", "i64[2]", "f16[2]"),
        "scatterelements: reduction add needs f32, f64 or integers; "
        "got f16[3], i64[2], f16[2] (node bad). Cast the operands to f32",
        ScatterElementsAttributes(0, "add"),
    ),
    Bad(
        "ScatterND",
        ("f32[3]", "i64[2,2]", "f32[2]"),
        "scatternd: the last dimension of indices must be within [1, 1]; "
        "got f32[3], i64[2,2], f32[2] (node bad)",
        ScatterNDAttributes(),
    ),
    Bad(
        "ScatterND",
        ("f32[3,4]", "i64[2,1]", "f32[2]"),
        "scatternd: updates must have a slice of data for each row of indices; "
        "got f32[3,4], i64[2,1], f32[2] (node bad)",
        ScatterNDAttributes(),
    ),
    Bad(
        "MaxUnpool",
        ("f32[1,1,2,2]", "i64[1,1,2,2]"),
        "maxunpool: kernel, strides and pads must fit the spatial axes; "
        "got f32[1,1,2,2], kernel [2], strides [1], pads [0, 0] (node bad)",
        MaxUnpoolAttributes((2,)),
    ),
    Bad(
        "MaxUnpool",
        ("f32[1,1,2]", "i64[1,1,3]"),
        "maxunpool: the indices must have the shape of the input; "
        "got f32[1,1,2], i64[1,1,3] (node bad)",
        MaxUnpoolAttributes((2,)),
    ),
    Bad(
        "MaxUnpool",
        ("f32[1,1,2]", "i64[1,1,2]"),
        "maxunpool: output_shape must be at least [1, 1, 3]; got [1, 1, 2] (node bad)",
        MaxUnpoolAttributes((2,), None, None, (1, 1, 2)),
    ),
    Bad(
        "Col2Im",
        ("f32[1,5,4]",),
        "col2im: the input must have a multiple of 2 rows and 4 columns; got f32[1,5,4] (node bad)",
        Col2ImAttributes((5,), (2,)),
    ),
    Bad(
        "Col2Im",
        ("f32[5,4]",),
        "col2im: the input must have rank 3, and block_shape, dilations, strides and pads must "
        "fit image_shape; got f32[5,4], image_shape [5] (node bad)",
        Col2ImAttributes((5,), (2,)),
    ),
]
TYPES: list[Typed] = [
    Typed(
        "ScatterElements",
        ("f32[N,3]", "i64[N,2]", "f32[N,2]"),
        ("f32[N,3]",),
        ScatterElementsAttributes(1),
    ),
    Typed("Col2Im", ("f32[N,6,4]",), ("f32[N,3,5]",), Col2ImAttributes((5,), (2,))),
]
