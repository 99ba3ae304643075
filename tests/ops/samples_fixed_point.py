"""Samples of layers in fixed point; the expected values are those of LiteRT's reference kernels."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.fixed_point import FixedPointAddAttributes, FixedPointSoftmaxAttributes
from weft.ops.gemmlowp import softmax_table
from weft.ops.requantization import fixed_point


def of(dtype: type, *values: int) -> np.ndarray:
    return np.array(values, dtype)


def sum(a: float, b: float, y: float, *zeros: int, left: int = 20, subtract: int = 0):
    """Attributes for scales and zero points."""
    twice = 2 * max(a, b)
    factors = [fixed_point(each) for each in (a / twice, b / twice, twice / ((1 << left) * y))]
    multipliers, shifts = zip(*factors, strict=True)
    return FixedPointAddAttributes(zeros, multipliers, shifts, left, subtract)


BYTES = np.arange(-128, 128, dtype=np.int8)
POWERS = softmax_table(*fixed_point(0.125 * (1 << 26)))
ALONG = FixedPointSoftmaxAttributes()
SQUARES = (np.arange(256, dtype=np.int32) ** 2).astype(np.int32)

SAMPLES = [
    # Steps of 1, 1/2 and 1/4: 5 + 3/2, 0 - 1/2 and what saturates.
    Sample(
        "FixedPointAdd",
        (of(np.int8, 5, 0, 127), of(np.int8, 3, -1, 127)),
        sum(1, 0.5, 0.25, 0, 0, 0),
        expected=([26, -2, 127],),
    ),
    Sample(
        "FixedPointAdd",
        (of(np.uint8, 5, 0, 255), of(np.uint8, 3, 255, 1)),
        sum(1, 0.5, 1, 1, 1, 10, subtract=1),
        expected=([13, 0, 255],),
    ),
    Sample("FixedPointAdd", ("i8[2,3,4]", "i8[4]"), sum(0.31, 0.07, 0.25, -3, 9, 4)),
    Sample(
        "FixedPointAdd",
        (BYTES, BYTES[::-1].copy()),
        sum(0.0173, 0.021, 0.0204, -128, 5, -128),
    ),
    Sample("FixedPointAdd", ("i16[3,5]", "i16[3,5]"), sum(0.01, 0.02, 0.03, 0, 0, 0, left=15)),
    Sample("Lookup", (of(np.int8, -128, 0, 127), SQUARES), expected=([0, 16384, 65025],)),
    Sample("Lookup", (of(np.uint8, 3, 255), BYTES), expected=([-125, 127],)),
    Sample("Lookup", ("i8[2,1,3]", BYTES.astype(np.int16))),
    # By hand: equal inputs share 256 steps; one far below has none of them.
    Sample(
        "FixedPointSoftmax",
        (of(np.int8, 7, 7, 7, 7), POWERS),
        ALONG,
        expected=([-64, -64, -64, -64],),
    ),
    Sample("FixedPointSoftmax", (of(np.uint8, 255, 0), POWERS), ALONG, expected=([255, 0],)),
    Sample("FixedPointSoftmax", (BYTES.reshape(4, 64), POWERS), ALONG),
    Sample("FixedPointSoftmax", (BYTES.reshape(2, 32, 4), POWERS), FixedPointSoftmaxAttributes(1)),
    Sample("FixedPointSoftmax", ("u8[3,1]", POWERS), ALONG),
]
BAD = [
    Bad(
        "FixedPointAdd",
        ("i8[2]", "u8[2]"),
        "fixedpointadd: the inputs must have the same element type; got i8[2], u8[2] (node bad)",
        sum(1, 1, 1, 0, 0, 0),
    ),
    Bad(
        "FixedPointAdd",
        ("f32[2]", "f32[2]"),
        "fixedpointadd: input 0 must be of i8, u8 or i16; got f32[2] (node bad)",
        sum(1, 1, 1, 0, 0, 0),
    ),
    Bad(
        "FixedPointAdd",
        ("i8[2]", "i8[2]"),
        "fixedpointadd: zeros must be three numbers; got zeros [0, 0] (node bad)",
        sum(1, 1, 1, 0, 0),
    ),
    Bad(
        "Lookup",
        ("i16[2]", "i8[256]"),
        "lookup: input 0 must be of i8 or u8; got i16[2] (node bad)",
    ),
    Bad(
        "Lookup",
        ("i8[2]", "i8[255]"),
        "lookup: the table must have 256 elements; got i8[255] (node bad)",
    ),
    Bad(
        "FixedPointSoftmax",
        ("i8[2,3]", "i32[255]"),
        "fixedpointsoftmax: the table must have 256 elements; got i32[255] (node bad)",
        ALONG,
    ),
    Bad(
        "FixedPointSoftmax",
        ("i8[2,3]", "i32[256]"),
        "fixedpointsoftmax: axis must be within [-2, 1]; got 2 (node bad)",
        FixedPointSoftmaxAttributes(2),
    ),
]
TYPES = [
    Typed("FixedPointAdd", ("i8[N,3]", "i8[3]"), ("i8[N,3]",), sum(1, 1, 1, 0, 0, 0)),
    Typed("Lookup", ("u8[N,3]", "i8[256]"), ("i8[N,3]",)),
    Typed("FixedPointSoftmax", ("i8[N,3]", "i32[256]"), ("i8[N,3]",), ALONG),
]
