"""Samples of ops whose number of results depends on the data."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.ops.counted import NonZeroAttributes, UniqueAttributes
from weft.ops.suppression import NonMaxSuppressionAttributes

GIVE = "Give the room for them with the attribute count, or make the inputs constant"
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [1, 1, 0, 0]]], np.float32)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95]]], np.float32)
VALUES = np.array([2, 1, 1, 3, 4, 3])
TABLE = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4], [0, 5, 6]])

SAMPLES = [
    Sample(
        "NonMaxSuppression",
        (BOXES, SCORES),
        NonMaxSuppressionAttributes(3, 0.5, 0.0, 0, 3),
        expected=([[0, 0, 3], [0, 0, 2], [-1, -1, -1]],),
    ),
    *(
        Sample(
            "NonMaxSuppression",
            (random("f32[2,20,4]", 0, 4), random("f32[2,3,20]", 0, 1)),
            NonMaxSuppressionAttributes(most, limit, threshold, centred, room),
        )
        for most, limit, threshold, centred, room in (
            (5, 0.3, 0.2, 0, 40),
            (20, 0.1, None, 1, 200),
            (4, 0.0, 0.5, 0, 7),
            (0, 0.5, None, 0, 2),
        )
    ),
    Sample("NonZero", (TABLE,), NonZeroAttributes(7)),
    Sample("NonZero", (TABLE.astype(np.bool_),), NonZeroAttributes(9)),
    Sample("NonZero", ("f32[2,2,2]",), NonZeroAttributes(3)),
    Sample(
        "NonZero",
        (np.array([[1, 0], [1, 1]]),),
        NonZeroAttributes(3),
        expected=([[0, 1, 1], [0, 0, 1]],),
    ),
    *(
        Sample("Unique", (VALUES,), UniqueAttributes(None, ordered, room), outputs=4)
        for ordered, room in product((0, 1), (4, 3))
    ),
    *(
        Sample("Unique", (TABLE,), UniqueAttributes(axis, ordered, 3), outputs=4)
        for ordered, axis in product((0, 1), (0, -1))
    ),
    Sample("Unique", (VALUES.astype(np.float16),), UniqueAttributes(count=4), outputs=1),
    Sample(
        "UniqueGroups",
        (VALUES,),
        UniqueAttributes(count=5),
        expected=([1, 0, 3, 4, -1, 1, 0, 0, 2, 3, 2, 2, 1, 2, 1, -1],),
    ),
]
BAD: list[Bad] = [
    Bad(
        "NonMaxSuppression",
        ("f64[1,3,4]", "f64[1,1,3]"),
        "nonmaxsuppression: boxes and scores must be f32; got f64[1,3,4], f64[1,1,3] (node bad)",
        NonMaxSuppressionAttributes(count=1),
    ),
    Bad(
        "NonMaxSuppression",
        ("f32[1,3,4]", "f32[1,1,4]"),
        "nonmaxsuppression: boxes must be [batch,boxes,4] and scores [batch,classes,boxes]; "
        "got f32[1,3,4], f32[1,1,4] (node bad)",
        NonMaxSuppressionAttributes(count=1),
    ),
    Bad(
        "NonZero",
        ("f32[3]",),
        f"nonzero: how many results there are depends on the data; got f32[3] (node bad). {GIVE}",
        NonZeroAttributes(),
    ),
    Bad(
        "NonZero",
        ("f32[3]",),
        "nonzero: count must be 0 or more; got -1 (node bad)",
        NonZeroAttributes(-1),
    ),
    Bad(
        "NonZero",
        ("f16[3]",),
        "nonzero: the input must be f32, f64, integers or bool; got f16[3] (node bad). "
        "Cast it to f32",
        NonZeroAttributes(1),
    ),
    Bad(
        "Unique",
        ("f32[0]",),
        "unique: the input must have elements; got f32[0] (node bad)",
        UniqueAttributes(count=1),
    ),
    Bad(
        "UniqueGroups",
        ("f16[3]",),
        "uniquegroups: the input must be f32, f64, integers or bool; got f16[3] (node bad). "
        "Cast it to f32",
        UniqueAttributes(count=1),
    ),
]
TYPES: list[Typed] = []
