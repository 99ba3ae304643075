"""How loads walk memory: strides along the axes of what is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.loops.affine import affine
from weft.loops.definition import Compute
from weft.loops.nodes import Binary, Const, Expr, Load, Reduce, Var
from weft.loops.ranges import Facts
from weft.loops.simplify import simplify
from weft.loops.walk import loads, walk
from weft.plan.strides import StridedView
from weft.plan.tensors import moved_from


def walked(load: Load, compute: Compute, view: StridedView) -> tuple[int, ...] | None:
    """Elements by which a load moves along each output axis; ``None`` if along one it does not.

    Of an axis that is divided a part of the stride is taken: neighbours lie together.  What
    is left of the division says nothing new.
    """
    steps = dict.fromkeys((axis.var for axis in compute.axes), 0)
    facts = Facts().bind({axis.var: (0, axis.extent - 1) for axis in compute.axes})
    for part, stride in zip(load.index, view.strides, strict=True):
        for atom, factor in affine(simplify(part, facts)).terms.items():
            names, size = [atom], factor * stride
            if isinstance(atom, Binary) and atom.op == "mod" and isinstance(atom.rhs, Const):
                continue
            if isinstance(atom, Binary) and atom.op == "floordiv" and isinstance(atom.rhs, Const):
                names, size = list(affine(atom.lhs).terms), size // max(1, int(atom.rhs.value))
            for name in names:
                if not isinstance(name, Var):
                    return None
                if name.name in steps:
                    steps[name.name] += max(1, abs(size))
    found = tuple(steps[axis.var] for axis in compute.axes)
    moves = (axis.extent == 1 or step for axis, step in zip(compute.axes, found, strict=True))
    return found if all(moves) else None


def vector_strides(
    reduce: Reduce, compute: Compute, order: Sequence[int], views: Mapping[str, StridedView]
) -> dict[str, int]:
    """Strides of the operands of a contraction along the output's fastest dimension."""
    moving = [axis for axis in order if compute.axes[axis].extent > 1]
    if not moving:
        return {}
    name = compute.axes[moving[-1]].var
    found: dict[str, int] = {}
    for load in loads(reduce.value):
        view = views.get(load.buffer)
        if view is None:
            continue
        step = 0
        for part, stride in zip(load.index, view.strides, strict=True):
            step += affine(part).terms.get(Var(name), 0) * stride
        found[load.buffer] = step
    return found


def permutation(compute: Compute) -> tuple[int, ...] | None:
    """The dimension of the operand that every axis walks, if the definition is a transposition."""
    load = moved_from(compute)
    if load is None or len(load.index) != len(compute.axes):
        return None
    places = {part.name: place for place, part in enumerate(load.index) if isinstance(part, Var)}
    found = tuple(places.get(axis.var, -1) for axis in compute.axes)
    return found if len(places) == len(found) and -1 not in found else None


def repeated(value: Expr) -> Iterator[Load]:
    """Loads of which a reduction makes many for each element."""
    for node in walk(value):
        if isinstance(node, Reduce):
            yield from loads(node.value)


def gathered(value: Expr) -> Iterator[Load]:
    """Loads from where data say."""
    for load in loads(value):
        if any(True for part in load.index for _ in loads(part)):
            yield load
