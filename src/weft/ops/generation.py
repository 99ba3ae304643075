"""Constants, ranges and other ops without data inputs."""

from __future__ import annotations

from weft.ops.record import Op

OPS: tuple[Op, ...] = ()
