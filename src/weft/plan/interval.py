"""Interval: something that needs memory for a while."""

from __future__ import annotations

from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """So many bytes from step ``first`` to step ``last``, both included."""

    name: str
    bytes: int
    first: int
    last: int
