"""Convolution and transposed convolution."""

from __future__ import annotations

from weft.ops.record import Op

OPS: tuple[Op, ...] = ()
