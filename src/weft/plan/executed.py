"""How much arithmetic a kernel really does, for profiles.

It is less than what the nodes ask for where an algorithm saves some (Winograd) or borders are
skipped, and more where a kernel repeats or pads.  The control flow of the loops is followed
with their variables' values; what does not depend on them is counted once and multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.loops.instruction import plain
from weft.loops.nodes import (
    Binary,
    Cast,
    Const,
    Conversion,
    Expr,
    For,
    If,
    Kernel,
    Local,
    Operation,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.walk import children, free_vars, loads

_MOST_VISITS = 100_000
_BINARY: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": lambda a, b: min(a, b),
    "max": lambda a, b: max(a, b),
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}


class _Unknown(Exception):
    """Control flow depends on data, or is too long to follow."""


def _value(expr: Expr, around: Mapping[str, int]) -> int:
    """An index or a condition."""
    match expr:
        case Const(value):
            return int(value)
        case Var(name):
            return around[name]
        case Binary(op, lhs, rhs) if op in _BINARY:
            return int(_BINARY[op](_value(lhs, around), _value(rhs, around)))
        case Unary("not", x):
            return int(not _value(x, around))
        case Unary("neg", x):
            return -_value(x, around)
        case Select(condition, then, otherwise):
            return _value(then if _value(condition, around) else otherwise, around)
        case Cast(_, x):
            return _value(x, around)
        case _:
            raise _Unknown


class _Count:
    """Counts of statements and expressions, each once for the values that steer it."""

    def __init__(self) -> None:
        self.counts: dict[tuple[int, tuple[int, ...]], int] = {}
        self.steering: dict[int, frozenset[str]] = {}

    # --- what control flow depends on ---------------------------------------------------------

    def steers(self, node: Stmt | Expr) -> frozenset[str]:
        """Variables from outside on which the control flow in a node depends."""
        found = self.steering.get(id(node))
        if found is None:
            found = self.steering[id(node)] = self._steers(node)
        return found

    def _steers(self, node: Stmt | Expr) -> frozenset[str]:
        match node:
            case For(var, start, stop, body):
                inside = self._all(body) - {var}
                return inside | free_vars(start) | free_vars(stop)
            case If(condition, then, otherwise):
                return self._all(then) | self._all(otherwise) | _steering(condition)
            case Local(_, body):
                return self._all(body)
            case Store(_, _, value):
                return self.steers(value)
            case Select(condition, then, otherwise):
                return _steering(condition) | self._all((condition, then, otherwise))
            case Operation():
                return self._all(children(node))
            case _:
                return frozenset()

    def _all(self, nodes: Sequence[Stmt | Expr]) -> frozenset[str]:
        return frozenset[str]().union(*map(self.steers, nodes))

    # --- counting -----------------------------------------------------------------------------

    def block(self, stmts: Sequence[Stmt], around: Mapping[str, int]) -> int:
        return sum(self.count(stmt, around) for stmt in stmts)

    def count(self, node: Stmt | Expr, around: Mapping[str, int]) -> int:
        """Operations of a node where the variables around have some values."""
        key = (id(node), tuple(around[name] for name in sorted(self.steers(node))))
        found = self.counts.get(key)
        if found is None:
            if len(self.counts) > _MOST_VISITS:
                raise _Unknown
            found = self.counts[key] = self._count(node, around)
        return found

    def _count(self, node: Stmt | Expr, around: Mapping[str, int]) -> int:
        match node:
            case For():
                return self.loop(node, around)
            case If(condition, then, otherwise):
                return self.block(then if _taken(condition, around) else otherwise, around)
            case Local(_, body):
                return self.block(body, around)
            case Store(_, _, value):
                return self.count(value, around)
            case Select(condition, then, otherwise):
                chosen = then if _taken(condition, around) else otherwise
                data = self.count(condition, around) if any(loads(condition)) else 0
                return data + self.count(chosen, around)
            case Operation():
                own = 0 if isinstance(node, Conversion) else 1
                return own + sum(self.count(each, around) for each in children(node))
            case _:
                return 0

    def loop(self, loop: For, around: Mapping[str, int]) -> int:
        first, last = _value(loop.start, around), _value(loop.stop, around)
        if last <= first:
            return 0
        if loop.var not in self._all(loop.body):
            return (last - first) * self.block(loop.body, {**around, loop.var: first})
        return sum(
            self.block(loop.body, {**around, loop.var: value}) for value in range(first, last)
        )


def _steering(condition: Expr) -> frozenset[str]:
    """Variables that decide a condition; none if data do."""
    return frozenset() if any(loads(condition)) else free_vars(condition)


def _taken(condition: Expr, around: Mapping[str, int]) -> bool:
    """Whether a condition holds; data are taken to let it."""
    return True if any(loads(condition)) else bool(_value(condition, around))


def executed(kernel: Kernel) -> int | None:
    """Arithmetic operations on elements, two for a multiply-add; indices do not count.

    Returns:
        How many; ``None`` if they depend on data, or would take long to count.
    """
    try:
        return _Count().block(plain(kernel.body), {})
    except _Unknown:
        return None
