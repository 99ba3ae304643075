"""Which accesses of an expression cannot be proven to stay inside their buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeGuard

from weft.loops.intervals import Interval
from weft.loops.nodes import Binary, Buffer, Const, Expr, Load, Operation, Reduce, Select, Var
from weft.loops.ranges import Facts
from weft.loops.walk import children, dtype_of, walk


class Unproven(NamedTuple):
    """An access that might leave its buffer, and what was known there."""

    buffer: str
    position: tuple[Expr, ...]
    dimension: int
    interval: Interval
    facts: Facts


def outside(buffer: Buffer, position: Sequence[Expr], facts: Facts) -> tuple[int, Interval] | None:
    """The first dimension whose index is not proven to be in range, and its interval."""
    if facts.impossible:
        return None
    for dimension, (where, extent) in enumerate(zip(position, buffer.shape, strict=True)):
        low, high = facts.range(where)
        if low < 0 or high >= extent:
            return dimension, (low, high)
    return None


def unproven(expr: Expr, facts: Facts, buffers: Mapping[str, Buffer]) -> Unproven | None:
    """The first load in an expression that might leave its buffer."""
    if facts.impossible or id(expr) in facts.checked:
        return None
    facts.checked[id(expr)] = expr
    match expr:
        case Const() | Var():
            return None
        case Select(condition, then, otherwise):
            return (
                unproven(condition, facts, buffers)
                or unproven(then, facts.assume(condition), buffers)
                or unproven(otherwise, facts.assume(condition, False), buffers)
            )
        case Reduce(_, axes, value):
            inner = facts.bind({axis.var: (0, axis.extent - 1) for axis in axes})
            return unproven(value, inner, buffers)
        case Load(name, position, _):
            found = outside(buffers[name], position, facts)
            if found is not None:
                return Unproven(name, position, *found, facts)
            return _first(position, facts, buffers)
        case Operation():
            return _first(children(expr), facts, buffers)


def _first(parts: Sequence[Expr], facts: Facts, buffers: Mapping[str, Buffer]) -> Unproven | None:
    for part in parts:
        found = unproven(part, facts, buffers)
        if found is not None:
            return found
    return None


def divides_safely(expr: Expr, facts: Facts) -> bool:
    """Whether no integer division in the expression can have a zero divisor."""
    extents: dict[str, int] = {}
    for node in walk(expr):
        if isinstance(node, Reduce):
            for axis in node.axes:
                extents[axis.var] = max(axis.extent, extents.get(axis.var, 0))
    inner = facts.bind({var: (0, extent - 1) for var, extent in extents.items()})
    return all(_nonzero(node.rhs, inner) for node in walk(expr) if _divides(node))


def _divides(node: Expr) -> TypeGuard[Binary]:
    return isinstance(node, Binary) and node.op in _DIVISIONS and dtype_of(node.rhs).is_integer


def _nonzero(divisor: Expr, facts: Facts) -> bool:
    low, high = facts.range(divisor)
    return low > 0 or high < 0


_DIVISIONS = frozenset({"div", "floordiv", "mod", "fmod"})
