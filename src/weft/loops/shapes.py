"""Arithmetic on the shapes of packed arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a packed array in elements, the last axis the fastest."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def factor_groups(
    source: Sequence[int], target: Sequence[int]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Runs of source and target axes with equal products, as short as possible.

    ``[1,64,56,56] -> [1,64,3136]`` gives ``(1)(1)``, ``(2,3)(2)``.  Axes of
    1 stand in no group.  The products of the whole shapes are equal and not 0.
    """
    left = [axis for axis, extent in enumerate(source) if extent != 1]
    right = [axis for axis, extent in enumerate(target) if extent != 1]
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    while left:
        taken, made = [left.pop(0)], [right.pop(0)]
        while (have := prod(source[axis] for axis in taken)) != (
            want := prod(target[axis] for axis in made)
        ):
            if have < want:
                taken.append(left.pop(0))
            else:
                made.append(right.pop(0))
        groups.append((tuple(taken), tuple(made)))
    return tuple(groups)
