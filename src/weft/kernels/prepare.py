"""From a group to a generator's task: short names, no idle axes, merged axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.ir.unknown import is_known
from weft.kernels.bytes.affine_sum import with_affine_sums
from weft.kernels.split import split_axes
from weft.kernels.task import LOOP_NAMES, Task
from weft.loops.definition import Compute
from weft.loops.nodes import Access, Axis, Buffer, Const, Expr, Load, Reduce, Var
from weft.loops.ranges import Facts
from weft.loops.simplify import simplify
from weft.loops.walk import (
    FreshNames,
    bound_vars,
    children,
    loads,
    map_expr,
    rename_axes,
    rename_loads,
    substitute,
)
from weft.plan.fusion import Group
from weft.plan.implementation import Constants
from weft.plan.strides import StridedView
from weft.targets.target import Target

_ZERO = Const(0, DType.I64)


def prepare(
    name: str,
    group: Group,
    views: Mapping[str, StridedView],
    types: Mapping[str, TensorType],
    constants: Constants,
    target: Target,
    *,
    merge: bool = True,
) -> Task:
    """The task of a group; the input ``inK`` is the group's ``K``-th read value.

    Args:
        name: wished name of the kernel.
        group: what to compute.
        views: where all values lie.
        types: of all values.
        constants: those that are known now.
        target: the machine.
        merge: make one axis of those that all buffers walk as one.
    """
    names = {value: f"in{place}" for place, value in enumerate(group.reads)}
    inputs = tuple(
        Buffer(short, types[value].dtype, types[value].dims, Access.READ, views[value].strides)
        for value, short in names.items()
    )
    strides = views[group.value].strides
    idle = {axis.var: _ZERO for axis in group.compute.axes if axis.extent == 1}
    value = substitute(rename_loads(group.compute.value, names), idle)
    kept = [
        (axis, stride)
        for axis, stride in zip(group.compute.axes, strides, strict=True)
        if axis.extent != 1
    ]
    # Slowest first: the order of the loops is the order of the output in memory.
    kept.sort(key=lambda pair: -pair[1])
    axes = tuple(axis for axis, _ in kept)
    output = Buffer(
        "out",
        group.type.dtype,
        tuple(axis.extent for axis in axes),
        Access.WRITE,
        tuple(stride for _, stride in kept),
    )
    task = Task(
        name,
        tuple(names),
        Compute(axes, value),
        inputs,
        output,
        frozenset(names[value] for value in names if value in constants),
        target,
        arrays={
            names[value]: constants[value]
            for value in names
            if value in constants and is_known(constants[value])
        },
        measured=group.measured,
    )
    task = _simple(_named_apart(_drop_taps(task)))
    while (cut := split_axes(task)) is not task:
        task = _simple(cut)
    task = with_affine_sums(_drop_dimensions(task))
    return _merge_all(task) if merge else task


def _named_apart(task: Task) -> Task:
    """With axes under names that no generator gives to its own loops."""
    axes, value = task.compute.axes, task.compute.value
    names = {axis.var for axis in axes} | bound_vars(value)
    if not names & LOOP_NAMES:
        return task
    fresh = FreshNames(LOOP_NAMES)
    renamed = tuple(Axis(fresh(axis.var), axis.extent) for axis in axes)
    value = rename_axes(value, fresh)
    values = {old.var: Var(new.var) for old, new in zip(axes, renamed, strict=True)}
    return replace(task, compute=Compute(renamed, substitute(value, values)))


def _simple(task: Task) -> Task:
    """With indices in normal form, so that equal ones look equal."""
    ranges = {axis.var: (0, axis.extent - 1) for axis in task.compute.axes}
    value = simplify(task.compute.value, Facts().bind(ranges))
    return replace(task, compute=Compute(task.compute.axes, value))


def _drop_taps(task: Task) -> Task:
    """Removes reduction axes of extent 1."""

    def drop(node: Expr) -> Expr:
        if not isinstance(node, Reduce):
            return node
        idle = {axis.var: _ZERO for axis in node.axes if axis.extent == 1}
        if not idle:
            return node
        axes = tuple(axis for axis in node.axes if axis.extent != 1)
        value = substitute(node.value, idle)
        # Guards may stand on the dropped axis, so an empty reduction keeps its node.
        return Reduce(node.op, axes, value)

    value = map_expr(task.compute.value, drop)
    return replace(task, compute=Compute(task.compute.axes, value))


def _drop_dimensions(task: Task) -> Task:
    """Removes dimensions of extent 1 that are only read at 0."""
    droppable: dict[str, set[int]] = {
        buffer.name: {axis for axis, extent in enumerate(buffer.shape) if extent == 1}
        for buffer in task.inputs
    }
    for load in loads(task.compute.value):
        droppable[load.buffer] -= {axis for axis, part in enumerate(load.index) if part != _ZERO}
    return _without(task, droppable)


def _without(task: Task, dropped: Mapping[str, set[int]]) -> Task:
    if not any(dropped.values()):
        return task

    def keep(name: str, parts: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(part for axis, part in enumerate(parts) if axis not in dropped[name])

    def shorten(node: Expr) -> Expr:
        if isinstance(node, Load) and dropped[node.buffer]:
            return replace(node, index=keep(node.buffer, node.index))
        return node

    inputs = tuple(
        replace(
            buffer,
            shape=keep(buffer.name, buffer.shape),
            strides=keep(buffer.name, buffer.steps),
        )
        for buffer in task.inputs
    )
    value = map_expr(task.compute.value, shorten)
    return replace(task, compute=Compute(task.compute.axes, value), inputs=inputs)


def _merge_all(task: Task) -> Task:
    """Merges neighbouring axes that every buffer walks as one."""
    place = 0
    while place + 1 < len(task.compute.axes):
        merged = _merged(task, place)
        if merged is None:
            place += 1
        else:
            task = merged
            place = max(0, place - 1)
    return task


def _dimensions(
    buffer: Buffer, index: tuple[Expr, ...], slow: Axis, fast: Axis
) -> tuple[int, int] | None:
    """Where two axes index a buffer plainly and as one; ``(-1, -1)`` where neither does."""
    found = [
        [axis for axis, part in enumerate(index) if part == Var(each.var)] for each in (slow, fast)
    ]
    if not found[0] and not found[1]:
        return (-1, -1)
    if len(found[0]) != 1 or len(found[1]) != 1:
        return None
    outer, inner = found[0][0], found[1][0]
    fits = (
        buffer.shape[outer] == slow.extent
        and buffer.shape[inner] == fast.extent
        and buffer.steps[outer] == fast.extent * buffer.steps[inner]
    )
    return (outer, inner) if fits else None


def _merged(task: Task, place: int) -> Task | None:
    """The task with two axes made one, if that is possible."""
    slow, fast = task.compute.axes[place : place + 2]
    out = task.output
    if out.steps[place] != fast.extent * out.steps[place + 1]:
        return None
    buffers = {buffer.name: buffer for buffer in task.inputs}
    where: dict[str, tuple[int, int]] = {}
    value = task.compute.value
    for load in loads(value):
        found = _dimensions(buffers[load.buffer], load.index, slow, fast)
        if found is None or where.setdefault(load.buffer, found) != found:
            return None
    if not _only_plain(value, frozenset((slow.var, fast.var))):
        return None
    names = FreshNames({axis.var for axis in task.compute.axes} | bound_vars(value) | LOOP_NAMES)
    axis = Axis(names(f"{slow.var}{fast.var}"), slow.extent * fast.extent)

    def rewrite(node: Expr) -> Expr:
        if isinstance(node, Load) and where[node.buffer] != (-1, -1):
            outer, inner = where[node.buffer]
            parts = [Var(axis.var) if a == outer else part for a, part in enumerate(node.index)]
            return replace(node, index=tuple(parts[:inner] + parts[inner + 1 :]))
        return node

    inputs = tuple(
        _joined(buffer, *where[buffer.name])
        if where.get(buffer.name, (-1, -1)) != (-1, -1)
        else buffer
        for buffer in task.inputs
    )
    axes = (*task.compute.axes[:place], axis, *task.compute.axes[place + 2 :])
    return replace(
        task,
        compute=Compute(axes, map_expr(value, rewrite)),
        inputs=inputs,
        output=_joined(out, place, place + 1),
    )


def _joined(buffer: Buffer, outer: int, inner: int) -> Buffer:
    shape, strides = list(buffer.shape), list(buffer.steps)
    shape[outer] *= shape[inner]
    strides[outer] = strides[inner]
    del shape[inner], strides[inner]
    return replace(buffer, shape=tuple(shape), strides=tuple(strides))


def _only_plain(value: Expr, names: frozenset[str]) -> bool:
    """Whether the variables are used as whole indices of loads and nowhere else."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Var):
            if node.name in names:
                return False
        elif isinstance(node, Load):
            stack.extend(part for part in node.index if not isinstance(part, Var))
        else:
            stack.extend(children(node))
    return True
