"""Locals that are never read are left out, with the loops that only computed them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from weft.loops.nodes import For, If, Local, Prefetch, Stmt, Store
from weft.loops.statements import blocks, own_exprs, walk_stmts, with_blocks
from weft.loops.walk import loads


def without_unread(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The statements without locals that only their own stores read.

    Such are sums behind which simplification found a constant, as of a clip from 127 to 127.
    """
    found = tuple(stmts)
    while unread := _declared(found) - frozenset(_read(found)):
        found = _without(found, unread)
    return found


def _declared(stmts: Sequence[Stmt]) -> frozenset[str]:
    return frozenset(each.buffer.name for each in walk_stmts(stmts) if isinstance(each, Local))


def _read(stmts: Sequence[Stmt]) -> Iterator[str]:
    """Buffers that more than stores to themselves read; those of instructions count as read."""
    for stmt in walk_stmts(stmts):
        if isinstance(stmt, Prefetch):
            yield stmt.buffer
        own = stmt.buffer if isinstance(stmt, Store) else ""
        for expr in own_exprs(stmt):
            yield from (each.buffer for each in loads(expr) if each.buffer != own)


def _without(stmts: Iterable[Stmt], unread: frozenset[str]) -> tuple[Stmt, ...]:
    return tuple(kept for each in stmts for kept in _kept(each, unread))


def _kept(stmt: Stmt, unread: frozenset[str]) -> tuple[Stmt, ...]:
    match stmt:
        case Store(buffer):
            return () if buffer in unread else (stmt,)
        case Local(buffer, body) if buffer.name in unread:
            return _without(body, unread)
        case For() | If() | Local():
            inner = [_without(each, unread) for each in blocks(stmt)]
            return (with_blocks(stmt, inner),) if any(inner) else ()
        case _:
            return (stmt,)
