"""Definitions: what an output is, point by point, before any loop is chosen.

``out[i, j] = max over k of x[i, j + k]`` is a ``Compute`` with axes ``i, j`` whose value
holds a ``Reduce`` over ``k``.  Definitions compose by substitution, which is fusion
(``substitute_load``); ``naive`` turns them into the unscheduled loops that every schedule
is checked against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.bounds import divides_safely, unproven
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Local,
    Reduce,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.ranges import Facts
from weft.loops.value_numbering import Numbering
from weft.loops.walk import (
    FreeVars,
    FreshNames,
    bound_vars,
    children,
    dtype_of,
    free_vars,
    index,
    loads,
    map_expr,
    rename_axes,
    substitute,
    with_children,
)
from weft.records import dataclass

COMBINE: dict[str, str] = {
    "sum": "add",
    "prod": "mul",
    "min": "min",
    "max": "max",
    "and": "and",
    "or": "or",
}
"""The binary operation that a reduction repeats."""


@dataclass(frozen=True, slots=True)
class Compute:
    """``buffer[axes] = value`` for every point of the axes' ranges.

    ``value`` reads other buffers through ``Load`` and the axes through ``Var``.
    Its dtype is the output's.
    """

    axes: tuple[Axis, ...]
    value: Expr


def neutral(op: str, dtype: DType) -> Const:
    """What a reduction starts from: ``neutral op x`` is ``x``."""
    match op:
        case "sum" | "or":
            value = 0
        case "prod":
            value = 1
        case "and":
            value = 1 if dtype is DType.BOOL else (-1 if dtype.is_signed else dtype.limits[1])
        case _:
            largest = op == "min"
            if dtype.is_float:
                value = float("inf") if largest else float("-inf")
            else:
                value = dtype.limits[1 if largest else 0]
    if dtype is DType.BOOL:
        return Const(bool(value), dtype)
    return Const(float(value) if dtype.is_float else value, dtype)


def substitute_load(compute: Compute, buffer: str, producer: Compute) -> Compute:
    """Fusion by inlining: every load of ``buffer`` becomes the producer's value there.

    The producer's reductions get axes that the consumer does not use, so nothing is
    captured.
    """
    inlined = producer.value
    axes = [axis.var for axis in producer.axes]
    used = {axis.var for axis in compute.axes} | bound_vars(compute.value)
    if used & bound_vars(inlined):
        taken = used | free_vars(compute.value) | set(axes) | bound_vars(inlined)
        inlined = rename_axes(inlined, FreshNames(frozenset(taken)))

    def inline(node: Expr) -> Expr:
        if not (isinstance(node, Load) and node.buffer == buffer):
            return node
        if node.dtype is not dtype_of(inlined) or len(node.index) != len(axes):
            raise InternalError(
                f"substitute_load: {buffer} is loaded as {node.dtype.value} with "
                f"{len(node.index)} indices, its definition gives {dtype_of(inlined).value} "
                f"with {len(axes)}"
            )
        return substitute(inlined, dict(zip(axes, node.index, strict=True)))

    return Compute(compute.axes, map_expr(compute.value, inline))


def naive(
    name: str, computes: Sequence[Compute], inputs: Sequence[Buffer], outputs: Sequence[Buffer]
) -> Kernel:
    """The unscheduled loops of definitions, one nest for each output in turn.

    A ``Reduce`` becomes a scalar accumulator and loops, placed outside all loops that it
    does not depend on; equal reductions share one.  Where a reduction stands under a
    ``Select`` and needs its condition to stay inside its buffers, it runs under that
    condition.  A later definition may read an earlier output.
    """
    buffers = {buffer.name: buffer for buffer in (*inputs, *outputs)}
    names = FreshNames(frozenset(buffers))
    body: list[Stmt] = []
    for compute, output in zip(computes, outputs, strict=True):
        body.extend(_Lowering(names, buffers).nest(compute, output.name))
    return Kernel(name, (*inputs, *outputs), tuple(body))


class _Guard(NamedTuple):
    """A condition that a ``Select`` on the way sets; ``since``: where an ``If`` holds it."""

    condition: Expr
    since: int | None


@dataclass
class _Level:
    """A loop that is being built, and the reductions that run at the top of its body."""

    axis: Axis | None
    reductions: list[tuple[Buffer, tuple[Stmt, ...]]] = field(
        default_factory=list[tuple[Buffer, tuple[Stmt, ...]]]
    )
    shared: dict[tuple[int, ...], Load] = field(default_factory=dict[tuple[int, ...], Load])

    def wrap(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The loop around a body."""
        for accumulator, compute in reversed(self.reductions):
            body = (Local(accumulator, (*compute, *body)),)
        if self.axis is None:
            return body
        return (For(self.axis.var, index(0), index(self.axis.extent), body),)


_Chain = tuple[_Level, ...]


class _Lowering:
    """Lowers one definition.

    A chain is the loops around the place that is being lowered; its first level is no
    loop but the top of the nest.
    """

    def __init__(self, names: FreshNames, buffers: Mapping[str, Buffer]) -> None:
        self._names = names
        self._buffers = buffers
        self._number = Numbering()
        self._homes: dict[str, int] = {}
        self._free = FreeVars()
        self._reducing: dict[int, bool] = {}
        # What is remembered by identity must stay alive.
        self._alive: list[Expr] = []

    def nest(self, compute: Compute, output: str) -> tuple[Stmt, ...]:
        """The loops that compute an output."""
        axes = self._fresh(compute.axes)
        value = self._renamed(compute.value, compute.axes, axes)
        chain = (_Level(None), *map(_Level, axes))
        stored = self._lower(value, chain, ())
        position = tuple(Var(axis.var) for axis in axes)
        return _wrap(chain, (Store(output, position, stored),))

    def _fresh(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(Axis(self._names(axis.var), axis.extent) for axis in axes)

    def _renamed(self, value: Expr, old: Sequence[Axis], new: Sequence[Axis]) -> Expr:
        names = {a.var: Var(b.var) for a, b in zip(old, new, strict=True) if a.var != b.var}
        renamed = substitute(value, names)
        self._alive.append(renamed)
        return renamed

    def _reduces(self, expr: Expr) -> bool:
        found = self._reducing.get(id(expr))
        if found is None:
            found = isinstance(expr, Reduce) or any(map(self._reduces, children(expr)))
            self._reducing[id(expr)] = found
        return found

    def _lower(self, expr: Expr, chain: _Chain, guards: tuple[_Guard, ...]) -> Expr:
        """The expression with a load of its accumulator for every reduction."""
        if not self._reduces(expr):
            return expr
        if isinstance(expr, Reduce):
            return self._reduction(expr, chain, guards)
        if isinstance(expr, Select):
            condition = self._lower(expr.condition, chain, guards)
            then = self._lower(expr.then, chain, (*guards, _Guard(condition, None)))
            opposite = _Guard(Unary("not", condition), None)
            otherwise = self._lower(expr.otherwise, chain, (*guards, opposite))
            self._alive.append(opposite.condition)
            return Select(condition, then, otherwise)
        parts = tuple(self._lower(each, chain, guards) for each in children(expr))
        lowered = with_children(expr, parts)
        self._alive.append(lowered)
        return lowered

    def _reduction(self, node: Reduce, chain: _Chain, guards: tuple[_Guard, ...]) -> Load:
        depth = self._depth((node,), chain)
        pending = [guard for guard in guards if guard.since is None or depth < guard.since]
        if pending and self._safe(node, chain):
            pending = []
        depth = self._depth((node, *(guard.condition for guard in pending)), chain)
        key = (self._number(node), *(self._number(guard.condition) for guard in pending))
        found = chain[depth].shared.get(key)
        if found is None:
            held = tuple(
                _Guard(guard.condition, depth + 1) if guard in pending else guard
                for guard in guards
            )
            found = self._accumulate(node, chain[: depth + 1], pending, held)
            chain[depth].shared[key] = found
        return found

    def _depth(self, parts: Sequence[Expr], chain: _Chain) -> int:
        """The outermost level where all that the parts read is there."""
        needed = frozenset[str]().union(*map(self._free, parts))
        homes = [
            self._homes[load.buffer]
            for part in parts
            for load in loads(part)
            if load.buffer in self._homes
        ]
        places = [
            place for place, level in enumerate(chain) if level.axis and level.axis.var in needed
        ]
        return max((*homes, *places), default=0)

    def _safe(self, node: Reduce, chain: _Chain) -> bool:
        """Whether the reduction may run where the conditions around it do not hold."""
        axes = [level.axis for level in chain if level.axis]
        facts = Facts().bind({axis.var: (0, axis.extent - 1) for axis in axes})
        known = all(load.buffer in self._buffers for load in loads(node))
        return (
            known and unproven(node, facts, self._buffers) is None and divides_safely(node, facts)
        )

    def _accumulate(
        self, node: Reduce, chain: _Chain, pending: list[_Guard], held: tuple[_Guard, ...]
    ) -> Load:
        """Adds the accumulator and its loops at the end of the chain."""
        axes = self._fresh(node.axes)
        inner = tuple(map(_Level, axes))
        value = self._lower(self._renamed(node.value, node.axes, axes), (*chain, *inner), held)
        dtype = dtype_of(node.value)
        accumulator = Buffer(self._names("acc"), dtype, (), Access.LOCAL)
        load = Load(accumulator.name, (), dtype)
        update = Store(accumulator.name, (), Binary(COMBINE[node.op], load, value))
        loops = _wrap(inner, (update,))
        for guard in reversed(pending):
            loops = (If(guard.condition, loops),)
        start = Store(accumulator.name, (), neutral(node.op, dtype))
        chain[-1].reductions.append((accumulator, (start, *loops)))
        self._homes[accumulator.name] = len(chain) - 1
        self._alive.append(load)
        return load


def _wrap(levels: Sequence[_Level], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    for level in reversed(levels):
        body = level.wrap(body)
    return body
