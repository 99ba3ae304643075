"""Samples of quantization whose scales come from the values."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.dynamic import DynamicQuantizeAttributes

SYMMETRIC, ASYMMETRIC = "DynamicQuantizeSymmetric", "DynamicQuantizeAsymmetric"
ROWS = DynamicQuantizeAttributes()


def of(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


# Halves, at a scale of 1.
HALVES = of([127, 0.5, -0.5, 1.5, -2.5, 0.49999997], [0, 0, 0, 0, 0, 0], [254, 1, 3, 5, -254, 0])
SHIFTED = of([-128, 127, 0.5, -0.5, 0.25, -1.5], [0, 255, 0.5, 1.5, 2.5, 254.5], [0] * 6)

SAMPLES = [
    Sample(SYMMETRIC, ("f32[3,4]",), ROWS, outputs=2),
    Sample(SYMMETRIC, ("f32[2,3,4,5]",), ROWS, outputs=2),
    Sample(SYMMETRIC, ("f32[2,3,4]",), DynamicQuantizeAttributes(axis=-1), outputs=2),
    Sample(SYMMETRIC, ("f32[5]",), DynamicQuantizeAttributes(axis=0), outputs=2),
    Sample(
        SYMMETRIC,
        (HALVES,),
        ROWS,
        outputs=2,
        expected=(
            [[127, 1, -1, 2, -3, 0], [0] * 6, [127, 1, 2, 3, -127, 0]],
            [[1], [1], [2]],
        ),
    ),
    Sample(ASYMMETRIC, ("f32[3,4]",), ROWS, outputs=3),
    Sample(ASYMMETRIC, ("f32[2,3,4,5]",), ROWS, outputs=3),
    Sample(ASYMMETRIC, ("f32[2,3,4]",), DynamicQuantizeAttributes(axis=-1), outputs=3),
    Sample(
        ASYMMETRIC,
        (SHIFTED,),
        ROWS,
        outputs=3,
        # The zero point is added before rounding.
        expected=(
            [[-128, 127, 1, -1, 0, -2], [-128, 127, -128, -127, -126, 127], [0] * 6],
            [[1], [1], [1]],
            [[0], [-128], [0]],
        ),
    ),
]
BAD = [
    Bad(
        SYMMETRIC,
        ("f16[2,3]",),
        "dynamicquantizesymmetric: x must be f32; got f16[2,3] (node bad)",
        ROWS,
    ),
    Bad(
        ASYMMETRIC,
        ("f32[2,3]",),
        "dynamicquantizeasymmetric: axis must be within [-2, 1]; got 2 (node bad)",
        DynamicQuantizeAttributes(axis=2),
    ),
]
TYPES = [
    Typed(SYMMETRIC, ("f32[N,3]",), ("i8[N,3]", "f32[N,1]"), ROWS),
    Typed(ASYMMETRIC, ("f32[N,3]",), ("i8[N,3]", "f32[N,1]", "i8[N,1]"), ROWS),
]
