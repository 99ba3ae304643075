"""Samples of requantization in integers."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.requantization import RequantizeAttributes, fixed_point


def of(dtype: type, *values: int) -> np.ndarray:
    return np.array(values, dtype)


def i32(*values: int) -> np.ndarray:
    return of(np.int32, *values)


LAST = RequantizeAttributes(axis=-1)
EDGES = i32(-(1 << 31), -(1 << 31) + 1, -(1 << 30), -3, -2, -1, 0, 1, 2, 3, 1 << 30, (1 << 31) - 1)
HALF, SHIFT = fixed_point(0.5)
SMALL = [fixed_point(factor) for factor in (0.0037, 0.25, 3.0, 1e-12)]
SMALL_MULTIPLIERS, SMALL_SHIFTS = (i32(*each) for each in zip(*SMALL, strict=True))
WHOLE = np.random.default_rng(17).integers(-60000, 60000, (2, 3, 4)).astype(np.int32)

SAMPLES = [
    # By hand: 5 and -5 times a half are 2.5 and -2.5, rounded when the doubled product is.
    Sample(
        "Requantize",
        (i32(5, -5, 4, 1), i32(HALF), i32(SHIFT), of(np.int8, 0)),
        RequantizeAttributes(),
        expected=([3, -2, 2, 1],),
    ),
    # A quarter in a shift: 6 is 1.5 and -6 is -1.5, rounded when divided, away from zero.
    Sample(
        "Requantize",
        (i32(6, -6, 2, -2, 1), i32((1 << 31) - 1), i32(-2), of(np.int8, 10)),
        RequantizeAttributes(),
        expected=([12, 8, 11, 9, 10],),
    ),
    Sample(
        "Requantize",
        (i32(1000, -1000), i32(HALF), i32(1), of(np.uint8, 7)),
        RequantizeAttributes(),
        expected=([255, 0],),
    ),
    *(
        Sample(
            "Requantize",
            (EDGES, i32(1518500250), i32(shift), of(dtype, zero)),
            RequantizeAttributes(),
        )
        for shift in (-31, -8, -1, 0, 1, 9, 30)
        for dtype, zero in ((np.int8, -128), (np.uint8, 255), (np.int16, 99), (np.int32, 5))
    ),
    Sample(
        "Requantize",
        (WHOLE, SMALL_MULTIPLIERS, SMALL_SHIFTS, of(np.int8, -3)),
        LAST,
    ),
    Sample(
        "Requantize",
        (WHOLE, SMALL_MULTIPLIERS[:3], SMALL_SHIFTS[:3], of(np.int8, 3)),
        RequantizeAttributes(),
    ),
]
BAD = [
    Bad(
        "Requantize",
        ("i32[2,3]", "i32[2]", "i32[]", "i8[]"),
        "requantize: input 1 must be one number or one for each of 3 positions; "
        "got i32[2] (node bad)",
        RequantizeAttributes(),
    ),
    Bad(
        "Requantize",
        ("i64[2,3]", "i32[]", "i32[]", "i8[]"),
        "requantize: input 0 must be of i32; got i64[2,3] (node bad)",
        RequantizeAttributes(),
    ),
    Bad(
        "Requantize",
        ("i32[2,3]", "i32[]", "i32[]", "i8[3]"),
        "requantize: the zero point must be one number; got i8[3] (node bad)",
        RequantizeAttributes(),
    ),
]
TYPES = [
    Typed(
        "Requantize", ("i32[N,3]", "i32[3]", "i32[3]", "i8[]"), ("i8[N,3]",), RequantizeAttributes()
    ),
]
