"""Samples of ops that read no data."""

from __future__ import annotations

from tests.ops.samples import Bad, Sample, Typed
from weft.dtypes import DType
from weft.ops.generation import ConstantOfShapeAttributes, EyeLikeAttributes, RangeAttributes

SAMPLES = [
    Sample("EyeLike", ("f32[3,4]",), EyeLikeAttributes()),
    Sample(
        "EyeLike",
        ("f32[2,3]",),
        EyeLikeAttributes(DType.I8, 1),
        expected=([[0, 1, 0], [0, 0, 1]],),
    ),
    Sample("EyeLike", ("i32[4,3]",), EyeLikeAttributes(DType.BOOL, -2)),
    Sample("EyeLike", ("bf16[2,2]",), EyeLikeAttributes()),
    Sample("Range", (), RangeAttributes(3, 9, 3, DType.I64), expected=([3, 6],)),
    Sample("Range", (), RangeAttributes(10, 4, -2, DType.I32), expected=([10, 8, 6],)),
    Sample("Range", (), RangeAttributes(0, -1, 2, DType.I16), expected=([],)),
    Sample("Range", (), RangeAttributes(1.0, 5.0, 1.5, DType.F32), expected=([1, 2.5, 4],)),
    Sample("Range", (), RangeAttributes(0.0, 3000.0, 100.0, DType.F16)),
    Sample("Range", (), RangeAttributes(0.0, 20.0, 2.0, DType.BF16)),
    *(Sample("ConstantOfShape", (), ConstantOfShapeAttributes((2, 3), 1, to)) for to in DType),
    Sample("ConstantOfShape", (), ConstantOfShapeAttributes(()), expected=(0,)),
    Sample("ConstantOfShape", (), ConstantOfShapeAttributes((2, 0), -4, DType.I64)),
]
BAD = [
    Bad(
        "EyeLike",
        ("f32[3]",),
        "eyelike: x must be a matrix; got f32[3] (node bad)",
        EyeLikeAttributes(),
    ),
    Bad(
        "Range",
        (),
        "range: start, limit and delta must be finite, delta not 0; got 0, 5, 0 (node bad)",
        RangeAttributes(0, 5, 0, DType.I64),
    ),
    Bad(
        "Range",
        (),
        "range: the output must be of a number type; got bool (node bad)",
        RangeAttributes(0, 5, 1, DType.BOOL),
    ),
    Bad(
        "ConstantOfShape",
        (),
        "constantofshape: the shape must not be negative; got [2, -1] (node bad)",
        ConstantOfShapeAttributes((2, -1)),
    ),
]
TYPES = [
    Typed("EyeLike", ("f32[N,3]",), ("f32[N,3]",), EyeLikeAttributes()),
]
