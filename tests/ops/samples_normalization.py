"""Samples of softmax and normalization."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.ops.normalization import (
    BatchNormalizationAttributes,
    GroupNormalizationAttributes,
    InstanceNormalizationAttributes,
    LayerNormalizationAttributes,
)
from weft.ops.response import (
    LpNormalizationAttributes,
    LRNAttributes,
    MeanVarianceNormalizationAttributes,
)
from weft.ops.softmax import SoftmaxAttributes

CLOSE = 2e-5
LARGE = np.array([[0, 1, 2, 3], [10000, 10001, 10002, 10003]], np.float32)
EXPECTED = [[0.032058604, 0.08714432, 0.23688284, 0.6439143]] * 2


def layer(*inputs: str, tolerance: float = CLOSE, outputs: int = 1, **fields: object) -> Sample:
    attributes = LayerNormalizationAttributes(**fields)
    return Sample("LayerNormalization", inputs, attributes, tolerance, outputs)


def rms(*inputs: str, tolerance: float = CLOSE, **fields: object) -> Sample:
    return Sample("RMSNormalization", inputs, LayerNormalizationAttributes(**fields), tolerance)


def batch(x: str, dtype: str = "f32", tolerance: float = CLOSE, **fields: object) -> Sample:
    vector = f"{dtype}[3]"
    variance = random(vector, 0.5, 2.0)
    return Sample(
        "BatchNormalization",
        (x, vector, vector, vector, variance),
        BatchNormalizationAttributes(**fields),
        tolerance,
        outputs=3 if fields.get("training_mode") else 1,
    )


HUGE = np.array([[1e38] * 6, [3e38] * 6, [1, 2, 3, 4, 5, 6]], np.float32)
STANDARD = [-1.4638475, -0.8783085, -0.2927695, 0.2927695, 0.8783085, 1.4638475]

SAMPLES = [
    # Sums that would overflow, as onnxruntime computes them; PyTorch gives NaN.
    Sample(
        "LayerNormalization",
        (HUGE, np.ones(6, np.float32)),
        LayerNormalizationAttributes(),
        1e-5,
        expected=([[0] * 6, [0] * 6, STANDARD],),
    ),
    Sample(
        "InstanceNormalization",
        (HUGE[None], np.ones(3, np.float32), np.zeros(3, np.float32)),
        InstanceNormalizationAttributes(),
        1e-5,
        expected=([[[0] * 6, [0] * 6, STANDARD]],),
    ),
    Sample("Softmax", (LARGE,), SoftmaxAttributes(), CLOSE, expected=(EXPECTED,)),
    Sample("Softmax", ("f32[2,3,4]",), SoftmaxAttributes(axis=1), CLOSE),
    Sample("Softmax", ("f32[5]",), SoftmaxAttributes(axis=0), CLOSE),
    Sample("Softmax", ("f16[2,5]",), SoftmaxAttributes(), 2e-3),
    Sample("Softmax", ("bf16[2,5]",), SoftmaxAttributes(), 2e-2),
    Sample("Softmax", ("f64[2,5]",), SoftmaxAttributes(), 1e-12),
    Sample(
        "LogSoftmax",
        (LARGE,),
        SoftmaxAttributes(),
        CLOSE,
        expected=([[-3.4401896, -2.4401896, -1.4401897, -0.44018966]] * 2,),
    ),
    Sample("LogSoftmax", ("f32[2,3,4]",), SoftmaxAttributes(axis=-2), CLOSE),
    layer("f32[2,3,4]", "f32[4]", "f32[4]"),
    layer("f32[2,3,4]", "f32[4]", outputs=3),
    layer("f32[2,3,4]", "f32[3,4]", "f32[3,4]", axis=1, epsilon=0.1, outputs=2),
    layer("f32[2,3,4]", "f32[2,3,4]", "f32[1]", axis=-3),
    layer("f16[2,3,8]", "f16[8]", "f16[8]", outputs=3, tolerance=2e-3),
    rms("f32[2,3,4]", "f32[4]"),
    rms("f32[2,3,4]", "f32[3,4]", axis=-2, epsilon=0.1),
    rms("bf16[2,8]", "bf16[8]", tolerance=3e-2),
    batch("f32[2,3,4,5]"),
    batch("f32[2,3]"),
    batch("f32[2,3,4]", epsilon=0.01),
    batch("f16[2,3,4]", "f16", tolerance=4e-3),
    batch("f16[2,3,4]", "f32", tolerance=4e-3),
    batch("f32[2,3,4,5]", training_mode=1, momentum=0.75),
    Sample(
        "InstanceNormalization",
        ("f32[2,3,4,5]", "f32[3]", "f32[3]"),
        InstanceNormalizationAttributes(epsilon=1e-2),
        CLOSE,
    ),
    Sample(
        "GroupNormalization",
        ("f32[2,6,4,5]", "f32[6]", "f32[6]"),
        GroupNormalizationAttributes(num_groups=2),
        CLOSE,
    ),
    Sample(
        "GroupNormalization",
        ("f32[2,6,4]", "f32[6]", "f32[6]"),
        GroupNormalizationAttributes(num_groups=1),
        CLOSE,
    ),
    Sample(
        "GroupNormalization",
        ("f16[2,6,8]", "f16[6]", "f16[6]"),
        GroupNormalizationAttributes(num_groups=3),
        4e-3,
    ),
    Sample(
        "LRN",
        (np.array([1, 2, 3, 4], np.float32).reshape(1, 4, 1, 1),),
        LRNAttributes(size=3, alpha=3.0, beta=1.0, bias=1.0),
        CLOSE,
        expected=(np.array([1 / 6, 2 / 15, 3 / 30, 4 / 26]).reshape(1, 4, 1, 1),),
    ),
    Sample("LRN", ("f32[2,5,3,3]",), LRNAttributes(size=4, alpha=0.01, beta=0.5), CLOSE),
    Sample(
        "LpNormalization",
        (np.array([[3, 4], [0, 0]], np.float32),),
        LpNormalizationAttributes(),
        CLOSE,
        expected=([[0.6, 0.8], [0, 0]],),
    ),
    Sample("LpNormalization", ("f32[2,3,4]",), LpNormalizationAttributes(axis=1, p=1), CLOSE),
    Sample(
        "MeanVarianceNormalization",
        ("f32[2,3,4,5]",),
        MeanVarianceNormalizationAttributes(),
        CLOSE,
    ),
]
BAD: list[Bad] = [
    Bad(
        "Softmax",
        ("i32[2,3]",),
        "softmax: input must be of a floating-point type; got x i32[2,3] (node bad)",
        SoftmaxAttributes(),
    ),
    Bad(
        "Softmax",
        ("f32[2,3]",),
        "softmax: axis must be within [-2, 1]; got 2 (node bad)",
        SoftmaxAttributes(axis=2),
    ),
    Bad(
        "LayerNormalization",
        ("f32[2,3]", "f32[2]"),
        "layernormalization: scale cannot be broadcast to the input; "
        "got x f32[2,3], scale f32[2] (node bad)",
        LayerNormalizationAttributes(),
    ),
    Bad(
        "BatchNormalization",
        ("f32[2,3,4]", "f32[3]", "f32[4]", "f32[3]", "f32[3]"),
        "batchnormalization: bias must have one number for each of the 3 channels; "
        "got bias f32[4] (node bad)",
        BatchNormalizationAttributes(),
    ),
    Bad(
        "GroupNormalization",
        ("f32[2,6,4]", "f32[6]", "f32[6]"),
        "groupnormalization: num_groups=4 must divide the 6 channels; "
        "got f32[2,6,4], f32[6], f32[6] (node bad)",
        GroupNormalizationAttributes(num_groups=4),
    ),
    Bad(
        "LpNormalization",
        ("f32[2,6]",),
        "lpnormalization: p must be 1 or 2; got 3 (node bad)",
        LpNormalizationAttributes(p=3),
    ),
]
TYPES: list[Typed] = [
    Typed("Softmax", ("f32[N,3]",), ("f32[N,3]",), SoftmaxAttributes()),
    Typed(
        "LayerNormalization",
        ("f32[N,3]", "f32[3]"),
        ("f32[N,3]", "f32[N,1]"),
        LayerNormalizationAttributes(),
    ),
    Typed(
        "BatchNormalization",
        ("f32[N,3,4]", "f32[3]", "f32[3]", "f32[3]", "f32[3]"),
        ("f32[N,3,4]",),
        BatchNormalizationAttributes(),
    ),
]
