"""Intervals of integer operations, from the intervals of their operands.

Results are what the operation gives without wrapping; ``None`` is "unknown".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Interval: TypeAlias = tuple[int, int]
"""Smallest and largest value, both inclusive."""


def _corners(values: list[int]) -> Interval:
    return (min(values), max(values))


def _mul(a: Interval, b: Interval) -> Interval:
    return _corners([x * y for x in a for y in b])


def _floordiv(a: Interval, b: Interval) -> Interval | None:
    return _corners([x // y for x in a for y in b]) if b[0] > 0 or b[1] < 0 else None


def _mod(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    if b[0] == b[1] and a[0] // b[0] == a[1] // b[0]:
        return (a[0] % b[0], a[1] % b[0])
    return (0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1)


def _div(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    values = [abs(x) // y * (1 if x >= 0 else -1) for x in a for y in b]
    return _corners([*values, 0] if a[0] < 0 < a[1] else values)


def _fmod(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    return (max(a[0], 1 - b[1]) if a[0] < 0 else 0, min(a[1], b[1] - 1) if a[1] > 0 else 0)


def _and(a: Interval, b: Interval) -> Interval | None:
    tops = [each[1] for each in (a, b) if each[0] >= 0]
    return (0, min(tops)) if tops else None


def _shl(a: Interval, b: Interval) -> Interval | None:
    if not 0 <= b[0] <= b[1] < 64:
        return None
    return _mul(a, (1 << b[0], 1 << b[1]))


def _shr(a: Interval, b: Interval) -> Interval | None:
    if b[0] < 0 or b[1] >= 8:  # the narrowest type; wider shifts of it give 0
        return (0, a[1]) if a[0] >= 0 and b[0] >= 0 else None
    return _corners([x >> y for x in a for y in b])


OPERATIONS: dict[str, Callable[[Interval, Interval], Interval | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _mul,
    "floordiv": _floordiv,
    "mod": _mod,
    "div": _div,
    "fmod": _fmod,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "and": _and,
    "shl": _shl,
    "shr": _shr,
}
"""By binary operation."""
