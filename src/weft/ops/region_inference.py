"""Which part of its inputs a node needs for a part of its output, and the node that makes it.

What is needed is the interval of each index of the op's definition.  The same op on these parts,
padding and groups adjusted, makes the part of the output if its definition is the whole's there:
that is proved (``weft.loops.agreement``), so no op needs a rule of its own here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as changed
from typing import Any, TypeAlias

import numpy as np

from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.loops.agreement import Agreement
from weft.loops.definition import Compute
from weft.loops.nodes import Binary, Expr, Load, Reduce, Var
from weft.loops.ranges import Facts
from weft.loops.walk import free_vars, index, loads, map_expr, substitute, walk
from weft.ops.channels_last import channel_axis
from weft.ops.definitions import definition, expansion
from weft.ops.evaluate import call_of
from weft.ops.record import Call, Extern
from weft.ops.table import OPS
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """The places from ``start`` up to but not including ``stop``."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many they are."""
        return self.stop - self.start

    def hull(self, other: AxisSpan) -> AxisSpan:
        """The least span with both in it."""
        return AxisSpan(min(self.start, other.start), max(self.stop, other.stop))

    def within(self, extent: int) -> AxisSpan:
        """What of it lies in a value that is so long."""
        return AxisSpan(max(0, self.start), min(extent, self.stop))


Box: TypeAlias = Mapping[int, AxisSpan]
"""A span for every axis that is cut; the others are whole."""
Needs: TypeAlias = Mapping[int, Box]
"""For the position of an input what is needed of it, over its borders where windows reach there;
inputs that are not named are needed whole."""


def extent_of(type: TensorType, axis: int) -> int:
    """The length of an axis, which must be known."""
    if not 0 <= axis < len(type.shape):
        raise UserError(f"cut: axis must be from 0 to {len(type.shape) - 1}", got=str(axis))
    extent = type.shape[axis]
    if not isinstance(extent, int):
        raise UserError(f"cut: the length of axis {axis} must be known", got=str(type))
    return extent


@dataclass(frozen=True)
class Part:
    """How a part of a node's output is made.

    Attributes:
        needs: of the inputs.
        attributes: of the node that makes it from these.
    """

    needs: Needs
    attributes: Any


def part_of(call: Call, box: Box) -> Part:
    """How the same op makes a part of a call's first output.

    Raises:
        UserError: the op cannot be cut so; says why.
    """
    if not box:
        return Part({}, call.attributes)
    needs = _needs(call, box)
    if needs is None:
        raise _refuse(call, box, "it does not compute its output place by place")
    inside: dict[int, Box] = {}
    for position, own in needs.items():
        type = call.type(position)
        inside[position] = {axis: span.within(extent_of(type, axis)) for axis, span in own.items()}
        for axis, span in inside[position].items():
            if span.length < 1:
                what = "but padding" if hasattr(call.attributes, "pads") else f"of input {position}"
                raise _refuse(call, {axis: span}, f"a part would read nothing {what}")
    attributes = _fitted(call, box, needs, inside)
    small = changed(
        call,
        attributes=attributes,
        inputs=tuple(type and _cut(type, inside.get(n, {})) for n, type in enumerate(call.inputs)),
    )
    if not _is_part(call, small, box, inside):
        whole = [(call.type(n).shape, own) for n, own in inside.items()]
        cut = any(span.length != shape[a] for shape, own in whole for a, span in own.items())
        why = "a part of it is another computation" if cut else "every element depends on all of it"
        raise _refuse(call, box, why)
    return Part(needs, attributes)


def _refuse(call: Call, box: Box, why: str) -> UserError:
    axes = " and ".join(map(str, sorted(box)))
    return UserError(f"tile: {call.op} cannot be cut along axis {axes}: {why}", where=call.where)


def _cut(type: TensorType, box: Box) -> TensorType:
    """The type of a part of a value."""
    shape = tuple(box[a].length if a in box else dim for a, dim in enumerate(type.shape))
    return TensorType(type.dtype, shape)


def _fitted(call: Call, box: Box, needs: Needs, inside: Needs) -> Any:
    """Attributes for parts of the inputs: what is left of padding and groups, sizes of outputs.

    Attributes of one name mean the same in all ops; whether these are right is proved later.
    """
    found, image = call.attributes, needs.get(0, {})
    rank = len(call.type(0).shape) if call.has(0) else 0
    pads = getattr(found, "pads", None)
    if pads:
        count, left = len(pads) // 2, list(pads)
        first = rank - count if channel_axis(call) == 1 else 1
        for axis, span in image.items():
            if first <= axis < first + count:
                held = inside[0][axis]
                left[axis - first] = held.start - span.start
                left[axis - first + count] = span.stop - held.stop
        found = changed(found, pads=tuple(left))
    groups = getattr(found, "groups", 1)
    if groups > 1 and (channels := channel_axis(call)) in image:
        whole = extent_of(call.type(0), channels)
        found = changed(found, groups=max(1, groups * inside[0][channels].length // whole))
    for name in ("shape", "sizes"):
        sizes: tuple[int, ...] | None = getattr(found, name, None)
        if sizes is not None and len(sizes) > max(box):
            made = (box[axis].length if axis in box else size for axis, size in enumerate(sizes))
            found = changed(found, **{name: tuple(made)})
    return found


# --- what is needed -------------------------------------------------------------------------


def _needs(call: Call, box: Box) -> Needs | None:
    """What is needed of the inputs for a part of the first output."""
    computes = definition(call)
    if computes is not None:
        return _of_definition(call, computes[0], box)
    graph = expansion(call)
    if graph is None:
        return {0: box} if _is_along_axis(call, box) else None
    wanted = _wanted(graph, box)
    return (
        None
        if wanted is None
        else {n: wanted[f"in{n}"] for n in range(len(call.inputs)) if wanted.get(f"in{n}")}
    )


def _is_along_axis(call: Call, box: Box) -> bool:
    """Whether an op with a C body works along another axis, or element by element."""
    compute = OPS[call.op].compute
    if not isinstance(compute, Extern) or not compute.along_axis:
        return False
    axis: int | None = getattr(call.attributes, "axis", None)
    return axis is None or axis % len(call.type(0).shape) not in box


def _wanted(graph: Graph, box: Box) -> dict[str, Box] | None:
    """What is needed of every value of a graph for a part of its first output."""
    wanted: dict[str, Box] = {graph.outputs[0]: box}
    for node in reversed(graph.nodes):
        asked = [value for value in node.outputs if value in wanted]
        if not asked:
            continue
        needs = _needs(call_of(node, graph.types), wanted[asked[0]])
        if needs is None or asked != [node.outputs[0]]:
            return None
        for position, value in enumerate(node.inputs):
            own = needs.get(position, {})
            if value:
                type = graph.types[value]
                own = {axis: span.within(extent_of(type, axis)) for axis, span in own.items()}
                wanted[value] = hull(wanted[value], own) if value in wanted else own
    return wanted


def hull(first: Box, second: Box) -> Box:
    """The least box with both in it; an axis that one needs whole is needed whole."""
    return {axis: span.hull(second[axis]) for axis, span in first.items() if axis in second}


def _of_definition(call: Call, compute: Compute, box: Box) -> Needs:
    ranges = {axis.var: (0, axis.extent - 1) for axis in compute.axes}
    for node in walk(compute.value):
        if isinstance(node, Reduce):
            ranges.update((axis.var, (0, axis.extent - 1)) for axis in node.axes)
    moving = {compute.axes[axis].var for axis in box}
    ranges.update((compute.axes[a].var, (span.start, span.stop - 1)) for a, span in box.items())
    facts = Facts().bind(ranges)
    found: dict[int, Box] = {}
    for load in loads(compute.value):
        position = int(load.buffer.removeprefix("in"))
        own: dict[int, AxisSpan] = {}
        for axis, each in enumerate(load.index):
            if free_vars(each) & moving:
                low, high = facts.range(each)
                own[axis] = AxisSpan(low, high + 1)
        found[position] = hull(found[position], own) if position in found else own
    return found


# --- whether the op on parts makes the part ---------------------------------------------------


def _is_part(whole: Call, part: Call, box: Box, inputs: Needs) -> bool:
    """Whether a call on parts of the inputs makes a part of the first output of another."""
    try:
        wanted, made = (OPS[each.op].infer(each)[0] for each in (whole, part))
        if made != _cut(wanted, box):
            return False
        mine, theirs = definition(whole), definition(part)
        if mine is not None and theirs is not None:
            return _agree(mine[0], theirs[0], box, inputs)
        if expansion(whole) is None:
            return _is_along_axis(whole, box)
        return _is_part_expanded(whole, part, box, inputs)
    except UserError:
        return False


def _agree(whole: Compute, part: Compute, box: Box, inputs: Needs) -> bool:
    starts = {
        mine.var: _plus(Var(other.var), box[axis].start if axis in box else 0)
        for axis, (mine, other) in enumerate(zip(whole.axes, part.axes, strict=True))
    }

    def moved(expr: Expr) -> Expr:
        if not isinstance(expr, Load):
            return expr
        own = inputs.get(int(expr.buffer.removeprefix("in")), {})
        where = tuple(_plus(e, -own[a].start if a in own else 0) for a, e in enumerate(expr.index))
        return Load(expr.buffer, where, expr.dtype)

    there = map_expr(substitute(whole.value, starts), moved)
    return Agreement({axis.var: axis.extent for axis in part.axes})(there, part.value)


def _plus(expr: Expr, offset: int) -> Expr:
    return Binary("add", expr, index(offset)) if offset else expr


def _is_part_expanded(whole: Call, part: Call, box: Box, inputs: Needs) -> bool:
    """The same for composite ops: it must hold for each node that they stand for."""
    mine, theirs = expansion(whole), expansion(part)
    if mine is None or theirs is None or len(mine.nodes) != len(theirs.nodes):
        return False
    wanted = _wanted(mine, box)
    if wanted is None or not all(_same_part(mine, theirs, n, wanted) for n in mine.constants):
        return False
    for old, new in zip(mine.nodes, theirs.nodes, strict=True):
        if (old.op, old.inputs, old.outputs) != (new.op, new.inputs, new.outputs):
            return False
        own = {n: wanted[value] for n, value in enumerate(old.inputs) if value}
        calls = call_of(old, mine.types), call_of(new, theirs.types)
        if not _is_part(*calls, wanted[old.outputs[0]], own):
            return False
    return True


def _same_part(whole: Graph, part: Graph, name: str, wanted: Mapping[str, Box]) -> bool:
    """Whether a constant is that part of another that is wanted."""
    array, other = whole.constants[name], part.constants.get(name)
    own = wanted.get(name, {})
    where = tuple(
        slice(own[axis].start, own[axis].stop) if axis in own else slice(None)
        for axis in range(array.ndim)
    )
    return other is not None and np.array_equal(array[where], other)
