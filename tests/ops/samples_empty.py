"""Samples without elements: a batch of 0, sums of nothing."""

from __future__ import annotations

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.attention import AttentionAttributes
from weft.ops.convolution import ConvAttributes
from weft.ops.normalization import GroupNormalizationAttributes, InstanceNormalizationAttributes
from weft.ops.selection import HardmaxAttributes
from weft.ops.softmax import SoftmaxAttributes

SAMPLES = [
    Sample("Conv", ("f32[0,4,5,5]", "f32[4,4,3,3]"), ConvAttributes()),
    Sample("Conv", ("f32[0,4,5]", "f32[4,2,3]"), ConvAttributes(groups=2)),
    Sample("Conv", ("f32[1,4,5]", "f32[0,4,3]"), ConvAttributes()),
    Sample("MatMul", ("f32[2,0]", "f32[0,4]")),
    Sample("MatMul", ("f32[5,2,0]", "f32[0,4]")),
    Sample("Softmax", ("f32[0,3]",), SoftmaxAttributes(axis=0)),
    Sample("Softmax", ("f32[3,0]",), SoftmaxAttributes(axis=1)),
    Sample("LogSoftmax", ("f32[3,0]",), SoftmaxAttributes(axis=1)),
    Sample("Hardmax", ("f32[3,0]",), HardmaxAttributes(axis=1)),
    Sample(
        "InstanceNormalization",
        ("f32[0,3,2]", "f32[3]", "f32[3]"),
        InstanceNormalizationAttributes(),
    ),
    Sample(
        "GroupNormalization",
        ("f32[0,4,2]", "f32[4]", "f32[4]"),
        GroupNormalizationAttributes(num_groups=2),
    ),
    Sample(
        "Attention",
        ("f32[0,3,8]", "f32[0,5,8]", "f32[0,5,8]"),
        AttentionAttributes(q_num_heads=2, kv_num_heads=2),
    ),
    # No key to attend to: the mean of nothing is 0, as where all keys are masked.
    Sample("Attention", ("f32[1,2,3,4]", "f32[1,2,0,4]", "f32[1,2,0,4]"), AttentionAttributes()),
]
BAD: list[Bad] = []
TYPES: list[Typed] = []
