"""Samples of top-k, hardmax and determinants."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.ops.selection import HardmaxAttributes, TopKAttributes

TIES = np.array([[3.0, 1.0, 3.0, 2.0, 3.0, 1.0]], np.float32)
MANY = random("i8[3,100]", -20, 20)

NUMBERS = (np.arange(170) * 37 % 170).astype(np.float32)

SAMPLES = [
    Sample("TopK", ("f32[3,7]",), TopKAttributes(3), outputs=2),
    Sample("TopK", ("f64[3,7,2]",), TopKAttributes(4, 1, 0), outputs=2),
    Sample(
        "TopK", (TIES,), TopKAttributes(4), outputs=2, expected=([[3, 3, 3, 2]], [[0, 2, 4, 3]])
    ),
    Sample("TopK", (TIES,), TopKAttributes(3, -1, 0), outputs=2),
    # As PyTorch orders them, by insertion, by sorting and by a heap.
    Sample(
        "TopK",
        (np.array([1, np.nan, 3, np.nan, 2], np.float32),),
        TopKAttributes(3),
        outputs=2,
        expected=([np.nan, np.nan, 3], [1, 3, 2]),
    ),
    Sample(
        "TopK",
        (np.array([1, np.nan, 3, np.nan, -np.inf], np.float32),),
        TopKAttributes(4, largest=0),
        outputs=2,
        expected=([-np.inf, 1, 3, np.nan], [4, 0, 2, 1]),
    ),
    *(
        Sample(
            "TopK",
            (np.where(NUMBERS % 7 == 3, np.nan, NUMBERS),),
            TopKAttributes(k, 0, up),
            outputs=2,
        )
        for k in (10, 40, 150)
        for up in (0, 1)
    ),
    Sample("TopK", (MANY,), TopKAttributes(32), outputs=2),
    Sample("TopK", (MANY,), TopKAttributes(33), outputs=2),
    Sample("TopK", (MANY.T,), TopKAttributes(100, 0, 0), outputs=2),
    *(
        Sample("TopK", (np.arange(400.0, dtype=np.float32)[::step] % 90,), TopKAttributes(k, 0, up))
        for step in (1, -1, 7)
        for k in (33, 14 if step == 7 else 100)
        for up in (0, 1)
        if k < 400 // abs(step)
    ),
    Sample("TopK", (np.array([2**64 - 1, 0, 2**63], np.uint64),), TopKAttributes(2), outputs=2),
    Sample("TopK", ("f16[3,7]",), TopKAttributes(2), outputs=2),
    Sample("TopKIndices", ("f32[3,7]",), TopKAttributes(3)),
    Sample("Hardmax", ("f32[3,4]",), HardmaxAttributes()),
    Sample("Hardmax", ("f32[2,3,4]",), HardmaxAttributes(1)),
    Sample("Hardmax", (TIES,), HardmaxAttributes(), expected=([[1, 0, 0, 0, 0, 0]],)),
    Sample("Det", ("f32[4,4]",), tolerance=1e-5),
    Sample("Det", ("f64[2,3,3,3]",), tolerance=1e-12),
    Sample("Det", (np.array([[0.0, 1.0], [1.0, 0.0]]),), expected=(-1.0,)),
    Sample("Det", (np.array([[1.0, 2.0], [2.0, 4.0]]),), tolerance=1e-12),
]
BAD: list[Bad] = [
    Bad("TopK", ("f32[3]",), "topk: k must be within [0, 3]; got 4 (node bad)", TopKAttributes(4)),
    Bad(
        "TopKIndices",
        ("f16[3]",),
        "topkindices: the input must be f32, f64 or integers; got f16[3] (node bad). "
        "Cast it to f32",
        TopKAttributes(1),
    ),
    Bad(
        "Hardmax",
        ("i32[3]",),
        "hardmax: the input must be of a floating-point type; got i32[3] (node bad)",
        HardmaxAttributes(),
    ),
    Bad(
        "Det", ("f32[3,4]",), "det: the last two dimensions must be equal; got f32[3,4] (node bad)"
    ),
    Bad("Det", ("f16[3,3]",), "det: the input must be f32 or f64; got f16[3,3] (node bad)"),
]
TYPES: list[Typed] = [
    Typed("TopK", ("f32[N,9]",), ("f32[N,5]", "i64[N,5]"), TopKAttributes(5)),
    Typed("TopK", ("f32[N,9]",), ("f32[N,0]", "i64[N,0]"), TopKAttributes(0)),
    Typed("Hardmax", ("f32[N,9]",), ("f32[N,9]",), HardmaxAttributes()),
    Typed("Det", ("f32[N,3,3]",), ("f32[N]",)),
]
