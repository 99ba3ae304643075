"""Samples of attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.dtypes import DType
from weft.ops.attention import AttentionAttributes

CLOSE = 2e-5
QKV = ("f32[2,2,3,4]", "f32[2,2,5,4]", "f32[2,2,5,6]")
CAUSAL = np.tril(np.ones((3, 5), np.bool_))
NOTHING = np.array([[True] * 5, [False] * 5, [True] * 5])
LENGTHS = np.array([2, 5], np.int64)
ONE = np.ones((1, 1, 1, 2), np.float32)


def attention(
    *inputs: np.ndarray | str | None, tolerance: float = CLOSE, outputs: int = 1, **fields: Any
) -> Sample:
    return Sample("Attention", inputs, AttentionAttributes(**fields), tolerance, outputs)


SAMPLES = [
    # One key more than that which is seen: its value is the output.
    Sample(
        "Attention",
        (
            ONE,
            np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 2, 2),
            np.array([5, 7], np.float32).reshape(1, 1, 2, 1),
        ),
        AttentionAttributes(is_causal=1),
        CLOSE,
        expected=([[[[5]]]],),
    ),
    attention(*QKV),
    attention(*QKV, outputs=4, scale=0.3),
    attention(*QKV, "f32[3,5]", outputs=4, qk_matmul_output_mode=2),
    attention(*QKV, "f32[2,2,3,5]", softcap=2.0, outputs=4, qk_matmul_output_mode=1),
    attention(*QKV, "f32[2,1,1,3]"),
    attention(*QKV, CAUSAL, outputs=4, qk_matmul_output_mode=3),
    attention(*QKV, NOTHING),
    attention(*QKV, np.where(NOTHING, np.float32(0.5), np.float32(-np.inf))),
    attention(*QKV, is_causal=1),
    attention(*QKV, "f32[3,5]", is_causal=1, softmax_precision=DType.F64),
    attention(*QKV, left_window_size=1, right_window_size=1),
    attention(*QKV, "", "", "", LENGTHS, is_causal=1),
    attention(*QKV, "f32[2,1,3,5]", "", "", LENGTHS, left_window_size=1),
    attention(*QKV, "", "f32[2,2,4,4]", "f32[2,2,4,6]", is_causal=1, outputs=3),
    attention(*QKV, "f32[3,9]", "f32[2,2,4,4]", "f32[2,2,4,6]", outputs=3),
    attention("f32[2,6,3,4]", "f32[2,2,5,4]", "f32[2,2,5,6]", "f32[2,6,3,5]", outputs=4),
    attention("f32[2,3,24]", "f32[2,5,8]", "f32[2,5,12]", q_num_heads=6, kv_num_heads=2),
    attention(
        "f32[2,3,8]",
        "f32[2,5,8]",
        "f32[2,5,8]",
        "",
        "f32[2,2,1,4]",
        "f32[2,2,1,4]",
        q_num_heads=2,
        kv_num_heads=2,
        outputs=3,
        is_causal=1,
    ),
    attention("f16[1,2,3,8]", "f16[1,2,5,8]", "f16[1,2,5,8]", "f16[3,5]", tolerance=4e-3),
    attention("bf16[1,2,3,8]", "bf16[1,2,5,8]", "bf16[1,2,5,8]", tolerance=3e-2),
]
BAD: list[Bad] = [
    Bad(
        "Attention",
        ("f32[2,2,3,4]", "f32[2,2,5,3]", "f32[2,2,5,6]"),
        "attention: q and k must agree in width, k and v in heads and length; "
        "got q f32[2,2,3,4], k f32[2,2,5,3], v f32[2,2,5,6] (node bad)",
        AttentionAttributes(),
    ),
    Bad(
        "Attention",
        ("f32[2,3,8]", "f32[2,5,8]", "f32[2,5,8]"),
        "attention: 3 heads must divide the width of q; got q f32[2,3,8] (node bad)",
        AttentionAttributes(q_num_heads=3, kv_num_heads=2),
    ),
    Bad(
        "Attention",
        ("f32[2,3,3,4]", "f32[2,2,5,4]", "f32[2,2,5,6]"),
        "attention: 2 heads of keys must divide 3 of queries; "
        "got q f32[2,3,3,4], k f32[2,2,5,4], v f32[2,2,5,6] (node bad)",
        AttentionAttributes(),
    ),
    Bad(
        "Attention",
        (*QKV, "f32[4,5]"),
        "attention: the mask must broadcast to [2,2,3,5]; got mask f32[4,5] (node bad)",
        AttentionAttributes(),
    ),
]
TYPES: list[Typed] = [
    Typed(
        "Attention",
        ("f32[N,2,3,4]", "f32[N,2,5,4]", "f32[N,2,5,6]"),
        ("f32[N,2,3,6]",),
        AttentionAttributes(),
    ),
    Typed(
        "Attention",
        ("f32[N,3,8]", "f32[N,5,8]", "f32[N,5,8]"),
        ("f32[N,3,8]",),
        AttentionAttributes(q_num_heads=2, kv_num_heads=2),
    ),
]
