"""Walking and rewriting statements, and the names in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never, cast

from weft.loops.nodes import (
    Buffer,
    Expr,
    For,
    If,
    Instruct,
    Load,
    Local,
    Prefetch,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import loads, renaming, substitute, walk


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
    return map_stmts(renamed, renaming(names))


def _rename_stored(stmt: Stmt, names: Mapping[str, str]) -> Stmt:
    """Other names for the buffers that are stored, prefetched or declared."""
    if isinstance(stmt, Store):  # most are
        return Store(names.get(stmt.buffer, stmt.buffer), stmt.index, stmt.value)
    inner = [tuple([_rename_stored(each, names) for each in block]) for block in blocks(stmt)]
    match with_blocks(stmt, inner):
        case Prefetch(buffer, position):
            return Prefetch(names.get(buffer, buffer), position)
        case Local(buffer, body):
            return Local(replace(buffer, name=names.get(buffer.name, buffer.name)), body)
        case other:
            return other
