"""How long a kernel takes, roughly, and how it is cut into parts for threads.

Only the loops at the top of a kernel are cut: a nest of ``parallel`` loops, perfectly nested
and with constant bounds, is one flat range.  Statements beside them are the first part's.
There is no barrier inside a kernel, so no statement at the top may read what another writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    Prefetch,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.walk import children, loads, own_exprs, stored, walk_stmts

PART_WORK = 10_000
"""Cycles, about 2 microseconds, that a part must take at the least.

A fork and join among threads that spin costs a fifth of a microsecond, and the data must move
between their caches."""

_CYCLES = {
    "add": 0.4, "sub": 0.4, "mul": 0.4, "min": 0.4, "max": 0.4, "neg": 0.4, "abs": 0.4,
    "div": 4.0, "sqrt": 4.0, "mod": 8.0, "floordiv": 8.0, "fmod": 20.0, "pow": 40.0,
    "exp": 15.0, "log": 15.0, "erf": 20.0, "sin": 20.0, "cos": 20.0, "tan": 30.0,
    "asin": 20.0, "acos": 20.0, "atan": 20.0, "sinh": 25.0, "cosh": 25.0, "tanh": 25.0,
    "asinh": 25.0, "acosh": 25.0, "atanh": 25.0,
}  # fmt: skip
_OTHER_CYCLES = 1.0
_MOVE_CYCLES = 0.2
# What one core gets from the cache that the data of a whole layer come from.
_BYTES_PER_CYCLE = 8
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
    clock = _Clock()
    clock.block(stmts, 1.0, 1.0, around or {})
    return clock.cycles


@dataclass
class _Clock:
    """Adds up what statements do.

    Attributes:
        cycles: that arithmetic and moves between registers and the first cache take.
        touched: elements that are loaded from each buffer, repetitions included.
        locals: buffers that live in registers.
    """

    cycles: float = 0.0
    touched: dict[str, float] = field(default_factory=dict[str, float])
    locals: set[str] = field(default_factory=set[str])

    def block(
        self, stmts: Sequence[Stmt], times: float, lanes: float, around: Mapping[str, float]
    ) -> None:
        """Statements that run so often, each time for so many lanes."""
        for stmt in stmts:
            match stmt:
                case For(var, start, stop, body, kind):
                    first, last = _middle(start, around), _middle(stop, around)
                    trips = max(0.0, last - first)
                    inner = {**around, var: (first + last - 1) / 2}
                    if kind is Kind.VECTOR:
                        self.block(body, times * min(trips, 1.0), lanes * trips, inner)
                    else:
                        self.block(body, times * trips, lanes, inner)
                case If(condition, then, otherwise):
                    self.value(condition, times, lanes)
                    # Guards hold nearly always.
                    self.block(then or otherwise, times, lanes, around)
                case Local(buffer, body):
                    self.locals.add(buffer.name)
                    self.block(body, times, lanes, around)
                case Store(buffer, _, value):
                    self.value(value, times, lanes)
                    self.cycles += 0.0 if buffer in self.locals else times * _MOVE_CYCLES
                case Prefetch():
                    self.cycles += times * _MOVE_CYCLES
                case _:
                    assert_never(stmt)

    def value(self, expr: Expr, times: float, lanes: float) -> None:
        """An expression that is computed so often."""
        total = 0.0
        stack, seen = [expr], set[int]()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            match node:
                case Load(buffer, index):
                    # Positions are cheap, unless they are data themselves.
                    stack += [load for place in index for load in loads(place)]
                    if buffer not in self.locals:
                        total += _MOVE_CYCLES
                        self.touched[buffer] = self.touched.get(buffer, 0.0) + times * lanes
                case Binary("add" | "sub", lhs, Binary("mul", x, y)):
                    total += _CYCLES["add"]
                    stack += lhs, x, y
                case Binary(op) | Unary(op):
                    total += _CYCLES.get(op, _OTHER_CYCLES)
                    stack += children(node)
                case Select() | Cast():
                    total += _OTHER_CYCLES
                    stack += children(node)
                case _:
                    pass
        self.cycles += times * total

    def bytes(self, kernel: Kernel) -> float:
        """What comes and goes, every element of a parameter once at the most."""
        total = 0.0
        for buffer in kernel.params:
            size = float(prod(buffer.shape))
            if buffer.access is Access.READ:
                size = min(size, self.touched.get(buffer.name, 0.0))
            if buffer.access is not Access.SCRATCH:
                total += size * buffer.dtype.bytes
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
    clock = _Clock()
    clock.block(kernel.body, 1.0, 1.0, {})
    return round(max(clock.cycles, clock.bytes(kernel) / _BYTES_PER_CYCLE))


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
