"""Samples of Fourier transforms."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.fourier import DFTAttributes, STFTAttributes

IMPULSE = np.array([[[1.0], [0.0], [0.0], [0.0]]])

SAMPLES = [
    *(
        Sample(
            "DFT",
            (f"f32[2,6,3,{parts}]",),
            DFTAttributes(length, axis, inverse, onesided),
            tolerance=1e-5,
        )
        for parts, (length, axis), inverse, onesided in product(
            (1, 2), ((None, 1), (8, 1), (2, -2), (3, 0)), (0, 1), (0, 1)
        )
    ),
    *(
        # Long enough to be taken apart: by two factors and by three, odd ones, cropped, padded.
        Sample(
            "DFT",
            (f"f32[2,{given},{parts}]",),
            DFTAttributes(length, 1, inverse, onesided),
            tolerance=2e-4,
        )
        for parts, inverse, onesided in product((1, 2), (0, 1), (0, 1))
        for given, length in ((64, None), (81, None), (100, 90), (37, 60), (1024, None))
    ),
    Sample("DFT", (IMPULSE,), DFTAttributes(), expected=([[[1, 0]] * 4],), tolerance=1e-12),
    *(
        Sample("STFT", inputs, STFTAttributes(3, length, onesided), tolerance=1e-5)
        for inputs, length, onesided in (
            (("f32[2,16,1]",), 8, 1),
            (("f32[2,16,1]", "f32[5]"), None, 0),
            (("f32[1,12,2]", "f32[4]"), 4, 0),
            (("f32[1,12,1]",), None, 1),
        )
    ),
]
BAD: list[Bad] = [
    Bad(
        "DFT",
        ("f32[4,3]",),
        "dft: the input must hold floating-point values, 1 or 2 (complex) at the end; "
        "got f32[4,3] (node bad)",
        DFTAttributes(),
    ),
    Bad(
        "DFT",
        ("f32[4,2]",),
        "dft: axis must not be the last one; got -1 (node bad)",
        DFTAttributes(axis=-1),
    ),
    Bad(
        "DFT",
        ("f32[4,2]",),
        "dft: the length must be at least 1; got 0 (node bad)",
        DFTAttributes(0),
    ),
    Bad(
        "STFT",
        ("f32[2,8]",),
        "stft: the signal must be [batch, length, 1 or 2] of floating-point values; "
        "got f32[2,8] (node bad)",
        STFTAttributes(2),
    ),
    Bad(
        "STFT",
        ("f32[2,8,1]",),
        "stft: frame_step must be at least 1 and the frames within [1, 8] long; "
        "got 2 and 9 (node bad)",
        STFTAttributes(2, 9),
    ),
    Bad(
        "STFT",
        ("f32[2,8,1]", "f32[5]"),
        "stft: the window must have 4 elements; got f32[2,8,1], f32[5] (node bad)",
        STFTAttributes(2, 4),
    ),
    Bad(
        "STFT",
        ("f32[2,8,1]", "f64[5]"),
        "stft: the window must be a vector of the signal's type; got f32[2,8,1], f64[5] (node bad)",
        STFTAttributes(2),
    ),
]
TYPES: list[Typed] = [
    Typed("DFT", ("f32[N,16,1]",), ("f32[N,9,2]",), DFTAttributes(onesided=1)),
    Typed("STFT", ("f32[N,16,1]",), ("f32[N,5,5,2]",), STFTAttributes(2, 8)),
]
