"""Samples of the mathematical functions that ONNX lacks."""

from __future__ import annotations

import itertools

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random

CLOSE = 1e-6
NAN, INF = np.nan, np.inf
EDGES = (-INF, -1e30, -1.0, -1e-30, -1e-40, -0.0, 0.0, 1e-40, 1e-30, 1.0, 3.0, 1e30, INF, NAN)
LEFT, RIGHT = np.array(list(itertools.product(EDGES, EDGES)), np.float32).T.copy()
ONE = "Exp2 Expm1 Log1p Log2 Log10 Erfc Trunc Sinc".split()
TWO = "Copysign Atan2 Hypot XLogY LogAddExp".split()


def sample(name: str, text: str, tolerance: float) -> Sample:
    """Of numbers for which it is defined."""
    low = 0.1 if name.startswith(("Log", "XLog")) else -3
    given = [random(text, low, 3, seed) for seed in range(2 if name in TWO else 1)]
    return Sample(name, tuple(given), tolerance=tolerance)


SAMPLES = [
    *(sample(name, "f32[3,5]", CLOSE) for name in (*ONE, *TWO)),
    *(sample(name, "f64[6]", 1e-14) for name in (*ONE, *TWO)),
    *(sample(name, "f16[6]", 1e-3) for name in (*ONE, *TWO)),
    *(sample(name, "bf16[6]", 1e-2) for name in (*ONE, *TWO)),
    *(Sample(name, (np.array(EDGES, np.float32),), tolerance=CLOSE) for name in ONE),
    *(Sample(name, (LEFT, RIGHT), tolerance=CLOSE) for name in TWO),
    *(
        Sample(name, (LEFT.astype(np.float64), RIGHT.astype(np.float64)), tolerance=1e-14)
        for name in TWO
    ),
    Sample(
        "Log2",
        (np.array([0.0, 2.0**-140, 0.25, 1.0, 8.0, 2.0**127, INF], np.float32),),
        expected=([-INF, -140, -2, 0, 3, 127, INF],),
    ),
    Sample(
        "Exp2",
        (np.array([-INF, -149.0, -1.0, 0.0, 10.0, 127.0, 128.0], np.float32),),
        tolerance=CLOSE,
        expected=([0, 2.0**-149, 0.5, 1, 1024, 2.0**127, INF],),
    ),
    Sample("Hypot", ("f32[2,1,4]", "f32[3,1]"), tolerance=CLOSE),
    Sample(
        "FloorDivide",
        (np.array([7, -7, 7, -7, 6], np.int32), np.array([2, 2, -2, -2, -3], np.int32)),
        expected=([3, -4, -4, 3, -2],),
    ),
    Sample(
        "FloorDivide",
        (
            np.array([7.5, -7.5, 1.0, -1.0, 0.0, INF, 1.0], np.float32),
            np.array([2.0, 2.0, INF, INF, 0.0, 2.0, NAN], np.float32),
        ),
        expected=([3, -4, 0, -1, NAN, NAN, NAN],),
    ),
    Sample("FloorDivide", ("f16[6]", "f16[6]")),
]
BAD = [
    Bad(
        "Log2", ("i32[2]",), "log2: input 0 must be of a floating-point type; got i32[2] (node bad)"
    ),
    Bad(
        "Hypot",
        ("f32[2]", "f64[2]"),
        "hypot: the inputs must have the same element type; got f32[2], f64[2] (node bad)",
    ),
]
TYPES = [Typed("Atan2", ("f32[N,3]", "f32[3]"), ("f32[N,3]",))]
