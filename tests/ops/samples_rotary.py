"""Samples of rotary position embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.rotary import RotaryEmbeddingAttributes

CLOSE = 1e-5
POSITIONS = np.array([[0, 2, 4], [1, 1, 3]], np.int64)


def rotary(*inputs: np.ndarray | str, tolerance: float = CLOSE, **fields: Any) -> Sample:
    return Sample("RotaryEmbedding", inputs, RotaryEmbeddingAttributes(**fields), tolerance)


SAMPLES = [
    # A quarter turn.
    Sample(
        "RotaryEmbedding",
        (
            np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 1, 4),
            np.zeros((1, 1, 2), np.float32),
            np.ones((1, 1, 2), np.float32),
        ),
        RotaryEmbeddingAttributes(),
        CLOSE,
        expected=([[[[-3, -4, 1, 2]]]],),
    ),
    rotary("f32[2,4,3,8]", "f32[5,4]", "f32[5,4]", POSITIONS),
    rotary("f32[2,4,3,8]", "f32[5,4]", "f32[5,4]", POSITIONS, interleaved=1),
    rotary("f32[2,4,3,8]", "f32[2,3,2]", "f32[2,3,2]", rotary_embedding_dim=4),
    rotary(
        "f32[2,3,24]",
        "f32[5,2]",
        "f32[5,2]",
        POSITIONS,
        rotary_embedding_dim=4,
        interleaved=1,
        num_heads=3,
    ),
    rotary("f32[2,3,24]", "f32[2,3,4]", "f32[2,3,4]", num_heads=3),
    rotary("f16[2,3,24]", "f16[2,3,4]", "f16[2,3,4]", num_heads=3, tolerance=2e-3),
]
BAD: list[Bad] = [
    Bad(
        "RotaryEmbedding",
        ("f32[2,3,24]", "f32[2,3,4]", "f32[2,3,4]"),
        "rotaryembedding: 0 heads must divide the width; got x f32[2,3,24] (node bad)",
        RotaryEmbeddingAttributes(),
    ),
    Bad(
        "RotaryEmbedding",
        ("f32[2,4,3,8]", "f32[2,3,3]", "f32[2,3,4]"),
        "rotaryembedding: cos_cache must hold 4 numbers for each position; "
        "got x f32[2,4,3,8], cos_cache f32[2,3,3] (node bad)",
        RotaryEmbeddingAttributes(),
    ),
    Bad(
        "RotaryEmbedding",
        ("f32[2,4,3,7]", "f32[2,3,3]", "f32[2,3,3]"),
        "rotaryembedding: the rotated width must be even and at most 7; got 7 (node bad)",
        RotaryEmbeddingAttributes(),
    ),
]
TYPES: list[Typed] = [
    Typed(
        "RotaryEmbedding",
        ("f32[N,4,3,8]", "f32[9,4]", "f32[9,4]", "i64[N,3]"),
        ("f32[N,4,3,8]",),
        RotaryEmbeddingAttributes(),
    ),
]
