"""Comparisons, logic and bit operations."""

from __future__ import annotations

from weft.ops.record import Op

OPS: tuple[Op, ...] = ()
