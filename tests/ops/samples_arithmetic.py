"""Samples of the elementwise arithmetic."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.ops.arithmetic import ClipAttributes, ModAttributes

CLOSE = 1e-6
NAN, INF = np.nan, np.inf
SPECIAL = np.array([-INF, -2.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, INF, NAN], np.float32)
EXACT = ("Abs", "Neg", "Sign", "Ceil", "Floor", "Round")
SMOOTH = (
    "Reciprocal Sqrt Exp Log Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh"
).split()
PAIRS = ("Add", "Sub", "Mul", "Max", "Min")
DOMAINS = {"Sqrt": (0, 9), "Log": (0.1, 9), "Asin": (-1, 1), "Acos": (-1, 1), "Atanh": (-0.9, 0.9)}


def smooth(name: str, text: str, tolerance: float) -> Sample:
    low, high = DOMAINS.get(name, (1.1, 3) if name in ("Acosh", "Reciprocal") else (-3, 3))
    values = random(text, low, high)
    if name == "Tan":
        values = values / values.dtype.type(3)
    return Sample(name, (values,), tolerance=tolerance)


def ints(dtype: type, *values: int) -> np.ndarray:
    return np.array(values, dtype)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


SAMPLES = [
    *(Sample(name, (SPECIAL,)) for name in EXACT),
    *(Sample(name, ("f16[7]",)) for name in EXACT),
    *(Sample(name, ("bf16[2,3]",)) for name in EXACT),
    *(Sample(name, ("f64[]",)) for name in EXACT),
    *(Sample(name, ("i8[9]",)) for name in ("Abs", "Neg", "Sign")),
    *(Sample(name, ("u16[4]",)) for name in ("Abs", "Sign")),
    *(smooth(name, "f32[3,5]", CLOSE) for name in SMOOTH),
    *(smooth(name, "f64[6]", 1e-14) for name in SMOOTH),
    *(smooth(name, "f16[6]", 1e-3) for name in SMOOTH),
    *(smooth(name, "bf16[6]", 1e-2) for name in SMOOTH),
    Sample("Sqrt", (floats(-1, 0, 4, INF, NAN),), expected=([NAN, 0, 2, INF, NAN],)),
    Sample("Log", (floats(-1, 0, 1, INF, NAN),), expected=([NAN, -INF, 0, INF, NAN],)),
    Sample("Exp", (floats(-INF, 0, INF, NAN),), expected=([0, 1, INF, NAN],)),
    Sample("Reciprocal", (floats(-INF, 4, 0.0),), expected=([0, 0.25, INF],)),
    Sample("Round", (floats(0.5, 1.5, 2.5, -0.5, -1.5),), expected=([0, 2, 2, 0, -2],)),
    Sample("Tanh", (floats(-INF, -100, 0, 100, INF),), expected=([-1, -1, 0, 1, 1],)),
    Sample(
        "Erf",
        (floats(-INF, -0.5, 0.5, 3),),
        tolerance=CLOSE,
        expected=([-1, -0.5204999, 0.5204999, 0.9999779],),
    ),
    *(Sample(name, ("f32[2,1,4]", "f32[3,1]")) for name in (*PAIRS, "Div")),
    *(Sample(name, ("f16[3]", "f16[2,3]")) for name in (*PAIRS, "Div")),
    *(Sample(name, ("bf16[3]", "bf16[]")) for name in (*PAIRS, "Div")),
    *(Sample(name, ("i32[2,3]", "i32[2,1]")) for name in PAIRS),
    *(Sample(name, ("u8[2,0]", "u8[1]")) for name in PAIRS),
    Sample("Add", (ints(np.int8, 127, -128), ints(np.int8, 1, -1)), expected=([-128, 127],)),
    Sample("Sub", (ints(np.uint8, 0), ints(np.uint8, 1)), expected=([255],)),
    Sample("Mul", (ints(np.int32, 65536), ints(np.int32, 65536)), expected=([0],)),
    Sample(
        "Div",
        (ints(np.int32, 7, -7, 7, -7, 6), ints(np.int32, 2, 2, -2, -2, -3)),
        expected=([3, -3, -3, 3, -2],),
    ),
    Sample("Div", (ints(np.uint8, 200, 7), ints(np.uint8, 3)), expected=([66, 2],)),
    Sample("Div", (floats(1, -1, 0), floats(0, 0, 0)), expected=([INF, -INF, NAN],)),
    *(
        Sample(
            name,
            (floats(1, NAN, 3, -INF), floats(NAN, 2, 2, 1)),
            expected=(expected,),
        )
        for name, expected in (("Max", [NAN, NAN, 3, 1]), ("Min", [NAN, NAN, 2, -INF]))
    ),
    *(Sample(name, ("f32[4]",)) for name in ("Max", "Min", "Sum", "Mean")),
    *(
        Sample(name, ("f32[2,3]", "f32[3]", "f32[]"), tolerance=CLOSE)
        for name in ("Max", "Min", "Sum", "Mean")
    ),
    *(
        Sample(name, ("f16[4]", "f16[4]", "f16[4]"), tolerance=1e-3)
        for name in ("Max", "Min", "Sum", "Mean")
    ),
    *(Sample(name, ("u64[3]", "u64[3]", "u64[3]")) for name in ("Max", "Min")),
    Sample(
        "Mod",
        (ints(np.int32, -4, 7, 5, 4, -7, 8), ints(np.int32, 2, -3, 8, -2, 3, 5)),
        ModAttributes(),
        expected=([0, -2, 5, 0, 2, 3],),
    ),
    Sample(
        "Mod",
        (ints(np.int32, -4, 7, 5, 4, -7, 8), ints(np.int32, 2, -3, 8, -2, 3, 5)),
        ModAttributes(1),
        expected=([0, 1, 5, 0, -1, 3],),
    ),
    Sample(
        "Mod",
        (floats(-4.3, 7.2, 5, 1, -1, INF, 1), floats(2.1, -3.4, 8, INF, INF, 1, 0)),
        ModAttributes(),
        CLOSE,
        expected=([2, -3, 5, 1, INF, NAN, NAN],),
    ),
    Sample(
        "Mod",
        (floats(-4.3, 7.2, 5, 1, -1, INF, 1), floats(2.1, -3.4, 8, INF, INF, 1, 0)),
        ModAttributes(1),
        CLOSE,
        expected=([-0.1, 0.4, 5, 1, -1, NAN, NAN],),
    ),
    Sample("Mod", ("f16[6]", "f16[6]"), ModAttributes(1), 1e-3),
    Sample("Mod", (random("u8[6]", 0, 200), random("u8[6]", 1, 9)), ModAttributes()),
    Sample("Pow", (floats(1, 2, 3, -2), floats(4, 5, 0.5, 3)), tolerance=CLOSE),
    Sample("Pow", (floats(1, 2, 3), ints(np.int64, 4, -5, 6)), tolerance=CLOSE),
    Sample("Pow", (ints(np.int64, 1, 2, 3), floats(4, 5, 6)), expected=([1, 32, 729],)),
    Sample("Pow", (ints(np.int32, 1, 2, -3), ints(np.int32, 4, 5, 3)), expected=([1, 32, -27],)),
    Sample("Pow", ("f32[2,3]", ints(np.uint8, 2, 0, 1)), tolerance=CLOSE),
    Sample("Pow", (random("f16[5]", 0, 3), random("f16[1]", 0, 3)), tolerance=1e-3),
    Sample("Clip", (SPECIAL,), ClipAttributes(-1.0, 2.0)),
    Sample("Clip", (SPECIAL,), ClipAttributes(max=0.0)),
    Sample("Clip", (SPECIAL,), ClipAttributes(min=0.0)),
    Sample("Clip", (SPECIAL,), ClipAttributes()),
    Sample("Clip", (floats(0, 5),), ClipAttributes(3.0, 1.0), expected=([1, 1],)),
    Sample("Clip", ("i8[2,4]",), ClipAttributes(-1, 2)),
    Sample("Clip", ("bf16[5]",), ClipAttributes(-1.0, 2.0)),
    Sample("Where", ("bool[2,1]", "f32[2,3]", "f32[]")),
    Sample("Where", ("bool[4]", "i64[4]", "i64[3,1]")),
    Sample("Where", ("bool[4]", "bool[4]", "bool[1]")),
    Sample("Where", ("bool[4]", "f16[4]", "f16[4]")),
]
BAD = [
    Bad("Add", ("f32[2]",), "add: input 1 is required; got none (node bad)"),
    Bad(
        "Add",
        ("f32[2]", "i32[2]"),
        "add: the inputs must have the same element type; got f32[2], i32[2] (node bad)",
    ),
    Bad(
        "Mul",
        ("f32[2,3]", "f32[2]"),
        "mul: the shapes do not broadcast; got f32[2,3], f32[2] (node bad)",
    ),
    Bad(
        "Sub",
        ("bool[2]", "bool[2]"),
        "sub: input 0 must be of a number type; got bool[2] (node bad)",
    ),
    Bad(
        "Add",
        ("f32[N,3]", "f32[4,1,3]"),
        "add: the symbolic batch must stay the leading dimension; got f32[N,3], f32[4,1,3] "
        "(node bad). Set the shape of the input with `--input name=shape`",
    ),
    Bad(
        "Max",
        ("f32[2]", "f32[2]", "f32[3]"),
        "max: the shapes do not broadcast; got f32[2], f32[2], f32[3] (node bad)",
    ),
    Bad(
        "Sqrt",
        ("i32[2]",),
        "sqrt: input 0 must be of a floating-point type; got i32[2] (node bad)",
    ),
    Bad(
        "Pow",
        ("f32[2]", "bool[2]"),
        "pow: input 1 must be of a number type; got bool[2] (node bad)",
    ),
    Bad(
        "Where",
        ("f32[2]", "f32[2]", "f32[2]"),
        "where: the condition must be bool; got f32[2], f32[2], f32[2] (node bad)",
    ),
    Bad(
        "Where",
        ("bool[2]", "f32[2]", "f64[2]"),
        "where: both choices must have the same element type; got bool[2], f32[2], f64[2] "
        "(node bad)",
    ),
]
TYPES = [
    Typed("Add", ("f32[N,3]", "f32[3]"), ("f32[N,3]",)),
    Typed("Add", ("f32[N,3]", "f32[N,1]"), ("f32[N,3]",)),
    Typed("Add", ("f32[1,3]", "f32[N,1]"), ("f32[N,3]",)),
    Typed("Exp", ("f32[N]",), ("f32[N]",)),
    Typed("Where", ("bool[N,1]", "f32[N,4]", "f32[]"), ("f32[N,4]",)),
]
