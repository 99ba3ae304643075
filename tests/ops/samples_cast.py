"""Samples of conversions and of what changes nothing."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.dtypes import DType
from weft.ops.cast import BitCastAttributes, CastAttributes

FLOATS = (DType.F64, DType.F32, DType.F16, DType.BF16)
TYPED = [dtype for dtype in DType if dtype is not DType.BOOL]

SAMPLES = [
    *(Sample("Cast", (random("f32[7]", 0, 9),), CastAttributes(to)) for to in DType),
    *(Sample("Cast", ("i32[7]",), CastAttributes(to)) for to in DType),
    *(Sample("Cast", ("bool[7]",), CastAttributes(to)) for to in DType),
    *(
        Sample("Cast", (random(f"{of.value}[5]", 0, 99),), CastAttributes(DType.F32))
        for of in TYPED
    ),
    *(
        Sample("Cast", (random(f"{of.value}[5]", 0, 3),), CastAttributes(DType.BOOL))
        for of in TYPED
    ),
    *(
        Sample("Cast", (random(f"{of.value}[5]", -9, 9),), CastAttributes(DType.I8))
        for of in FLOATS
    ),
    Sample(
        "Cast",
        (np.array([1e6, -1e6, np.inf, np.nan, 1e-9], np.float32),),
        CastAttributes(DType.F16),
        expected=([np.inf, -np.inf, np.inf, np.nan, 0],),
    ),
    Sample(
        "Cast",
        (np.array([300, -1, 128], np.int64),),
        CastAttributes(DType.I8),
        expected=([44, -1, -128],),
    ),
    Sample(
        "Cast",
        (np.array([-1.9, -0.5, 1.9], np.float64),),
        CastAttributes(DType.I64),
        expected=([-1, 0, 1],),
    ),
    # Beyond an integer type: its ends, in every way of computing.
    *(
        Sample(
            "Cast",
            (np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -1.5, -0.5, 1.5], of),),
            CastAttributes(to),
            expected=([0, *[to.limits[1], to.limits[0]] * 2, max(-1, to.limits[0]), 0, 1],),
        )
        for of in (np.float32, np.float64)
        for to in DType
        if to.is_integer
    ),
    Sample(
        "Cast",
        (np.array([2.0**31, -(2.0**31), 2.0**31 - 128, 2.0**24 + 2], np.float32),),
        CastAttributes(DType.I32),
        expected=([2**31 - 1, -(2**31), 2**31 - 128, 2**24 + 2],),
    ),
    Sample(
        "Cast",
        (np.array([np.nan, np.inf, 300, -300, 65504], np.float16),),
        CastAttributes(DType.U8),
        expected=([0, 255, 255, 0, 255],),
    ),
    Sample(
        "CastLike",
        (np.array([np.nan, np.inf, -300], np.float32), "i8[1]"),
        expected=([0, 127, -128],),
    ),
    Sample("CastLike", ("f32[2,3]", "f16[4]")),
    Sample("CastLike", ("f32[2,3]", "f32[]")),
    Sample("Identity", ("f32[2,3]",)),
    Sample("Identity", ("bool[]",)),
    Sample("Identity", ("bf16[3,0]",)),
    Sample("Dropout", ("f32[2,3]",), outputs=1),
    Sample("Dropout", ("f16[2,3]",), outputs=2),
    Sample("BitCast", ("f32[2,3]",), BitCastAttributes(DType.I32)),
    Sample("BitCast", ("u8[4]",), BitCastAttributes(DType.I8)),
    Sample(
        "BitCast",
        (np.array([1.0, -2.0], np.float32),),
        BitCastAttributes(DType.U32),
        expected=([0x3F800000, 0xC0000000],),
    ),
]
BAD = [
    Bad(
        "BitCast",
        ("f32[2]",),
        "bitcast: both types must have the same size; got f32 to i64 (node bad)",
        BitCastAttributes(DType.I64),
    ),
    Bad(
        "Dropout",
        ("i32[2]",),
        "dropout: input 0 must be of a floating-point type; got i32[2] (node bad)",
    ),
]
TYPES = [
    Typed("Cast", ("f32[N,3]",), ("i8[N,3]",), CastAttributes(DType.I8)),
    Typed("Dropout", ("f32[N,3]",), ("f32[N,3]", "bool[N,3]")),
]
