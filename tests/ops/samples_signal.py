"""Samples of windows and mel filters."""

from __future__ import annotations

from tests.ops.samples import Bad, Sample, Typed
from weft.dtypes import DType
from weft.ops.signal import MelAttributes, WindowAttributes

MEL = MelAttributes(8, 16, 8192, 0.0, 4096.0)

SAMPLES = [
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
TYPES: list[Typed] = []
