"""Splits axes that are only used by parts: ``c // 16`` and ``c % 16`` become two axes.

A grouped convolution reads the channels of ``c // 16``; with an axis for groups and one
inside a group all its indices are affine.  So are those of a transposed convolution with
strides, and of whatever moves pixels to channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from weft.kernels.task import Task
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Binary, Buffer, Const, Expr, Load, Var
from weft.loops.walk import (
    FreshNames,
    bound_vars,
    index,
    loads,
    map_expr,
    reduces,
    substitute,
    walk,
)

T = TypeVar("T")


def split_axes(task: Task) -> Task:
    """The task with every axis cut in two that its indices divide by one number."""
    for axis in task.compute.axes:
        inner = _divisor(task.compute.value, axis)
        if inner and _pays(task, axis, inner):
            task = _split(task, axis, inner)
    return task


def _divisor(value: Expr, axis: Axis) -> int:
    """The largest number that an axis is divided by, if all others divide it; else 0."""
    found = {
        int(node.rhs.value)
        for node in walk(value)
        if isinstance(node, Binary)
        and node.op in ("floordiv", "mod")
        and node.lhs == Var(axis.var)
        and isinstance(node.rhs, Const)
    }
    # Nested parts, as of a reshape that joins several axes, are cut from the largest on.
    *inner, divisor = sorted(found) or (0,)
    if any(large % small for small, large in pairwise((*inner, divisor))):
        return 0
    return divisor if 1 < divisor < axis.extent and axis.extent % divisor == 0 else 0


def _pays(task: Task, axis: Axis, inner: int) -> bool:
    """Whether vectors along the axis stay wide enough: without a reduction, full."""
    if axis != task.compute.axes[-1]:
        return True
    return reduces(task.compute.value) or inner >= task.target.lanes(task.output.dtype)


def _split(task: Task, axis: Axis, inner: int) -> Task:
    taken = {each.var for each in task.compute.axes} | bound_vars(task.compute.value)
    fresh = FreshNames(frozenset(taken))
    parts = (
        Axis(fresh(f"{axis.var}_outer"), axis.extent // inner),
        Axis(fresh(f"{axis.var}_inner"), inner),
    )
    outer_var, inner_var = (Var(each.var) for each in parts)
    value = task.compute.value
    buffers = tuple(_cut(buffer, _dimensions(value, buffer, axis), inner) for buffer in task.inputs)
    cut = {buffer.name: _dimensions(value, buffer, axis) for buffer in task.inputs}

    def indexed(node: Expr) -> Expr:
        if not isinstance(node, Load):
            return node
        places = cut[node.buffer]
        return replace(node, index=_expanded(node.index, places, lambda _: (outer_var, inner_var)))

    whole = Binary("add", Binary("mul", outer_var, index(inner)), inner_var)
    value = substitute(map_expr(value, indexed), {axis.var: whole})
    place = task.compute.axes.index(axis)
    axes = _expanded(task.compute.axes, frozenset((place,)), lambda _: parts)
    output = _cut(task.output, frozenset((place,)), inner)
    return replace(task, compute=Compute(axes, value), inputs=buffers, output=output)


def _dimensions(value: Expr, buffer: Buffer, axis: Axis) -> frozenset[int]:
    """The dimensions of a buffer that are only ever indexed by the whole axis."""
    found = set(range(len(buffer.shape)))
    for load in loads(value):
        if load.buffer == buffer.name:
            found -= {place for place, part in enumerate(load.index) if part != Var(axis.var)}
    return frozenset(place for place in found if buffer.shape[place] == axis.extent)


def _cut(buffer: Buffer, places: frozenset[int], inner: int) -> Buffer:
    """A buffer with dimensions cut in two."""
    shape = _expanded(buffer.shape, places, lambda extent: (extent // inner, inner))
    strides = _expanded(buffer.steps, places, lambda step: (step * inner, step))
    return replace(buffer, shape=shape, strides=strides)


def _expanded(
    parts: tuple[T, ...], places: frozenset[int], pair: Callable[[T], tuple[T, T]]
) -> tuple[T, ...]:
    """Parts with those at some places replaced by two."""
    found: list[T] = []
    for place, part in enumerate(parts):
        found.extend(pair(part) if place in places else (part,))
    return tuple(found)
