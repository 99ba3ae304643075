"""Samples of ops whose channels are the last axis."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.ops.convolution import ConvAttributes, ConvTransposeAttributes
from weft.ops.normalization import BatchNormalizationAttributes, InstanceNormalizationAttributes
from weft.ops.ordering import BlockAttributes
from weft.ops.pooling import (
    AveragePoolAttributes,
    LpPoolAttributes,
    MaxPoolAttributes,
    PoolAttributes,
)

CLOSE = 1e-5
POSITIVE = np.array([0.5, 1.5, 2.0], np.float32)

SAMPLES = [
    Sample(
        "ConvChannelsLast",
        (np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1), np.ones((1, 1, 3, 3), np.float32)),
        ConvAttributes(pads=(1, 1, 1, 1)),
        expected=(np.reshape([8, 15, 12, 21, 36, 27, 20, 33, 24], (1, 3, 3, 1)),),
    ),
    Sample(
        "ConvChannelsLast",
        ("f32[2,7,6,4]", "f32[6,2,3,2]", "f32[6]"),
        ConvAttributes(strides=(2, 1), pads=(1, 0, 0, 2), groups=2),
        CLOSE,
    ),
    Sample("ConvChannelsLast", ("f32[1,9,3]", "f32[2,3,3]"), ConvAttributes(), CLOSE),
    Sample(
        "ConvIntegerChannelsLast",
        ("i8[2,5,6,4]", "i8[6,2,3,2]", "i8[]"),
        ConvAttributes(strides=(2, 1), pads=(1, 0, 0, 2), groups=2),
    ),
    Sample(
        "QLinearConvChannelsLast",
        (
            *(random("i8[2,5,6,4]", -128, 127), np.array(0.03, np.float32), np.array(5, np.int8)),
            *(
                random("i8[6,2,3,2]", -128, 127),
                random("f32[6]", 0.01, 0.1),
                random("i8[6]", -3, 3),
            ),
            *(np.array(0.9, np.float32), np.array(2, np.int8), random("i32[6]", -999, 999)),
        ),
        ConvAttributes(strides=(2, 1), pads=(1, 0, 0, 2), groups=2),
    ),
    Sample(
        "ConvTransposeChannelsLast",
        ("f32[1,4,5,3]", "f32[3,2,3,3]"),
        ConvTransposeAttributes(strides=(2, 2)),
        CLOSE,
    ),
    Sample("MaxPoolChannelsLast", ("f32[1,5,6,2]",), MaxPoolAttributes((2, 3), (2, 1))),
    Sample("AveragePoolChannelsLast", ("f32[1,5,6,2]",), AveragePoolAttributes((2, 2)), CLOSE),
    Sample("IntegerAveragePoolChannelsLast", ("i8[1,5,6,2]",), PoolAttributes((2, 2))),
    Sample("LpPoolChannelsLast", ("f32[1,5,6,2]",), LpPoolAttributes((2, 2)), CLOSE),
    Sample("GlobalAveragePoolChannelsLast", ("f32[2,3,4,5]",), tolerance=CLOSE),
    Sample("GlobalMaxPoolChannelsLast", ("f32[2,3,4,5]",)),
    Sample(
        "BatchNormalizationChannelsLast",
        ("f32[2,4,5,3]", "f32[3]", "f32[3]", "f32[3]", POSITIVE),
        BatchNormalizationAttributes(),
        CLOSE,
    ),
    Sample(
        "InstanceNormalizationChannelsLast",
        ("f32[2,4,5,3]", "f32[3]", "f32[3]"),
        InstanceNormalizationAttributes(),
        1e-4,
    ),
    Sample("DepthToSpaceChannelsLast", ("f32[1,2,3,8]",), BlockAttributes(2)),
    Sample("SpaceToDepthChannelsLast", ("f32[1,4,6,2]",), BlockAttributes(2)),
]

BAD = [
    Bad(
        "ConvChannelsLast",
        ("f32[1,5]", "f32[2,3,3]"),
        "convchannelslast: input must be [batch, spatial..., channels]; got x f32[1,5] (node bad)",
        ConvAttributes(),
    ),
    Bad(
        "ConvChannelsLast",
        ("f32[1,8,8,4]", "f32[8,3,3,3]"),
        "conv: weight has 3 input channels per group, input has 4 and groups=1; "
        "got x f32[1,4,8,8], w f32[8,3,3,3] (node bad)",
        ConvAttributes(),
    ),
]

TYPES = [
    Typed(
        "ConvChannelsLast", ("f32[N,8,8,3]", "f32[5,3,3,3]"), ("f32[N,6,6,5]",), ConvAttributes()
    ),
]
