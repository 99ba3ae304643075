"""Samples of the activation functions."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed

SAMPLES = [
    Sample("Relu", ("f32[2,3]",)),
    Sample("Relu", (np.array([-1.0, 0.0, 2.0], np.float32),), expected=([0, 0, 2],)),
]
BAD: list[Bad] = [
    Bad("Relu", (), "relu: input 0 is required; got none (node bad)"),
]
TYPES: list[Typed] = [
    Typed("Relu", ("f32[N,3]",), ("f32[N,3]",)),
]
