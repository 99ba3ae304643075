"""Gather, scatter, one-hot and other data-dependent indexing."""

from __future__ import annotations

from weft.ops.record import Op

OPS: tuple[Op, ...] = ()
