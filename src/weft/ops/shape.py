"""Reshape, transpose, concat, split, slice, pad, expand, tile: data movement."""

from __future__ import annotations

from weft.ops.record import Op

OPS: tuple[Op, ...] = ()
