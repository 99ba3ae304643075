"""Loops written out: kernels with fewer loops, or without any but those of vectors.

Bounds, guards and addresses become constants where their loops are gone, and what never runs
disappears.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops.nodes import Const, For, If, Kernel, LoopKind, Stmt, Store
from weft.loops.ranges import Facts
from weft.loops.schedule import copied, names_of
from weft.loops.simplify import simplify_stmts
from weft.loops.statements import blocks, substitute_stmts, with_blocks
from weft.loops.walk import FreshNames, index


class TooLong(Exception):
    """What would be written out has more statements than are allowed."""


def straight(kernel: Kernel, most: int | None, limit: int) -> Kernel:
    """A kernel with loops of up to ``most`` iterations written out, the innermost first.

    Loops of vectors stay, as do those that are written out in the generated text anyway.

    Args:
        kernel: what to write out.
        most: iterations; ``None`` for any number.
        limit: of stores that there may be in the end. A loop that would lead to more stays.

    Raises:
        TooLong: ``most`` is none, and a loop would lead to more.
    """
    writer = _Writer(names_of(kernel), most, limit)
    return kernel.with_body(writer.block(simplify_stmts(kernel.body, Facts())))


def stores(stmts: Sequence[Stmt]) -> int:
    """How many stores are written: those of loops that are written out in the text, repeated."""
    total = 0
    for stmt in stmts:
        if isinstance(stmt, Store):
            total += 1
            continue
        times = max(0, _extent(stmt) or 0) if _in_text(stmt) else 1
        total += times * sum(stores(inner) for inner in blocks(stmt))
    return total


def _in_text(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is LoopKind.UNROLL and _extent(stmt) is not None


def _extent(stmt: Stmt) -> int | None:
    match stmt:
        case For(_, Const(start), Const(stop)):
            return int(stop) - int(start)
        case _:
            return None


class _Writer:
    def __init__(self, names: FreshNames, most: int | None, limit: int) -> None:
        self.names, self.most, self.limit = names, most, limit

    def block(self, stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(new for stmt in stmts for new in self.statement(stmt))

    def statement(self, stmt: Stmt) -> tuple[Stmt, ...]:
        kept = isinstance(stmt, For) and (stmt.kind is LoopKind.VECTOR or _in_text(stmt))
        if kept:
            return (stmt,)
        if isinstance(stmt, If):
            return (If(stmt.condition, self.block(stmt.then), self.block(stmt.otherwise)),)
        if not isinstance(stmt, For):
            return (with_blocks(stmt, [self.block(inner) for inner in blocks(stmt)]),)
        extent = _extent(stmt)
        if extent is not None and (self.most is None or extent <= self.most):
            found = self.written(stmt, extent)
            if found is not None:
                return found
        return (replace(stmt, body=self.block(stmt.body)),)

    def written(self, loop: For, extent: int) -> tuple[Stmt, ...] | None:
        """The iterations one after another; nothing if they are too long."""
        assert isinstance(loop.start, Const)
        found: list[Stmt] = []
        total = 0
        for step in range(extent):
            at = index(int(loop.start.value) + step)
            body = substitute_stmts(copied(loop.body, self.names), {loop.var: at})
            body = self.block(simplify_stmts(body, Facts()))
            total += stores(body)
            if total > self.limit:
                if self.most is None:
                    raise TooLong
                return None
            found += body
        return tuple(found)
