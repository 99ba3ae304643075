"""Parts of values: a span of places for each axis that is cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from weft.errors import UserError
from weft.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Span:
    """The places from ``start`` up to but not including ``stop``."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many they are."""
        return self.stop - self.start

    def hull(self, other: Span) -> Span:
        """The least span with both in it."""
        return Span(min(self.start, other.start), max(self.stop, other.stop))

    def within(self, extent: int) -> Span:
        """What of it lies in a value that is so long."""
        return Span(max(0, self.start), min(extent, self.stop))


Box: TypeAlias = Mapping[int, Span]
"""A span for every axis that is cut; the others are whole."""


def cuts(
    extent: int, *, parts: int | None = None, size: int | None = None, sizes: Sequence[int] = ()
) -> tuple[Span, ...]:
    """The spans that an axis is cut into.

    Args:
        extent: of the axis.
        parts: how many; the first are one longer where it does not come out even.
        size: of every part; the last may be smaller.
        sizes: of each part.

    Raises:
        UserError: not exactly one of the three is given, or they do not cut the axis.
    """
    if extent < 2:
        raise UserError("cut: an axis must have at least two places", got=str(extent))
    if sum((parts is not None, size is not None, bool(sizes))) != 1:
        raise UserError("cut: give one of parts, size and sizes", got=_given(parts, size, sizes))
    if parts is not None:
        lengths = _even(extent, parts)
    elif size is not None:
        lengths = _equal(extent, size)
    else:
        lengths = tuple(sizes)
        if min(lengths) < 1 or sum(lengths) != extent:
            raise UserError(
                f"cut: sizes must be positive and add up to {extent}", got=str(list(lengths))
            )
    if len(lengths) < 2:
        raise UserError("cut: there must be at least two parts", got=str(len(lengths)))
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    return tuple(Span(start, stop) for start, stop in pairwise(ends))


def _given(parts: int | None, size: int | None, sizes: Sequence[int]) -> str:
    named = {"parts": parts, "size": size, "sizes": list(sizes) or None}
    return ", ".join(f"{key}={value}" for key, value in named.items() if value) or "none"


def _even(extent: int, parts: int) -> tuple[int, ...]:
    if not 2 <= parts <= extent:
        raise UserError(f"cut: parts must be from 2 to {extent}, the axis's length", got=f"{parts}")
    least, more = divmod(extent, parts)
    return tuple(least + (place < more) for place in range(parts))


def _equal(extent: int, size: int) -> tuple[int, ...]:
    if not 1 <= size < extent:
        raise UserError(f"cut: size must be from 1 to {extent - 1}", got=str(size))
    whole, rest = divmod(extent, size)
    return (size,) * whole + ((rest,) if rest else ())


def extent_of(type: TensorType, axis: int) -> int:
    """The length of an axis, which must be known."""
    if not 0 <= axis < len(type.shape):
        raise UserError(f"cut: axis must be from 0 to {len(type.shape) - 1}", got=str(axis))
    extent = type.shape[axis]
    if not isinstance(extent, int):
        raise UserError(f"cut: the length of axis {axis} must be known", got=str(type))
    return extent


def group_borders(spans: Sequence[Span], size: int) -> tuple[Span, ...]:
    """Spans cut where needed so that each is whole groups of ``size`` or lies in one."""
    found: list[Span] = []
    for span in spans:
        first = -(-span.start // size) * size
        last = span.stop // size * size
        places = [span.start, span.stop, *(p for p in (first, last) if span.start < p < span.stop)]
        found += [Span(start, stop) for start, stop in pairwise(sorted(set(places)))]
    return tuple(found)
