"""How long a kernel takes, roughly, and how it is cut into parts for threads.

Only the loops at the top of a kernel are cut: a nest of ``parallel`` loops, perfectly nested
and with constant bounds, is one flat range.  Statements beside them are the first part's.
There is no barrier inside a kernel, so no statement at the top may read what another writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import assert_never

from weft.loops.affine import affine
from weft.loops.nodes import (
    Access,
    Binary,
    Cast,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Kind,
    Load,
    Local,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.walk import loads, own_exprs, stored, walk_stmts

PART_WORK = 10_000
"""Cycles, about 3 microseconds, that a part must take at the least.

A fork and join among threads that spin costs about a quarter of a microsecond, and the
data must move between their caches."""

_CYCLES = {
    "add": 0.5, "sub": 0.5, "mul": 0.5, "min": 0.5, "max": 0.5, "neg": 0.5, "abs": 0.5,
    "div": 4.0, "sqrt": 4.0, "mod": 8.0, "floordiv": 8.0, "fmod": 20.0, "pow": 40.0,
    "exp": 15.0, "log": 15.0, "erf": 20.0, "sin": 20.0, "cos": 20.0, "tan": 30.0,
    "asin": 20.0, "acos": 20.0, "atan": 20.0, "sinh": 25.0, "cosh": 25.0, "tanh": 25.0,
    "asinh": 25.0, "acosh": 25.0, "atanh": 25.0,
}  # fmt: skip
_OTHER_CYCLES = 1.0
_LOAD_CYCLES = 0.25
# What one core gets from the caches that the data of a whole layer come from.
_BYTES_PER_CYCLE = 16
# A range of fewer iterations is cut finer, whatever that costs: parts should be equal.
_FINE = 128
# So many cycles of an iteration hide the divisions that find its place in the range.
_COARSE = 400


@dataclass(frozen=True, slots=True)
class Range:
    """Perfectly nested parallel loops that are cut as one.

    Attributes:
        loops: outermost first.
        extents: of each.
        starts: first value of each variable.
    """

    loops: tuple[For, ...]
    extents: tuple[int, ...]
    starts: tuple[int, ...]

    @property
    def total(self) -> int:
        """Number of iterations."""
        return prod(self.extents)

    @property
    def body(self) -> tuple[Stmt, ...]:
        """What an iteration runs."""
        return self.loops[-1].body


def cycles(stmts: Sequence[Stmt], around: Mapping[str, float] | None = None) -> float:
    """About how many cycles statements take, their data in registers or the first cache.

    Args:
        stmts: what to run once.
        around: middles of the ranges of the loop variables around.
    """
    return sum(_stmt(stmt, around or {}) for stmt in stmts)


def _stmt(stmt: Stmt, around: Mapping[str, float]) -> float:
    match stmt:
        case For(var, start, stop, body, kind):
            first, last = _middle(start, around), _middle(stop, around)
            trips = max(0.0, last - first)
            if kind is Kind.VECTOR:
                trips = min(trips, 1.0)
            return trips * cycles(body, {**around, var: (first + last - 1) / 2})
        case If(condition, then, otherwise):
            branch = max(cycles(then, around), cycles(otherwise, around))
            return _value(condition) + branch
        case Local(_, body):
            return cycles(body, around)
        case Store(_, _, value):
            return _LOAD_CYCLES + _value(value)
        case _:
            assert_never(stmt)


def _value(expr: Expr) -> float:
    total = 0.0
    stack, seen = [expr], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        match node:
            case Load(index=index):
                # Positions are cheap, unless they are data themselves.
                total += _LOAD_CYCLES
                stack += [load for place in index for load in loads(place)]
            case Unary(op, x):
                total += _CYCLES.get(op, _OTHER_CYCLES)
                stack.append(x)
            case Binary(op, lhs, rhs):
                total += _CYCLES.get(op, _OTHER_CYCLES)
                stack += lhs, rhs
            case Select(condition, then, otherwise):
                total += _OTHER_CYCLES
                stack += condition, then, otherwise
            case Cast(_, x):
                total += _OTHER_CYCLES
                stack.append(x)
            case _:
                pass
    return total


def _middle(expr: Expr, around: Mapping[str, float]) -> float:
    """An index where each loop is in its middle; 1 for what is data."""
    match expr:
        case Const(value=value):
            return float(value)
        case Var(name):
            return around.get(name, 0.0)
        case Binary(op, lhs, rhs):
            left, right = _middle(lhs, around), _middle(rhs, around)
            return _binary(op, left, right)
        case Unary("neg", x):
            return -_middle(x, around)
        case Select(_, then, otherwise):
            return (_middle(then, around) + _middle(otherwise, around)) / 2
        case Cast(_, x):
            return _middle(x, around)
        case _:
            return 1.0


def _binary(op: str, left: float, right: float) -> float:
    match op:
        case "add":
            return left + right
        case "sub":
            return left - right
        case "mul":
            return left * right
        case "min":
            return min(left, right)
        case "max":
            return max(left, right)
        case "floordiv" | "div":
            return left / right if right else 1.0
        case "mod" | "fmod":
            return left % right if right else 1.0
        case _:
            return 1.0


def work_of(kernel: Kernel) -> int:
    """About how many cycles a kernel takes on one core, data in the shared cache."""
    moved = sum(prod(each.shape) * each.dtype.bytes for each in kernel.params)
    return round(max(cycles(kernel.body), moved / _BYTES_PER_CYCLE))


def parts_of(kernel: Kernel, threads: int) -> int:
    """Into how many parts a kernel is worth cutting for so many threads."""
    if threads < 2:
        return 1
    most = max((each.total for each in ranges_of(kernel).values()), default=1)
    return max(1, min(threads, most, work_of(kernel) // PART_WORK))


def ranges_of(kernel: Kernel) -> dict[int, Range]:
    """What may be cut, by place in the kernel's body."""
    if not _independent(kernel):
        return {}
    found = {place: _range(stmt) for place, stmt in enumerate(kernel.body)}
    return {place: each for place, each in found.items() if each is not None}


def _range(stmt: Stmt) -> Range | None:
    """The parallel loops from a statement on inwards that are worth taking as one."""
    taken: list[tuple[For, int, int]] = []
    total = 1
    around: dict[str, float] = {}
    while isinstance(stmt, For) and stmt.kind is Kind.PARALLEL:
        start, stop = affine(stmt.start), affine(stmt.stop)
        if start.terms or stop.terms or stop.const <= start.const:
            break
        around[stmt.var] = (start.const + stop.const - 1) / 2
        if taken and total >= _FINE and cycles(stmt.body, around) < _COARSE:
            break
        extent = stop.const - start.const
        total *= extent
        taken.append((stmt, extent, start.const))
        if len(stmt.body) != 1:
            break
        stmt = stmt.body[0]
    if not taken:
        return None
    loops, extents, starts = zip(*taken, strict=True)
    return Range(loops, extents, starts)


# --- whether statements at the top depend on one another -----------------------------------------


def _independent(kernel: Kernel) -> bool:
    """Whether no statement at the top reads what another one writes.

    What a statement reads exactly where it writes (in place) is its own: the places that
    statements write are disjoint.  Each part has scratch memory of its own, and what is in
    it is not kept from one statement at the top to another.
    """
    shared = {each.name for each in kernel.params if each.access is not Access.SCRATCH}
    written = [stored((stmt,)) & shared for stmt in kernel.body]
    for place, stmt in enumerate(kernel.body):
        others = frozenset[str]().union(*written[:place], *written[place + 1 :])
        if others and _reads_elsewhere(stmt) & others:
            return False
    return True


def _reads_elsewhere(stmt: Stmt) -> set[str]:
    """Buffers that a statement reads at other places than those that it writes."""
    inside = list(walk_stmts((stmt,)))
    own = {(each.buffer, each.index) for each in inside if isinstance(each, Store)}
    return {
        load.buffer
        for each in inside
        for expr in own_exprs(each)
        for load in loads(expr)
        if (load.buffer, load.index) not in own
    }
