"""Samples of windows along an axis."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.framing import FramesAttributes

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
]
TYPES: list[Typed] = [
    Typed("Frames", ("f32[N,9]",), ("f32[N,3,4]",), FramesAttributes(4, 2)),
]
