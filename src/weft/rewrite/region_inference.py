"""Where an axis is cut into parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from weft.errors import UserError
from weft.ops.region_inference import AxisSpan


def cuts(
    extent: int, *, parts: int | None = None, size: int | None = None, sizes: Sequence[int] = ()
) -> tuple[AxisSpan, ...]:
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
        raise UserError("cut: an axis must have at least two elements", got=str(extent))
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
    return tuple(AxisSpan(start, stop) for start, stop in pairwise(ends))


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


def group_borders(spans: Sequence[AxisSpan], size: int) -> tuple[AxisSpan, ...]:
    """Spans cut where needed so that each is whole groups of ``size`` or lies in one."""
    found: list[AxisSpan] = []
    for span in spans:
        first = -(-span.start // size) * size
        last = span.stop // size * size
        places = [span.start, span.stop, *(p for p in (first, last) if span.start < p < span.stop)]
        found += [AxisSpan(start, stop) for start, stop in pairwise(sorted(set(places)))]
    return tuple(found)
