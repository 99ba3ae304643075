"""Samples of Fourier transforms, windows and mel filters."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.dtypes import DType
from weft.ops.signal import DFTAttributes, MelAttributes, STFTAttributes, WindowAttributes

IMPULSE = np.array([[[1.0], [0.0], [0.0], [0.0]]])
MEL = MelAttributes(8, 16, 8192, 0.0, 4096.0)

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
    *(
        Sample(name, (), WindowAttributes(size, periodic, dtype), tolerance=tolerance)
        for name in ("HannWindow", "HammingWindow", "BlackmanWindow")
        for size, periodic, dtype, tolerance in (
            (10, 1, DType.F32, 1e-6),
            (9, 0, DType.F64, 1e-12),
            (1, 0, DType.F16, 1e-3),
        )
    ),
    Sample("HannWindow", (), WindowAttributes(4), expected=([0, 0.5, 1, 0.5],), tolerance=1e-6),
    Sample("MelWeightMatrix", (), MEL),
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
    Bad(
        "HannWindow",
        (),
        "hannwindow: size must be 0 or more; got -1 (node bad)",
        WindowAttributes(-1),
    ),
    Bad(
        "MelWeightMatrix",
        (),
        "melweightmatrix: num_mel_bins, dft_length and sample_rate must be at least 1; "
        "got [0, 16, 8192] (node bad)",
        MelAttributes(0, 16, 8192, 0.0, 4096.0),
    ),
    Bad(
        "MelWeightMatrix",
        (),
        "melweightmatrix: the edges must be in order and within [0, 4096.0]; "
        "got 0.0 and 5000.0 (node bad)",
        MelAttributes(8, 16, 8192, 0.0, 5000.0),
    ),
]
TYPES: list[Typed] = [
    Typed("DFT", ("f32[N,16,1]",), ("f32[N,9,2]",), DFTAttributes(onesided=1)),
    Typed("STFT", ("f32[N,16,1]",), ("f32[N,5,5,2]",), STFTAttributes(2, 8)),
]
