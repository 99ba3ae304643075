"""Samples of comparisons, logic and bit operations."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.logic import BitShiftAttributes, IsInfAttributes

COMPARISONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
LOGIC = ("And", "Or", "Xor")
BITWISE = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
LEFT, RIGHT = BitShiftAttributes("LEFT"), BitShiftAttributes("RIGHT")
SPECIAL = np.array([-np.inf, -1, 0, 2, np.inf, np.nan], np.float32)


def bits(dtype: type, *values: int) -> np.ndarray:
    return np.array(values, dtype)


SAMPLES = [
    *(Sample(name, ("f32[2,3]", "f32[3]")) for name in COMPARISONS),
    *(Sample(name, (SPECIAL, SPECIAL[::-1].copy())) for name in COMPARISONS),
    *(Sample(name, ("u8[20]", "u8[20]")) for name in COMPARISONS),
    *(Sample(name, ("bf16[4]", "bf16[1]")) for name in COMPARISONS),
    Sample("Equal", ("bool[9]", "bool[9]")),
    *(Sample(name, ("bool[3,4]", "bool[4]")) for name in LOGIC),
    Sample("Not", ("bool[5]",)),
    *(Sample(name, ("i32[3,4]", "i32[4]")) for name in BITWISE),
    *(Sample(name, ("u8[6]", "u8[6]")) for name in BITWISE),
    Sample("BitwiseNot", ("i16[5]",)),
    Sample("BitwiseNot", (bits(np.uint8, 0, 255, 7),), expected=([255, 0, 248],)),
    Sample(
        "BitShift",
        (bits(np.uint8, 1, 255, 3), bits(np.uint8, 7, 4, 8)),
        LEFT,
        expected=([128, 240, 0],),
    ),
    Sample(
        "BitShift",
        (bits(np.uint32, 16, 4, 1), bits(np.uint32, 1, 2, 32)),
        RIGHT,
        expected=([8, 1, 0],),
    ),
    Sample(
        "BitShift",
        (bits(np.int8, -8, -8, -8, 8, 8), bits(np.int8, 1, 8, -1, 9, -1)),
        RIGHT,
        expected=([-4, -1, -1, 0, 0],),
    ),
    Sample(
        "BitShift",
        (bits(np.int32, -8, 3, 3, 1), bits(np.int32, 1, -1, 40, 31)),
        LEFT,
        expected=([-16, 0, 0, -(2**31)],),
    ),
    Sample("BitShift", ("u16[2,3]", "u16[2,1]"), LEFT),
    Sample("IsNaN", (SPECIAL,), expected=([0, 0, 0, 0, 0, 1],)),
    Sample("IsNaN", ("f16[3]",)),
    Sample("IsFinite", (SPECIAL,), expected=([0, 1, 1, 1, 0, 0],)),
    Sample("IsFinite", ("f16[3]",)),
    Sample("IsInf", (SPECIAL,), IsInfAttributes(), expected=([1, 0, 0, 0, 1, 0],)),
    Sample("IsInf", (SPECIAL,), IsInfAttributes(1, 0), expected=([1, 0, 0, 0, 0, 0],)),
    Sample("IsInf", (SPECIAL,), IsInfAttributes(0, 1), expected=([0, 0, 0, 0, 1, 0],)),
    Sample("IsInf", (SPECIAL,), IsInfAttributes(0, 0), expected=([0] * 6,)),
]
BAD = [
    Bad(
        "Less",
        ("bool[2]", "bool[2]"),
        "less: input 0 must be of a number type; got bool[2] (node bad)",
    ),
    Bad(
        "And",
        ("f32[2]", "f32[2]"),
        "and: input 0 must be of bool; got f32[2] (node bad)",
    ),
    Bad("Not", ("u8[2]",), "not: input 0 must be of bool; got u8[2] (node bad)"),
    Bad(
        "BitwiseAnd",
        ("f32[2]", "f32[2]"),
        "bitwiseand: input 0 must be of an integer type; got f32[2] (node bad)",
    ),
    Bad(
        "BitShift",
        ("u8[2]", "u8[2]"),
        "bitshift: direction must be LEFT or RIGHT; got 'UP' (node bad)",
        BitShiftAttributes("UP"),
    ),
    Bad(
        "IsNaN",
        ("i32[2]",),
        "isnan: input 0 must be of a floating-point type; got i32[2] (node bad)",
    ),
]
TYPES = [
    Typed("Less", ("f32[N,3]", "f32[]"), ("bool[N,3]",)),
    Typed("IsNaN", ("f32[N,3]",), ("bool[N,3]",)),
]
