"""Walking and rewriting expressions.

Expressions are trees on paper and often graphs in memory: fusion makes one operand the
child of many.  So every walk here remembers the nodes that it has seen, by identity, and
costs the number of distinct nodes, not the number of paths to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter, is_
from typing import Any, assert_never, cast

from weft.dtypes import DType
from weft.loops.nodes import (
    COMPARISONS,
    Axis,
    Binary,
    Const,
    Conversion,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    Var,
)

_BOOL_UNARY = frozenset({"isnan", "isinf"})
NOTHING: frozenset[str] = frozenset()


def index(value: int) -> Const:
    """An ``i64`` literal."""
    return Const(value, DType.I64)


_TYPED = frozenset({Const, Load, Var})


def dtype_of(expr: Expr) -> DType:
    """The type of an expression that is well typed (see ``weft.loops.verify``)."""
    while True:
        match expr:
            case Const() | Load() | Conversion():
                return expr.dtype
            case Var():
                return DType.I64
            case Unary(op, inner):
                if op in _BOOL_UNARY:
                    return DType.BOOL
                expr = inner
            case Binary(op, lhs, rhs):
                if op in COMPARISONS:
                    return DType.BOOL
                # Sums of many are deep on one side: the other one tells at once.
                expr = rhs if type(rhs) in _TYPED else lhs
            case Select(_, then, _):
                expr = then
            case Reduce(_, _, value):
                expr = value
            case _:
                assert_never(expr)


class _Operands(dict[type, Callable[[Any], tuple[Expr, ...]]]):
    """What gives the operands of each class of node; conversions have one, called ``x``."""

    def __missing__(self, kind: type) -> Callable[[Any], tuple[Expr, ...]]:
        assert issubclass(kind, Conversion), kind
        return self.setdefault(kind, lambda node: (node.x,))


_OPERANDS = _Operands({
    Const: lambda _: (),
    Var: lambda _: (),
    Load: attrgetter("index"),
    Unary: lambda node: (node.x,),
    Binary: attrgetter("lhs", "rhs"),
    Select: attrgetter("condition", "then", "otherwise"),
    Reduce: lambda node: (node.value,),
})  # fmt: skip


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands, in order of evaluation."""
    # A table: every walk calls this for every node.
    return _OPERANDS[type(expr)](expr)


def with_children(expr: Expr, operands: tuple[Expr, ...]) -> Expr:
    """The same operation on other operands; the same object when nothing changed."""
    if all(map(is_, operands, children(expr))):
        return expr
    if type(expr) is Binary:  # most are
        return Binary(expr.op, operands[0], operands[1])
    match expr:
        case Const() | Var():
            return expr
        case Load(buffer, _, dtype):
            return Load(buffer, operands, dtype)
        case Unary(op, _):
            return Unary(op, operands[0])
        case Conversion():
            return type(expr)(expr.dtype, operands[0])
        case Binary(op):
            return Binary(op, operands[0], operands[1])
        case Select():
            return Select(operands[0], operands[1], operands[2])
        case Reduce(op, axes, _):
            return Reduce(op, axes, operands[0])
        case _:
            assert_never(expr)


def map_expr(expr: Expr, function: Callable[[Expr], Expr]) -> Expr:
    """Rebuilds bottom-up: ``function`` gets every node after its operands were mapped."""
    return mapper(function)(expr)


def mapper(function: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """``map_expr`` that remembers, for expressions with common parts.

    The expressions given must outlive it: it remembers by identity.
    """
    return _Mapper(function)


class _Mapper:
    # Here and below: a function that calls itself inside of another one would be a cycle of
    # references, which holds all that it remembers until a collection.

    def __init__(self, function: Callable[[Expr], Expr]) -> None:
        self._function = function
        self._seen: dict[int, Expr] = {}

    def __call__(self, node: Expr) -> Expr:
        done = self._seen.get(id(node))
        if done is None:
            operands = _OPERANDS[type(node)](node)
            rebuilt = with_children(node, tuple(map(self, operands))) if operands else node
            done = self._seen[id(node)] = self._function(rebuilt)
        return done


def walk(*exprs: Expr) -> Iterator[Expr]:
    """Every distinct node of expressions once, parents before operands."""
    seen: set[int] = set()
    stack = [*exprs[::-1]]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack += _OPERANDS[type(node)](node)[::-1]


def loads(*exprs: Expr) -> Iterator[Load]:
    """Every distinct load of expressions, in the order of ``walk``."""
    # Not with it: most expressions are asked this several times.
    seen: set[int] = set()
    stack = [*exprs[::-1]]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is Const or kind is Var or id(node) in seen:
            continue
        seen.add(id(node))
        if kind is Load:
            yield cast(Load, node)
        stack += _OPERANDS[kind](node)[::-1]


def reduces(expr: Expr) -> bool:
    """Whether there is a reduction in an expression."""
    return any(isinstance(node, Reduce) for node in walk(expr))


def free_vars(expr: Expr) -> frozenset[str]:
    """Names of the variables that are not bound by a ``Reduce`` inside."""
    match expr:
        case Const():
            return NOTHING
        case Var(name):
            return frozenset((name,))
        case _:
            return FreeVars()(expr)


class FreeVars:
    """``free_vars`` that remembers, for asking about many parts of one expression.

    The expressions asked about must outlive it: it remembers by identity.
    """

    def __init__(self) -> None:
        self._seen: dict[int, frozenset[str]] = {}

    def __call__(self, expr: Expr) -> frozenset[str]:
        """Names of the free variables."""
        found = self._seen.get(id(expr))
        if found is None:
            if isinstance(expr, Var):
                found = frozenset((expr.name,))
            else:
                found = NOTHING.union(*map(self, children(expr)))
                if isinstance(expr, Reduce):
                    found -= {axis.var for axis in expr.axes}
            self._seen[id(expr)] = found
        return found


def bound_vars(expr: Expr) -> frozenset[str]:
    """Names of the axes of every ``Reduce`` inside."""
    return frozenset(
        axis.var for node in walk(expr) if isinstance(node, Reduce) for axis in node.axes
    )


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Puts expressions for free variables.

    The axes of a ``Reduce`` inside must not be free in the values: rename first
    (``rename_axes``).
    """
    return _Substitution(values)(expr) if values else expr


class _Substitution:
    def __init__(self, values: Mapping[str, Expr]) -> None:
        self._values = values
        self._seen: dict[int, Expr] = {}

    def __call__(self, node: Expr) -> Expr:
        done = self._seen.get(id(node))
        if done is None:
            values = self._values
            if isinstance(node, Var):
                done = values.get(node.name, node)
            elif isinstance(node, Reduce) and any(axis.var in values for axis in node.axes):
                hidden = {axis.var for axis in node.axes}
                inner = {name: value for name, value in values.items() if name not in hidden}
                done = Reduce(node.op, node.axes, substitute(node.value, inner))
            else:
                operands = _OPERANDS[type(node)](node)
                done = with_children(node, tuple(map(self, operands))) if operands else node
            self._seen[id(node)] = done
        return done


def rename_axes(expr: Expr, fresh: Callable[[str], str]) -> Expr:
    """Renames the axes of every ``Reduce`` inside; ``fresh`` gives the new names."""

    def rename(node: Expr) -> Expr:
        if not isinstance(node, Reduce):
            return node
        names = {axis.var: fresh(axis.var) for axis in node.axes}
        axes = tuple(Axis(names[axis.var], axis.extent) for axis in node.axes)
        value = substitute(node.value, {old: Var(new) for old, new in names.items()})
        return Reduce(node.op, axes, value)

    return map_expr(expr, rename)


RESERVED = frozenset("for in if else local kernel and or xor true false inf nan".split())
"""Words of the text form, which no variable or buffer is called."""


class FreshNames:
    """Hands out identifiers that were not handed out before.

    Args:
        taken: names in use already.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*taken, *RESERVED}

    def __call__(self, wanted: str) -> str:
        """The name itself where it is free, else ``name_1``, ``name_2`` and so on."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name


def rename_loads(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Other names for buffers in an expression."""
    return renaming(names)(expr)


def renaming(names: Mapping[str, str]) -> Callable[[Expr], Expr]:
    """``rename_loads`` for several expressions, which must outlive it."""

    def rename(node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in names:
            return Load(names[node.buffer], node.index, node.dtype)
        return node

    return mapper(rename)
