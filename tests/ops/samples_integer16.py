"""Samples of layers of 16-bit integers; the expected values are those of LiteRT's kernels."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.dtypes import DType
from weft.ops.integer16 import (
    ConvInteger16Attributes,
    FixedPointSigmoidAttributes,
    FixedPointSoftmax16Attributes,
    QuantizedSqrtAttributes,
    sigmoid_table,
)
from weft.ops.requantization import RequantizeAttributes, fixed_point, narrow_multiplier
from weft.rewrite.litert_int16 import UNITS, slopes


def of(dtype: type, *values: int) -> np.ndarray:
    return np.array(values, dtype)


EXTREMES = of(np.int16, -32768, -32768, 32767, -32768)
NARROW = ConvInteger16Attributes(sums=DType.I32)
TABLE = sigmoid_table()
WHOLE = np.arange(-32768, 32768, 64, dtype=np.int16)
POWERS = slopes(-10.0, 0.0, np.exp, UNITS)
SHARES = slopes(0.0, 1.0, lambda value: 1 / (1 + value), UNITS)
SOFT = FixedPointSoftmax16Attributes(-1, *fixed_point(0.6))
FACTORS = [narrow_multiplier(*fixed_point(factor)) for factor in (0.0037, 0.25, 3.0, 1e-8)]
MULTIPLIERS, SHIFTS = (of(np.int32, *each) for each in zip(*FACTORS, strict=True))
LAST = RequantizeAttributes(axis=-1)
SUMS = np.random.default_rng(17).integers(-(1 << 46), 1 << 46, (2, 3, 4))

SAMPLES = [
    # By hand: three products of -32768 and -128 and one of 32767.
    Sample(
        "ConvInteger16",
        (EXTREMES.reshape(1, 4, 1, 1), np.full((1, 4, 1, 1), -128, np.int8)),
        ConvInteger16Attributes(),
        expected=([[[[3 * (1 << 22) - 32767 * 128]]]],),
    ),
    Sample("ConvInteger16", ("i16[2,4,5,6]", "i8[3,4,3,2]"), NARROW),
    Sample(
        "ConvInteger16",
        ("i16[1,4,7,6]", "i8[8,1,3,3]"),
        ConvInteger16Attributes(strides=(2, 1), pads=(1, 0, 1, 1), groups=4),
    ),
    Sample(
        "ConvInteger16ChannelsLast",
        ("i16[1,5,6,4]", "i8[2,4,3,3]"),
        ConvInteger16Attributes(pads=(1, 1, 1, 1)),
    ),
    # By hand: halves go up, 3 and -3 times a quarter are 0.75 and -0.75.
    Sample(
        "RequantizeWide",
        (of(np.int64, 2, -2, 3, -3), of(np.int32, 1 << 14), of(np.int32, 16), of(np.int16, 0)),
        expected=([1, 0, 1, -1],),
        attributes=RequantizeAttributes(),
    ),
    Sample("RequantizeWide", (SUMS, MULTIPLIERS, SHIFTS, of(np.int16, 5)), LAST),
    Sample(
        "RequantizeWide",
        (SUMS.astype(np.int32), MULTIPLIERS[:3], SHIFTS[:3], of(np.int8, -7)),
        RequantizeAttributes(),
    ),
    # By hand: a half; and next to it what is saturated.
    Sample(
        "FixedPointSigmoid",
        (of(np.int16, 0, 32767, -32768), TABLE),
        FixedPointSigmoidAttributes(3),
        expected=([16384, 32757, 11],),
    ),
    *(
        Sample("FixedPointSigmoid", (WHOLE, TABLE), FixedPointSigmoidAttributes(*factor, tanh))
        for factor in ((3, 0), (6, 0), (20000, 12), (32767, 0))
        for tanh in (0, 1)
    ),
    # By hand: equal inputs have equal shares.
    # By hand: roots of 0.25, 2.25 and 6.25 in halves, of 1 and 2 cut off; none of -1.
    Sample(
        "QuantizedSqrt",
        (of(np.int16, 1, 9, 25, 4, 8, -4, 32767),),
        QuantizedSqrtAttributes(0.25, 0.5),
        expected=([1, 3, 5, 2, 2, 0, 181],),
    ),
    Sample("QuantizedSqrt", (WHOLE.reshape(4, 256),), QuantizedSqrtAttributes(7e-4, 3e-4)),
    # By hand: 128 a step, and rests of 0, 1, 64 (a half goes up) and 127 of 128.
    Sample(
        "Interpolate16",
        (of(np.int16, -32768, 1, 64, 127, 32767), np.arange(-256, 257, dtype=np.int16)),
        expected=([-256, 0, 1, 1, 256],),
    ),
    Sample("Interpolate16", ("i16[3,7]", POWERS)),
    Sample("Interpolate16", (WHOLE.reshape(4, 256), SHARES)),
    Sample(
        "FixedPointSoftmax16",
        (of(np.int16, -7, -7, -7, -7), POWERS, SHARES),
        SOFT,
        expected=([8192, 8192, 8192, 8192],),
    ),
    Sample("FixedPointSoftmax16", (WHOLE.reshape(32, 32), POWERS, SHARES), SOFT),
    Sample(
        "FixedPointSoftmax16",
        (WHOLE.reshape(2, 128, 4), POWERS, SHARES),
        FixedPointSoftmax16Attributes(1, *fixed_point(9.5)),
    ),
]
BAD = [
    Bad(
        "ConvInteger16",
        ("i8[1,2,3,3]", "i8[1,2,3,3]"),
        "convinteger16: input 0 must be of i16; got i8[1,2,3,3] (node bad)",
        ConvInteger16Attributes(),
    ),
    Bad(
        "ConvInteger16",
        ("i16[1,2,3,3]", "i8[1,2,3,3]"),
        "convinteger16: sums must be i32 or i64; got i16 (node bad)",
        ConvInteger16Attributes(sums=DType.I16),
    ),
    Bad(
        "RequantizeWide",
        ("i16[2,3]", "i32[]", "i32[]", "i16[]"),
        "requantizewide: input 0 must be of i32 or i64; got i16[2,3] (node bad)",
        RequantizeAttributes(),
    ),
    Bad(
        "QuantizedSqrt",
        ("i16[2]",),
        "quantizedsqrt: scales must be positive; got 0.5, 0 (node bad)",
        QuantizedSqrtAttributes(0.5, 0.0),
    ),
    Bad(
        "Interpolate16",
        ("i16[2]", "i16[512]"),
        "interpolate16: a table must be i16[513]; got i16[512] (node bad)",
    ),
    Bad(
        "FixedPointSigmoid",
        ("i16[2]", "u16[255]"),
        "fixedpointsigmoid: the table must be u16[256]; got u16[255] (node bad)",
        FixedPointSigmoidAttributes(3),
    ),
    Bad(
        "FixedPointSigmoid",
        ("i16[2]", "u16[256]"),
        "fixedpointsigmoid: the multiplier must have 15 bits, the shift 0 to 31; got multiplier "
        "32768, shift 0 (node bad)",
        FixedPointSigmoidAttributes(32768),
    ),
    Bad(
        "FixedPointSoftmax16",
        ("i16[2]", "i16[513]", "i16[512]"),
        "fixedpointsoftmax16: a table must be i16[513]; got i16[512] (node bad)",
        SOFT,
    ),
]
TYPES = [
    Typed(
        "ConvInteger16",
        ("i16[N,3,4,4]", "i8[2,3,3,3]"),
        ("i64[N,2,2,2]",),
        ConvInteger16Attributes(),
    ),
    Typed("RequantizeWide", ("i64[N,3]", "i32[3]", "i32[3]", "i16[]"), ("i16[N,3]",), LAST),
    Typed(
        "FixedPointSigmoid", ("i16[N,3]", "u16[256]"), ("i16[N,3]",), FixedPointSigmoidAttributes(3)
    ),
    Typed("FixedPointSoftmax16", ("i16[N,3]", "i16[513]", "i16[513]"), ("i16[N,3]",), SOFT),
]
