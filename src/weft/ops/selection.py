"""Top-k, sort, non-max suppression, unique: what is not a loop nest."""

from __future__ import annotations

from weft.ops.record import Op

OPS: tuple[Op, ...] = ()
