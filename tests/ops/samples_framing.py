"""Samples of windows along an axis."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.framing import FramesAttributes, OverlapAttributes

SAMPLES = [
    Sample("Frames", ("f32[2,9]",), FramesAttributes(4, 2)),
    Sample("Frames", ("f32[2,9,3]",), FramesAttributes(2, 3, 1)),
    Sample("Frames", ("i8[6,2]",), FramesAttributes(6, 1, -2)),
    Sample("Frames", ("f32[3,4]",), FramesAttributes(1, 5)),
    Sample("Frames", ("f32[3]",), FramesAttributes(0, 2)),
    Sample(
        "Frames",
        (np.arange(5),),
        FramesAttributes(3, 1),
        expected=([[0, 1, 2], [1, 2, 3], [2, 3, 4]],),
    ),
    Sample("OverlapAdd", ("f32[2,5,8]",), OverlapAttributes(4), tolerance=1e-6),
    Sample("OverlapAdd", ("f32[5,7]",), OverlapAttributes(3), tolerance=1e-6),
    Sample("OverlapAdd", ("f32[3,2,4]",), OverlapAttributes(6), tolerance=1e-6),
    Sample("OverlapAdd", ("f32[1,4,40]",), OverlapAttributes(2), tolerance=1e-6),
    Sample("OverlapAdd", ("f32[2,1,3]",), OverlapAttributes(5), tolerance=1e-6),
    Sample(
        "OverlapAdd",
        (np.array([[1.0, 2, 3], [10, 20, 30]]),),
        OverlapAttributes(2),
        expected=([1, 2, 13, 20, 30],),
    ),
]
BAD: list[Bad] = [
    Bad(
        "Frames",
        ("f32[2,8]",),
        "frames: step must be at least 1, and length within [0, 8]; got 2 and 9 (node bad)",
        FramesAttributes(9, 2),
    ),
    Bad(
        "Frames",
        ("f32[2,8]",),
        "frames: step must be at least 1, and length within [0, 8]; got 0 and 2 (node bad)",
        FramesAttributes(2, 0),
    ),
    Bad(
        "OverlapAdd",
        ("f32[8]",),
        "overlapadd: windows must be the last two axes, and step at least 1; "
        "got f32[8] and 2 (node bad)",
        OverlapAttributes(2),
    ),
]
TYPES: list[Typed] = [
    Typed("Frames", ("f32[N,9]",), ("f32[N,3,4]",), FramesAttributes(4, 2)),
    Typed("OverlapAdd", ("f32[N,3,4]",), ("f32[N,8]",), OverlapAttributes(2)),
]
