"""Walking and rewriting expressions and statements.

Expressions are trees on paper and often graphs in memory: fusion makes one operand the
child of many.  So every walk here remembers the nodes that it has seen, by identity, and
costs the number of distinct nodes, not the number of paths to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, is_
from typing import Any, assert_never, cast

from weft.dtypes import DType
from weft.loops.nodes import (
    COMPARISONS,
    Axis,
    Binary,
    Buffer,
    Const,
    Conversion,
    Expr,
    For,
    If,
    Instruct,
    Load,
    Local,
    Prefetch,
    Reduce,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)

_BOOL_UNARY = frozenset({"isnan", "isinf"})
NOTHING: frozenset[str] = frozenset()


def index(value: int) -> Const:
    """An ``i64`` literal."""
    return Const(value, DType.I64)


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
            case Binary(op, lhs, _):
                if op in COMPARISONS:
                    return DType.BOOL
                expr = lhs
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
    match expr:
        case Const() | Var():
            return expr
        case Load(buffer, _, dtype):
            return Load(buffer, operands, dtype)
        case Unary(op, _):
            return Unary(op, operands[0])
        case Conversion():
            return type(expr)(expr.dtype, operands[0])
        case Binary(op, _, _):
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
    """Every distinct load of expressions."""
    return (node for node in walk(*exprs) if type(node) is Load)


def reduces(expr: Expr) -> bool:
    """Whether there is a reduction in an expression."""
    return any(isinstance(node, Reduce) for node in walk(expr))


def free_vars(expr: Expr) -> frozenset[str]:
    """Names of the variables that are not bound by a ``Reduce`` inside."""
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


# --- statements ---------------------------------------------------------------------------


def map_stmts(stmts: Sequence[Stmt], function: Callable[[Expr], Expr]) -> tuple[Stmt, ...]:
    """Applies a function to every whole expression of the statements."""
    return tuple([_map_stmt(stmt, function) for stmt in stmts])


def _map_stmt(stmt: Stmt, function: Callable[[Expr], Expr]) -> Stmt:
    match stmt:
        case For(var, start, stop, body, kind):
            return For(var, function(start), function(stop), map_stmts(body, function), kind)
        case Store(buffer, position, value):
            return Store(buffer, tuple(map(function, position)), function(value))
        case If(condition, then, otherwise):
            inner = map_stmts(then, function), map_stmts(otherwise, function)
            return If(function(condition), *inner)
        case Local(buffer, body):
            return Local(buffer, map_stmts(body, function))
        case Prefetch(buffer, position):
            return Prefetch(buffer, tuple(map(function, position)))
        case Instruct(name, operands):
            return Instruct(name, cast(tuple[Load, ...], tuple(map(function, operands))))
        case _:
            assert_never(stmt)


def substitute_stmts(stmts: Sequence[Stmt], values: Mapping[str, Expr]) -> tuple[Stmt, ...]:
    """Puts expressions for loop variables that are bound outside the statements."""
    return map_stmts(stmts, lambda expr: substitute(expr, values)) if values else tuple(stmts)


def blocks(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks inside a statement."""
    match stmt:
        case For(body=body) | Local(body=body):
            return (body,)
        case If(_, then, otherwise):
            return (then, otherwise)
        case Store() | Prefetch() | Instruct():
            return ()
        case _:
            assert_never(stmt)


def with_blocks(stmt: Stmt, new: Sequence[tuple[Stmt, ...]]) -> Stmt:
    """The same statement around other blocks."""
    match stmt:
        case For(var, start, stop, _, kind):
            return For(var, start, stop, new[0], kind)
        case Local(buffer, _):
            return Local(buffer, new[0])
        case If(condition, _, _):
            return If(condition, new[0], new[1])
        case _:
            return stmt


def walk_stmts(stmts: Sequence[Stmt]) -> Iterator[Stmt]:
    """Every statement, in text order."""
    # Not recursive: every walk resumes it for every statement.
    stack = [*stmts[::-1]]
    while stack:
        stmt = stack.pop()
        yield stmt
        for block in blocks(stmt)[::-1]:
            stack += block[::-1]


def own_exprs(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions of a statement itself, not of those inside it."""
    match stmt:
        case For(_, start, stop, _, _):
            return (start, stop)
        case Store(_, position, value):
            return (*position, value)
        case Prefetch(_, position):
            return position
        case Instruct(_, operands):
            return operands
        case If(condition, _, _):
            return (condition,)
        case Local():
            return ()
        case _:
            assert_never(stmt)


def all_exprs(stmts: Sequence[Stmt]) -> Iterator[Expr]:
    """The expressions of statements and of all inside them."""
    return (expr for stmt in walk_stmts(stmts) for expr in own_exprs(stmt))


def stored(stmts: Sequence[Stmt]) -> frozenset[str]:
    """Names of the buffers that are stored to."""
    found = (stmt for stmt in walk_stmts(stmts) if isinstance(stmt, Store | Instruct))
    return frozenset((s if isinstance(s, Store) else s.operands[0]).buffer for s in found)


def loaded(stmts: Sequence[Stmt]) -> frozenset[str]:
    """Names of the buffers that are loaded from."""
    return frozenset(load.buffer for load in loads(*all_exprs(stmts)))


def declared_in(stmts: Sequence[Stmt]) -> frozenset[str]:
    """The loop variables and locals of statements: in a kernel all names but its parameters."""
    found: set[str] = set()
    for stmt in walk_stmts(stmts):
        if isinstance(stmt, For):
            found.add(stmt.var)
        elif isinstance(stmt, Local):
            found.add(stmt.buffer.name)
    return frozenset(found)


def names_in(stmts: Sequence[Stmt]) -> frozenset[str]:
    """Every loop variable and buffer that is named in the statements."""
    found: set[str] = set()
    for stmt in walk_stmts(stmts):
        match stmt:
            case For(var=name) | Local(buffer=Buffer(name=name)) | Store(name) | Prefetch(name):
                found.add(name)
            case _:
                pass
    for node in walk(*all_exprs(stmts)):
        if isinstance(node, Var):
            found.add(node.name)
        elif isinstance(node, Load):
            found.add(node.buffer)
    return frozenset(found)


def rename_buffers(stmts: Sequence[Stmt], names: Mapping[str, str]) -> tuple[Stmt, ...]:
    """Other names for buffers, wherever they are loaded, stored or declared."""
    if all(old == new for old, new in names.items()):
        return tuple(stmts)
    renamed = tuple([_rename_stored(stmt, names) for stmt in stmts])
    return map_stmts(renamed, _renaming(names))


def _rename_stored(stmt: Stmt, names: Mapping[str, str]) -> Stmt:
    """Other names for the buffers that are stored, prefetched or declared."""
    inner = [tuple([_rename_stored(each, names) for each in block]) for block in blocks(stmt)]
    match with_blocks(stmt, inner):
        case Store(buffer, position, value):
            return Store(names.get(buffer, buffer), position, value)
        case Prefetch(buffer, position):
            return Prefetch(names.get(buffer, buffer), position)
        case Local(buffer, body):
            return Local(replace(buffer, name=names.get(buffer.name, buffer.name)), body)
        case other:
            return other


def rename_loads(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Other names for buffers in an expression."""
    return _renaming(names)(expr)


def _renaming(names: Mapping[str, str]) -> Callable[[Expr], Expr]:
    def rename(node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in names:
            return Load(names[node.buffer], node.index, node.dtype)
        return node

    return mapper(rename)
