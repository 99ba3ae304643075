"""Which kernels read a buffer as it lies in memory."""

from __future__ import annotations

import pytest

from weft.loops.streams import streams
from weft.loops.text import parse


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for i in 0..32 { for j in 0..31 { y[0] = x[i, j] } }", True),
        ("for i in 0..32 { for j in 0..31 { y[0] = x[i, j] }  y[1] = x[i, 30] }", True),
        ("for i in 0..32 { for j in 0..31 { y[0] = x[i, j] } }  y[1] = x[3, 3]", False),
        ("for i in 0..32 { for j in 0..15 { for l in 0..2 { y[0] = x[i, j * 2 + l] } } }", True),
        ("for i in 0..32 { for k in 0..5 { for j in 0..31 { y[k] = x[i, j] } } }", True),
        ("for i in 0..32 { for j in 0..20 { y[0] = x[i, j] } }", True),
        ("for i in 0..32 { for j in 0..15 { y[0] = x[i, j] } }", False),
        ("for j in 0..31 { for i in 0..32 { y[0] = x[i, j] } }", False),
        ("for i in 0..30 { for j in 0..31 { for k in 0..3 { y[0] = x[i + k, j] } } }", False),
        ("for i in 0..32 { for j in 0..31 { y[0] = x[i, 30 - j] } }", False),
        ("for i in 0..32 { for j in 0..i { y[0] = x[i, j] } }", False),
        ("for j in 0..31 { y[j] = 0.0 }", True),
    ],
)
def test_streams(body: str, expected: bool) -> None:
    kernel = parse(f"kernel k(x: f32[32,31] read, y: f32[31] write) {{ {body} }}")
    assert streams(kernel, "x") is expected
