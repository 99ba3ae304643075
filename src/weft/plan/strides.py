"""Strides: views of memory as arithmetic on shapes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from weft.loops.affine import affine
from weft.loops.nodes import Axis, Load, Var
from weft.loops.shapes import factor_groups, row_major
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class StridedView:
    """Where the elements of a value lie.

    Attributes:
        root: the value that owns the memory.
        offset: elements from the start of the root.
        strides: elements between neighbours in each logical dimension.
    """

    root: str
    offset: int
    strides: tuple[int, ...]


def packed(shape: Sequence[int], order: Sequence[int], gap: int = 0) -> tuple[int, ...]:
    """Strides of a packed tensor whose dimensions lie in ``order``, slowest first.

    Args:
        shape: its dimensions.
        order: of its dimensions.
        gap: elements left free after every row, a run of the fastest dimension that moves.
    """
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        if step == 1 < shape[axis]:
            step = shape[axis] + gap
        else:
            step *= shape[axis]
    return tuple(strides)


def order_of(strides: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """The dimensions from slowest to fastest; those of extent 1 keep their places."""
    axes = range(len(shape))
    moving = sorted((a for a in axes if shape[a] > 1), key=lambda a: -strides[a])
    spots = [a for a in axes if shape[a] > 1]
    order = list(axes)
    for spot, axis in zip(spots, moving, strict=True):
        order[spot] = axis
    return tuple(order)


def reshaped(
    shape: Sequence[int], strides: Sequence[int], target: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides with which the same memory is read in another shape, if there are any.

    Both shapes have as many elements.  The dimensions of each of their smallest groups of equal
    products must lie in one run of memory.
    """
    if prod(shape) == 0:
        return row_major(target)
    found = [1] * len(target)
    for taken, made in factor_groups(shape, target):
        run = [(shape[axis], strides[axis]) for axis in taken]
        if any(outer != extent * inner for (_, outer), (extent, inner) in pairwise(run)):
            return None
        for axis, step in zip(made, row_major([target[axis] for axis in made]), strict=True):
            found[axis] = step * run[-1][1]
    return tuple(found)


def moved(view: StridedView, load: Load, axes: Sequence[Axis]) -> StridedView:
    """The view of a value that is an affine movement of another."""
    offset = view.offset
    steps = dict.fromkeys((axis.var for axis in axes), 0)
    for part, stride in zip(load.index, view.strides, strict=True):
        form = affine(part)
        offset += form.const * stride
        for atom, factor in form.terms.items():
            if isinstance(atom, Var):
                steps[atom.name] += factor * stride
    return StridedView(view.root, offset, tuple(steps[axis.var] for axis in axes))
