"""Samples of pooling."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.global_pooling import GlobalLpPoolAttributes
from weft.ops.pooling import (
    AveragePoolAttributes,
    LpPoolAttributes,
    MaxPoolAttributes,
    PoolAttributes,
)

CLOSE = 1e-5
SQUARE = np.arange(1, 26, dtype=np.float32).reshape(1, 1, 5, 5)
TIES = np.array([3, 3, 1, 3, 3, 3, 2, 2, 3], np.float32).reshape(1, 1, 3, 3)


def maximum(x: np.ndarray | str, *kernel: int, outputs: int = 1, **attributes: object) -> Sample:
    return Sample("MaxPool", (x,), MaxPoolAttributes(kernel, **attributes), outputs=outputs)


def average(x: str, *kernel: int, tolerance: float = CLOSE, **attributes: object) -> Sample:
    return Sample("AveragePool", (x,), AveragePoolAttributes(kernel, **attributes), tolerance)


def integers(x: np.ndarray | str, *kernel: int, **attributes: object) -> Sample:
    return Sample("IntegerAveragePool", (x,), PoolAttributes(kernel, **attributes))


def power(x: str, *kernel: int, tolerance: float = CLOSE, **attributes: object) -> Sample:
    return Sample("LpPool", (x,), LpPoolAttributes(kernel, **attributes), tolerance)


SAMPLES = [
    Sample(
        "MaxPool",
        (SQUARE,),
        MaxPoolAttributes((2, 2), strides=(2, 2), storage_order=1),
        outputs=2,
        expected=([[[[7, 9], [17, 19]]]], [[[[6, 16], [8, 18]]]]),
    ),
    maximum("f32[2,3,7,6]", 3, 2, strides=(2, 2), pads=(1, 0, 1, 1)),
    maximum("f32[2,3,7,6]", 3, 2, strides=(2, 2), pads=(1, 0, 1, 1), outputs=2),
    maximum("f32[1,2,8,9]", 2, 3, dilations=(3, 2), ceil_mode=1, strides=(2, 2), outputs=2),
    maximum(TIES, 2, 2, outputs=2),
    maximum(TIES, 2, 2, outputs=2, storage_order=1),
    maximum("f32[2,3,9]", 3, pads=(1, 1), outputs=2),
    maximum("f32[1,2,4,5,4]", 2, 2, 2, strides=(2, 2, 1), outputs=2, storage_order=1),
    maximum("u8[1,2,5,5]", 3, 3, pads=(1, 1, 1, 1)),
    maximum("i8[1,2,5,5]", 3, 3, pads=(1, 1, 1, 1), strides=(3, 3)),
    maximum("f16[1,2,5,5]", 3, 3),
    Sample(
        "AveragePool",
        (SQUARE,),
        AveragePoolAttributes((3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
        expected=([[[[4, 5.5, 7], [11.5, 13, 14.5], [19, 20.5, 22]]]],),
    ),
    average("f32[2,3,7,6]", 3, 2),
    average("f32[2,3,7,6]", 3, 2, pads=(1, 0, 1, 1), count_include_pad=1),
    average("f32[2,3,7,6]", 3, 2, pads=(1, 0, 1, 1), strides=(2, 2)),
    average("f32[1,2,8,8]", 3, 3, strides=(2, 2), ceil_mode=1),
    average("f32[1,2,8,8]", 3, 3, strides=(2, 2), ceil_mode=1, count_include_pad=1),
    average("f32[1,2,8,8]", 4, 3, strides=(3, 3), pads=(1, 1, 1, 1), ceil_mode=1),
    average(
        "f32[1,2,8,8]", 4, 3, strides=(3, 3), pads=(1, 1, 1, 1), ceil_mode=1, count_include_pad=1
    ),
    average("f32[1,2,9,8]", 3, 2, dilations=(2, 3), pads=(2, 1, 2, 2), strides=(2, 1)),
    average("f32[1,2,9,8]", 3, 2, dilations=(2, 3), pads=(2, 1, 2, 2), count_include_pad=1),
    average("f32[1,2,9]", 3, pads=(1, 1)),
    average("f32[1,2,4,5,6]", 2, 2, 3, pads=(1, 0, 1, 0, 1, 1)),
    average("f16[1,2,5,5]", 3, 3, tolerance=2e-3),
    power("f32[1,2,5,6]", 3, 2, pads=(1, 0, 1, 1)),
    power("f32[1,2,5,6]", 3, 2, p=1, dilations=(2, 1)),
    power("f32[1,2,5,6]", 3, 2, p=3, strides=(2, 2), ceil_mode=1),
    power("f16[1,2,6]", 3, tolerance=4e-3),
    Sample("GlobalAveragePool", (SQUARE,), expected=([[[[13]]]],)),
    Sample("GlobalAveragePool", ("f32[2,3,4,5]",), tolerance=CLOSE),
    Sample("GlobalAveragePool", ("bf16[2,3,4]",), tolerance=2e-2),
    # NaN is passed over; where there is nothing else, the index is the first of the image.
    maximum(np.full((1, 2, 3, 3), np.nan, np.float32), 2, 2, outputs=2),
    maximum(
        np.where(np.arange(18) % 4 == 1, np.nan, np.arange(18)).reshape(1, 2, 3, 3), 2, 2, outputs=2
    ),
    Sample(  # Nothing exceeds the lowest number: the index is that of the window's first element.
        "MaxPool",
        (np.zeros((1, 1, 2, 4), np.uint8),),
        MaxPoolAttributes((2, 2), strides=(2, 2)),
        outputs=2,
        expected=([[[[0, 0]]]], [[[[0, 2]]]]),
    ),
    maximum(np.full((1, 2, 3, 3), -np.inf, np.float32), 2, 2, pads=(1, 1, 1, 1), outputs=2),
    Sample("GlobalMaxPool", (SQUARE,), expected=([[[[25]]]],)),
    Sample("GlobalMaxPool", ("f32[2,3,4,2,2]",)),
    Sample("GlobalLpPool", ("f32[2,3,4,2]",), GlobalLpPoolAttributes(), CLOSE),
    Sample("GlobalLpPool", ("f32[2,3,4,2]",), GlobalLpPoolAttributes(p=3), CLOSE),
    # By hand: sums 5, -5, 6 and -6 of two, halves away from zero.
    Sample(
        "IntegerAveragePool",
        (np.array([[[2, 3, -2, -3, 3, 3, -3, -3]]], np.int8),),
        PoolAttributes((2,), (2,)),
        expected=([[[3, -3, 3, -3]]],),
    ),
    integers("i8[1,3,6,7]", 3, 3, strides=(2, 2), pads=(1, 1, 1, 1)),
    integers(SQUARE.astype(np.uint8), 5, 5),
    integers("i16[2,1,9]", 4, strides=(3,), ceil_mode=1),
]
BAD: list[Bad] = [
    Bad(
        "IntegerAveragePool",
        ("f32[1,2,8]",),
        "integeraveragepool: input must be of i8, u8 or i16; got f32[1,2,8] (node bad)",
        PoolAttributes((3,)),
    ),
    Bad(
        "MaxPool",
        ("f32[1,2,5,5]",),
        "maxpool: kernel has 1 axes, input has 2 spatial axes; "
        "got x f32[1,2,5,5], kernel [3] (node bad)",
        MaxPoolAttributes((3,)),
    ),
    Bad(
        "MaxPool",
        ("f32[1,2]",),
        "maxpool: input must be [batch, channels, spatial...]; got x f32[1,2] (node bad)",
        MaxPoolAttributes((3,)),
    ),
    Bad(
        "MaxPool",
        ("f32[1,2,8]",),
        "maxpool: pads must not be negative; got pads [-1, 0] (node bad)",
        MaxPoolAttributes((3,), pads=(-1, 0)),
    ),
    Bad(
        "AveragePool",
        ("u8[1,2,8]",),
        "averagepool: input must be of a floating-point type; got u8[1,2,8] (node bad)",
        AveragePoolAttributes((3,)),
    ),
    Bad(
        "LpPool",
        ("f32[1,2,8]",),
        "lppool: p must be at least 1; got 0 (node bad)",
        LpPoolAttributes((3,), p=0),
    ),
]
TYPES: list[Typed] = [
    Typed("MaxPool", ("f32[N,3,8,8]",), ("f32[N,3,4,4]",), MaxPoolAttributes((2, 2), (2, 2))),
    Typed("AveragePool", ("f32[N,3,8]",), ("f32[N,3,7]",), AveragePoolAttributes((2,))),
    Typed("GlobalAveragePool", ("f32[N,3,8,8]",), ("f32[N,3,1,1]",)),
]
