"""Samples of padding and cropping."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.padding import CenterCropPadAttributes, PadAttributes

SAMPLES = [
    Sample("Pad", ("f32[3,4]",), PadAttributes((1, 0, 2, 3), value=1.5)),
    Sample("Pad", ("i32[3,4]", np.array(7, np.int32)), PadAttributes((0, 1, 0, 1))),
    Sample("Pad", ("f32[3,4]",), PadAttributes((-1, 0, 2, -2))),
    *(
        Sample("Pad", ("f32[3,4]",), PadAttributes(pads, mode))
        for mode in ("edge", "reflect", "wrap")
        for pads in ((1, 2, 2, 3), (-1, 1, 1, 0), (0, 7, 5, 8))
    ),
    Sample("Pad", ("f32[1,4]",), PadAttributes((1, 0, 2, 0), "reflect")),
    Sample(
        "Pad",
        (np.arange(3.0),),
        PadAttributes((2, 2), "reflect"),
        expected=([2, 1, 0, 1, 2, 1, 0],),
    ),
    Sample("CenterCropPad", ("f32[4,7]",), CenterCropPadAttributes((7, 4))),
    Sample("CenterCropPad", ("f32[2,4,7]",), CenterCropPadAttributes((6, 3), (-1, 1))),
    Sample("Pad", ("f32[2]",), PadAttributes((-5, 7)), expected=([0, 0, 0, 0],)),
    Sample("Pad", ("f32[2]",), PadAttributes((3, -4)), expected=([0],)),
    Sample("Pad", ("f32[2]",), PadAttributes((3, -3)), expected=([0, 0],)),
]
BAD: list[Bad] = [
    Bad(
        "Pad",
        ("f32[3,4]",),
        "pad: pads must name two numbers for each axis; got f32[3,4], pads [1, 1] (node bad)",
        PadAttributes((1, 1)),
    ),
    Bad(
        "Pad",
        ("f32[3]",),
        "pad: mode must be one of constant, edge, reflect, wrap; got 'mirror' (node bad)",
        PadAttributes((1, 1), "mirror"),
    ),
    Bad(
        "Pad",
        ("f32[3]",),
        "pad: pads must leave 0 or more of 3; got -2 and -2 (node bad)",
        PadAttributes((-2, -2)),
    ),
    Bad(
        "Pad",
        ("f32[0]",),
        "pad: mode edge needs an element to repeat; got f32[0], pads [1, 1] (node bad)",
        PadAttributes((1, 1), "edge"),
    ),
    Bad(
        "Pad",
        ("f32[3]",),
        "pad: mode wrap needs an element to repeat; got f32[3], pads [-3, 2] (node bad)",
        PadAttributes((-3, 2), "wrap"),
    ),
    Bad(
        "Pad",
        ("f32[3]", "f64[]"),
        "pad: constant_value must be one element of the input's type; got f32[3], f64[] (node bad)",
        PadAttributes((1, 1)),
    ),
    Bad(
        "CenterCropPad",
        ("f32[3,4]",),
        "centercroppad: shape must name a size of 0 or more for each axis; "
        "got f32[3,4], shape [3], axes [0, 1] (node bad)",
        CenterCropPadAttributes((3,)),
    ),
]
TYPES: list[Typed] = [
    Typed("Pad", ("f32[N,3]",), ("f32[N,6]",), PadAttributes((0, 1, 0, 2))),
    Typed("CenterCropPad", ("f32[N,3]",), ("f32[N,2]",), CenterCropPadAttributes((2,), (1,))),
]
