"""What an op does with the axes of what it reads: hands them on, moves them, sums over them.

The one place where facts such as "channels pass through" or "it is summed over" come from: they
are read off index expressions (``weft.loops.definition``), never listed by op.  Composite ops
are asked through what they expand to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace as changed
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from weft.errors import UserError
from weft.ir.types import TensorType
from weft.loops.affine import affine
from weft.loops.agreement import Agreement, loaded, values_of
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Binary, Cast, Const, Expr, Load, Reduce, Select, Unary, Var
from weft.loops.walk import children, free_vars, index, loads, map_expr, walk
from weft.ops.definitions import REMEMBERED, closed, composed, definition, expansion
from weft.ops.evaluate import call_of
from weft.ops.record import Call
from weft.ops.region_inference import AxisSpan, Box, part_of
from weft.ops.table import OPS
from weft.records import dataclass

Site: TypeAlias = tuple[int, int]
"""The position of an input, and one of its axes."""
_NOTHING: Mapping[int, int] = MappingProxyType({})

# --- handed on --------------------------------------------------------------------------------


def carried(call: Call, axis: int) -> Mapping[int, int]:
    """The axes of inputs that an axis of the first output is, by position of the input.

    Each position along it is made of the same positions of those and does not depend on which
    one it is, so the op does as well with fewer.  Empty where it is otherwise.
    """
    return _carried(closed(call), axis)


@lru_cache(REMEMBERED)
def _carried(call: Call, axis: int) -> Mapping[int, int]:
    extent = OPS[call.op].infer(call)[0].dims[axis]
    if extent < 2:
        return _NOTHING
    # Without its first position and without its last: whatever holds of both holds of any.
    found = [_needed(call, {axis: span}) for span in (AxisSpan(0, extent - 1), AxisSpan(1, extent))]
    return found[0] if found[0] == found[1] else _NOTHING


def _needed(call: Call, box: Box) -> Mapping[int, int]:
    """The axes of which a part needs the same span, if it needs no others."""
    ((axis, span),) = box.items()
    try:
        needs = part_of(call, box).needs
    except UserError:
        return _NOTHING
    extent = OPS[call.op].infer(call)[0].dims[axis]
    found: dict[int, int] = {}
    for position, own in needs.items():
        sizes = call.type(position).dims
        cut = {a: each for a, each in own.items() if each != AxisSpan(0, sizes[a])}
        if any(each != span or sizes[a] != extent for a, each in cut.items()) or len(cut) > 1:
            return _NOTHING
        found.update((position, a) for a in cut)
    return found


def is_elementwise(call: Call) -> bool:
    """Whether each element of the one output is computed from the elements at its place.

    Inputs are aligned at the right and repeated along axes of 1, as in NumPy, to the shape of the
    output: its shape is theirs, not one that attributes give.
    """
    computes = definition(call)
    if computes is None or len(computes) != 1:
        return False
    (compute,) = computes
    point = [Var(axis.var) for axis in compute.axes]
    pending, seen, read = [compute.value], set[int](), set[str]()
    while pending:
        expr = pending.pop()
        match expr:
            case Reduce() | Var():
                return False
            case Load(name, where, _):
                read.add(name)
                aligned = point[max(0, len(point) - len(where)) :]
                if len(where) != len(aligned) or not all(
                    each == own or (isinstance(each, Const) and each.value == 0)
                    for each, own in zip(where, aligned, strict=True)
                ):
                    return False
            case _ if id(expr) not in seen:
                seen.add(id(expr))
                pending += children(expr)
            case _:
                pass
    inputs = {f"in{place}": type for place, type in enumerate(closed(call).inputs) if type}
    shapes = [inputs[name].dims for name in read]
    shape = tuple(axis.extent for axis in compute.axes)
    return bool(shapes) and np.broadcast_shapes(*shapes) == shape


# --- moved ------------------------------------------------------------------------------------


def moves(call: Call, known: Collection[int] = ()) -> bool:
    """Whether an op only moves elements of its inputs, or puts constants among them.

    Args:
        call: of the op.
        known: positions of inputs that are constant, which may say where.
    """
    return _moves(closed(call), frozenset(known))


@lru_cache(REMEMBERED)
def _moves(call: Call, known: frozenset[int]) -> bool:
    computes = definition(call)
    if computes is not None:
        names = {f"in{position}" for position in known}
        reads = any(next(loads(compute.value), None) is not None for compute in computes)
        return reads and all(_is_moved(compute.value, names) for compute in computes)
    graph = expansion(call)
    return graph is not None and all(
        moves(call_of(node, graph.types), [n for n, v in enumerate(node.inputs) if v in fixed])
        for fixed in [{f"in{n}" for n in known} | set(graph.constants)]
        for node in graph.nodes
    )


def _is_moved(value: Expr, known: Collection[str]) -> bool:
    match value:
        case Select(condition, then, otherwise):
            free = next(loads(condition), None) is None
            return free and _is_moved(then, known) and _is_moved(otherwise, known)
        case Load(_, where, _):
            return all(load.buffer in known for each in where for load in loads(each))
        case _:
            return isinstance(value, Const)


def origins(call: Call, site: Site, arrays: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    """For each element of each output which position of an input's axis it is from, or -1.

    The arrays have one place along axes of outputs that do not matter.

    Args:
        call: of an op that only moves elements.
        site: the axis.
        arrays: inputs that say where, by position.
    """
    call = closed(call)
    type = call.type(site[0])
    along_axis = (-1, *[1] * (len(type.dims) - site[1] - 1))
    start = np.arange(type.dims[site[1]]).reshape((1,) * site[1] + along_axis)
    known = {f"in{n}": array for n, array in arrays.items()}
    return _followed(call, {f"in{site[0]}": start}, known)


def _followed(
    call: Call, moved: Mapping[str, np.ndarray], known: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Where elements are from that an op moves on, given where those that it reads are from."""
    computes = definition(call)
    if computes is not None:
        return [_moved_by(compute, moved, known) for compute in computes]
    graph = expansion(call)
    assert graph is not None
    known, found = {**known, **graph.constants}, dict(moved)
    for node in graph.nodes:
        names = [(f"in{n}", value) for n, value in enumerate(node.inputs)]
        parts = _followed(
            call_of(node, graph.types),
            {name: found[value] for name, value in names if value in found},
            {name: known[value] for name, value in names if value in known},
        )
        found.update(zip(node.outputs, parts, strict=False))
    return [found[value] for value in graph.outputs]


def _moved_by(
    compute: Compute, moved: Mapping[str, np.ndarray], known: Mapping[str, np.ndarray]
) -> np.ndarray:
    rank = len(compute.axes)
    places = {
        axis.var: np.arange(axis.extent).reshape(-1, *[1] * (rank - place - 1))
        for place, axis in enumerate(compute.axes)
    }

    def visit(value: Expr) -> np.ndarray:
        match value:
            case Select(condition, then, otherwise):
                held = values_of(condition, places)
                assert held is not None
                return np.where(held, visit(then), visit(otherwise))
            case Load(buffer, where, _) if buffer in moved:
                found = loaded(moved[buffer], where, places, known)
                assert found is not None
                return found
            case _:
                return np.asarray(-1)

    found = visit(compute.value)
    return found.reshape((1,) * (rank - found.ndim) + found.shape)


def along(origin: np.ndarray, axis: int) -> np.ndarray | None:
    """Which position each position along an axis is from, where the other axes do not matter."""
    others = tuple(each for each in range(origin.ndim) if each != axis)
    places = origin.max(axis=others, keepdims=True, initial=-1)
    same = ((origin == places) | (origin < 0)).all()
    return places.reshape(-1) if same else None


# --- summed -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum:
    """An axis that a definition reduces.

    Attributes:
        variable: of the reduced axis.
        sites: the axes of inputs that it counts through.
        leaves: terms of which the first input is zero, its zero point, can be left out.
    """

    variable: str
    sites: tuple[Site, ...]
    leaves: bool


@dataclass(frozen=True)
class Groups:
    """An axis that is read group by group: position ``group * inner + place`` of it.

    Attributes:
        sites: axes that are read so.
        inside: axes that are read at the place within the group.
        output: the axis of the output, of which each group has as many positions.
        outside: axes of inputs that go with that one.
        count: of the groups.
    """

    sites: tuple[Site, ...]
    inside: tuple[Site, ...]
    output: int
    outside: tuple[Site, ...]
    count: int


def is_layer(call: Call) -> bool:
    """Whether an op sums products of its inputs."""
    computes = composed(call)
    return computes is not None and any(
        len({load.buffer for load in loads(node.value)}) > 1
        for node in walk(computes[0].value)
        if isinstance(node, Reduce) and node.op == "sum"
    )


def sums(call: Call) -> tuple[Sum, ...]:
    """The axes that the definition of the first output reduces, each position with its like."""
    computes = composed(call)
    return () if computes is None else _sums(closed(call))


@lru_cache(REMEMBERED)
def _sums(call: Call) -> tuple[Sum, ...]:
    computes = composed(call)
    assert computes is not None
    compute = computes[0]
    found: list[Sum] = []
    for node in (each for each in walk(compute.value) if isinstance(each, Reduce)):
        for axis in node.axes:
            sites = _counted(node, axis.var)
            if sites and axis.extent > 1:
                first = f"in{sites[0][0]}"
                leaves = node.op == "sum" and _vanishes(node.value, first)
                leaves = leaves and _shortens(call, compute, axis, sites)
                found.append(Sum(axis.var, sites, leaves))
    return tuple(found)


def _counted(node: Reduce, variable: str) -> tuple[Site, ...]:
    """The axes of inputs that a variable counts through, if it does nothing else."""
    sites: dict[Site, None] = {}

    def without(expr: Expr) -> Expr:
        if not isinstance(expr, Load) or Var(variable) not in expr.index:
            return expr
        axis = expr.index.index(Var(variable))
        sites[int(expr.buffer.removeprefix("in")), axis] = None
        rest = (*expr.index[:axis], index(0), *expr.index[axis + 1 :])
        return Load(expr.buffer, rest, expr.dtype)

    rest = map_expr(node.value, without)
    return tuple(sorted(sites)) if variable not in free_vars(rest) else ()


def _vanishes(expr: Expr, buffer: str) -> bool:
    """Whether an expression is zero wherever the elements of a buffer are, or its zero point."""
    match expr:
        case Binary("sub", lhs, Cast(_, Load(_, where, _)) | Load(_, where, _)) if all(
            isinstance(each, Const) for each in where
        ):
            return _vanishes(lhs, buffer)
        case Load(name, _, _):
            return name == buffer
        case Const(value, _):
            return value == 0
        case Cast(_, x) | Unary("neg" | "abs" | "sqrt" | "sign", x):
            return _vanishes(x, buffer)
        case Binary("mul", lhs, rhs):
            return _vanishes(lhs, buffer) or _vanishes(rhs, buffer)
        case Binary("add" | "sub", lhs, rhs) | Select(_, lhs, rhs):
            return _vanishes(lhs, buffer) and _vanishes(rhs, buffer)
        case _:
            return False


def _shortens(call: Call, compute: Compute, axis: Axis, sites: Sequence[Site]) -> bool:
    """Whether the definition for one place less is that with a shorter reduction."""
    inputs = list(call.inputs)
    for position, each in sites:
        type = call.type(position)
        dims = [dim - (place == each) for place, dim in enumerate(type.dims)]
        inputs[position] = TensorType(type.dtype, tuple(dims))
    small = changed(call, inputs=tuple(inputs))

    def shorter(expr: Expr) -> Expr:
        if not isinstance(expr, Reduce) or axis not in expr.axes:
            return expr
        axes = (Axis(a.var, a.extent - (a == axis)) for a in expr.axes)
        return Reduce(expr.op, tuple(axes), expr.value)

    try:
        OPS[call.op].infer(small)
        others = composed(small)
    except UserError:
        return False
    assert others is not None
    other = others[0]
    ranges = {each.var: each.extent for each in compute.axes}
    return other.axes == compute.axes and Agreement(ranges)(
        map_expr(compute.value, shorter), other.value
    )


def groups(call: Call) -> Groups | None:
    """The axis that a sum of products reads group by group, if there is one."""
    computes = composed(call)
    if computes is None or not is_layer(call):
        return None
    axes = {axis.var: n for n, axis in enumerate(computes[0].axes)}
    reads = [(int(load.buffer.removeprefix("in")), load.index) for load in loads(computes[0].value)]
    for position, where in reads:
        for axis, each in enumerate(where):
            channel, within = _grouped(each, axes)
            if not channel:
                continue
            per_group = 1 if not within else _extent(computes[0].value, within)

            def at(wanted: Expr) -> tuple[Site, ...]:
                return tuple(
                    (p, a) for p, index in reads for a, e in enumerate(index) if e == wanted
                )

            outside = at(Var(channel))
            # What slides a window does not tell outputs apart in any other input.
            if not outside and Binary not in map(type, affine(each).terms):
                continue
            extent = computes[0].axes[axes[channel]].extent
            count = closed(call).type(position).dims[axis] // per_group
            found = Groups(
                at(each), at(Var(within)) if within else (), axes[channel], outside, count
            )
            return found if _is_repeated(call, found, extent // count) else None
    return None


def _is_repeated(call: Call, found: Groups, size: int) -> bool:
    """Whether the op on all groups but one is the op on fewer groups."""
    whole = size * found.count
    for span in (AxisSpan(0, whole - size), AxisSpan(size, whole)):
        try:
            part_of(closed(call), {found.output: span})
        except UserError:
            return False
    return found.count > 1


def _grouped(expr: Expr, outputs: Collection[str]) -> tuple[str, str]:
    """The variables of ``channel // several * size + place``; empty ones are not there."""
    terms = affine(expr).terms
    channel = within = ""
    for atom, factor in terms.items():
        match atom:
            case Binary("floordiv", Var(name), Const()) if name in outputs:
                channel = name
            case Var(name) if name in outputs and len(terms) > 1 and factor > 1:
                channel = name
            case Var(name) if name not in outputs and factor == 1:
                within = name
            case _:
                return "", ""
    return (channel, within) if len(terms) == bool(channel) + bool(within) else ("", "")


def _extent(value: Expr, variable: str) -> int:
    axes = (axis for node in walk(value) if isinstance(node, Reduce) for axis in node.axes)
    return next(axis.extent for axis in axes if axis.var == variable)
