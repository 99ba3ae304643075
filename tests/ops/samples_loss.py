"""Samples of the losses."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.ops.loss import LossAttributes

CLOSE = 1e-6
BOTH = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")


def loss(
    name: str, x: str, reduction: str, weighted: bool, ignore: int | None, tolerance: float
) -> Sample:
    dtype, dims = x.removesuffix("]").split("[")
    sizes = dims.split(",")
    labels = random(f"i64[{','.join([sizes[0], *sizes[2:]])}]", 0, int(sizes[1]))
    weights = [random(f"{dtype}[{sizes[1]}]", 0.1, 2)] if weighted else []
    attributes = LossAttributes(reduction, ignore)
    return Sample(name, (x, labels, *weights), attributes, tolerance)


SAMPLES = [
    *(
        loss(name, "f32[3,5,2]", reduction, weighted, ignore, CLOSE)
        for name in BOTH
        for reduction in ("none", "sum", "mean")
        for weighted in (False, True)
        for ignore in (None, 2)
    ),
    *(loss(name, "f64[6,3]", "mean", True, 0, 1e-14) for name in BOTH),
    *(loss(name, "f16[6,3]", "sum", True, 0, 3e-3) for name in BOTH),
    *(loss(name, "bf16[2,3,2,2]", "none", False, None, 3e-2) for name in BOTH),
    Sample(
        "SoftmaxCrossEntropyLoss",
        ("f32[3,5]", np.array([0, -1, 4], np.int32)),
        LossAttributes(ignore_index=-1),
        CLOSE,
        outputs=2,
    ),
    Sample(
        "NegativeLogLikelihoodLoss",
        (
            np.array(
                [[[1, 2], [2, 2], [3, 2]], [[0, 1], [2, 2], [1, 2]]],
                np.float32,
            ),
            np.array([[2, 1], [0, 2]], np.int64),
            np.array([0.2, 0.3, 0.1], np.float32),
        ),
        LossAttributes("sum"),
        CLOSE,
        expected=(-1.1,),
    ),
]
BAD = [
    Bad(
        BOTH[0],
        ("f32[3,5]", "i64[3]"),
        "negativeloglikelihoodloss: reduction must be none, sum or mean; got 'max' (node bad)",
        LossAttributes("max"),
    ),
    Bad(
        BOTH[0],
        ("f32[3,5]", "i8[3]"),
        "negativeloglikelihoodloss: labels must be i32 or i64; got i8[3] (node bad)",
        LossAttributes(),
    ),
    Bad(
        BOTH[1],
        ("f32[3,5]", "i64[5]"),
        "softmaxcrossentropyloss: labels must have the shape of x without its second axis; "
        "got f32[3,5], i64[5] (node bad)",
        LossAttributes(),
    ),
    Bad(
        BOTH[1],
        ("f32[3,5]", "i64[3]", "f32[3]"),
        "softmaxcrossentropyloss: weights must be f32[5]; got f32[3,5], i64[3], f32[3] (node bad)",
        LossAttributes(),
    ),
]
TYPES = [
    Typed(BOTH[0], ("f32[N,5]", "i64[N]"), ("f32[]",), LossAttributes()),
    Typed(BOTH[1], ("f32[N,5]", "i64[N]"), ("f32[N]", "f32[N,5]"), LossAttributes("none")),
]
