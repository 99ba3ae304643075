"""Samples of reductions, arg-reductions and cumulative ops."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.ops.along import ArgAttributes, CumulativeAttributes
from weft.ops.reduction import ReduceAttributes

NAN, INF = np.nan, np.inf
CLOSE = 1e-6
SUMS = ("ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare").split()
LOGS = ("ReduceLogSum", "ReduceLogSumExp")
EXTREMES = ("ReduceMax", "ReduceMin")
EVERY = (*SUMS, *LOGS, *EXTREMES)
CHOICES = (
    ReduceAttributes(),
    ReduceAttributes(keepdims=0),
    ReduceAttributes((1,)),
    ReduceAttributes((-1, 0), 0),
    ReduceAttributes((), 1, 1),
)


def values(name: str, text: str) -> np.ndarray:
    """Positive where a logarithm is taken."""
    return random(text, 0.1 if name == "ReduceLogSum" else -2, 2)


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def cumulative(name: str, axis: int, exclusive: int, reverse: int) -> Sample:
    return Sample(name, ("f64[2,3,4]",), CumulativeAttributes(axis, exclusive, reverse), 1e-14)


ALL = ReduceAttributes(keepdims=0)
ROW = ReduceAttributes((1,), 0)
NOTHING = np.zeros((2, 0, 3), np.float32)
SAMPLES = [
    *(
        Sample(name, (values(name, "f32[2,3,4]"),), choice, CLOSE)
        for name in EVERY
        for choice in CHOICES
    ),
    *(Sample(name, (values(name, "f32[]"),), ReduceAttributes(), CLOSE) for name in EVERY),
    *(Sample(name, (values(name, "f16[2,3]"),), ROW, 1e-3) for name in EVERY),
    *(Sample(name, (values(name, "bf16[2,3]"),), ROW, 1e-2) for name in EVERY),
    *(Sample(name, (values(name, "f64[3,2]"),), ROW, 1e-14) for name in EVERY),
    *(Sample(name, ("i32[3,4]",), ROW) for name in (*SUMS, *EXTREMES)),
    *(Sample(name, (random("u64[3,4]", 0, 9),), ROW) for name in (*SUMS, *EXTREMES)),
    *(Sample(name, ("i8[3,4]",), ROW) for name in EXTREMES),
    *(Sample(name, ("bool[5,2]",), ROW) for name in EXTREMES),
    *(
        Sample(name, (NOTHING,), ROW, expected=([[value] * 3] * 2,))
        for name, value in (
            ("ReduceSum", 0),
            ("ReduceMean", NAN),
            ("ReduceProd", 1),
            ("ReduceL1", 0),
            ("ReduceL2", 0),
            ("ReduceSumSquare", 0),
            ("ReduceLogSum", -INF),
            ("ReduceLogSumExp", -INF),
            ("ReduceMax", -INF),
            ("ReduceMin", INF),
        )
    ),
    Sample("ReduceMax", (np.zeros((0, 2), np.int32),), ALL, expected=(-(2**31),)),
    Sample("ReduceMax", (floats(NAN, 1, 3, NAN),), ALL, expected=(3,)),
    Sample("ReduceMin", (floats(NAN, 1, 3, NAN),), ALL, expected=(1,)),
    Sample("ReduceMin", (floats(NAN, 1),), ReduceAttributes(noop_with_empty_axes=1)),
    Sample("ReduceMean", (np.array([-3, -4], np.int32),), ALL, expected=(-3,)),
    Sample("ReduceLogSumExp", (floats(1000, 1000),), ALL, 1e-3, expected=(1000.6931472,)),
    Sample("ReduceLogSumExp", (floats(-INF, -INF),), ALL, expected=(-INF,)),
    Sample("ReduceLogSumExp", (floats(INF, 1),), ALL, expected=(INF,)),
    Sample("ReduceLogSumExp", (np.array([5, -3, 5], np.int64),), ALL, expected=(5,)),
    Sample("ReduceLogSumExp", (np.array([-5, -5], np.int32),), ALL, expected=(-4,)),
    Sample(
        "ReduceLogSumExp", (np.array([[700, 3], [700, 4]], np.uint64),), ROW, expected=([700, 700],)
    ),
    Sample("ReduceLogSum", (np.array([5, 3, 400], np.int64),), ALL, expected=(6,)),
    *(
        Sample(name, (random("i32[3,4,5]", 0, 4),), ArgAttributes(axis, keepdims, last))
        for name in ("ArgMax", "ArgMin")
        for axis in (0, 1, -1)
        for keepdims in (0, 1)
        for last in (0, 1)
    ),
    *(Sample(name, ("f16[2,3]",), ArgAttributes(1)) for name in ("ArgMax", "ArgMin")),
    Sample("ArgMax", (floats(1, 3, 3, 2),), ArgAttributes(), expected=([1],)),
    Sample("ArgMax", (floats(1, 3, 3, 2),), ArgAttributes(0, 0, 1), expected=(2,)),
    Sample("ArgMax", (floats(NAN, -INF, NAN),), ArgAttributes(0, 0), expected=(1,)),
    Sample("ArgMin", (floats(NAN, NAN),), ArgAttributes(0, 0), expected=(1,)),
    *(
        cumulative(name, axis, exclusive, reverse)
        for name in ("CumSum", "CumProd")
        for axis in (0, 1, -1)
        for exclusive in (0, 1)
        for reverse in (0, 1)
    ),
    Sample("CumSum", ("i32[4]",), CumulativeAttributes()),
    Sample("CumSum", ("u64[4]",), CumulativeAttributes(exclusive=1)),
    Sample("CumSum", ("f32[2,0]",), CumulativeAttributes(1, 1)),
    *(Sample("CumSum", (f"f32[2,3,{inner}]",), CumulativeAttributes(1)) for inner in (16, 37)),
    Sample("CumSum", ("i32[3,2,16]",), CumulativeAttributes(0, 1, 1)),
    Sample("CumProd", (floats(1, 2, 3),), CumulativeAttributes(0, 1, 1), expected=([6, 3, 1],)),
]
BAD = [
    Bad(
        "ReduceSum",
        ("f32[2,3]",),
        "reducesum: axis must be within [-2, 1]; got 2 (node bad)",
        ReduceAttributes((2,)),
    ),
    Bad(
        "ReduceSum",
        ("f32[2,3]",),
        "reducesum: an axis may be named only once; got [0, -2] (node bad)",
        ReduceAttributes((0, -2)),
    ),
    Bad(
        "ReduceSum",
        ("i8[2,3]",),
        "reducesum: input 0 must be of a floating-point or wide integer type; got i8[2,3] "
        "(node bad)",
        ReduceAttributes(),
    ),
    Bad(
        "ArgMax",
        ("f32[2,0]",),
        "argmax: the axis must have elements; got f32[2,0] (node bad)",
        ArgAttributes(1),
    ),
    Bad(
        "ArgMin",
        ("f32[]",),
        "argmin: axis must be within [0, -1]; got 0 (node bad)",
        ArgAttributes(),
    ),
    Bad(
        "CumSum",
        ("f16[2]",),
        "cumsum: input 0 must be of f32, f64, i32, i64, u32 or u64; got f16[2] (node bad)",
        CumulativeAttributes(),
    ),
]
TYPES = [
    Typed("ReduceMean", ("f32[N,3,4,4]",), ("f32[N,3,1,1]",), ReduceAttributes((2, 3))),
    Typed("ReduceMean", ("f32[N,3,4,4]",), ("f32[N,3]",), ReduceAttributes((2, 3), 0)),
    Typed("ReduceMax", ("f32[N,3]",), ("f32[1,1]",), ReduceAttributes()),
    Typed("ArgMax", ("f32[N,3]",), ("i64[N]",), ArgAttributes(1, 0)),
]
