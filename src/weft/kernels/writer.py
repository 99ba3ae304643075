"""What all generators write loops with: index arithmetic, loops, locals, vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from weft.dtypes import DType
from weft.kernels.tiling import LaneBlock
from weft.loops.nodes import (
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    Local,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.statements import substitute_stmts

LANE = "lane"
CHUNK = "chunk"
CHEAP, COSTLY = 4, 2
"""Vectors in flight, by what an element takes: they hide the time of an addition."""


def integer(value: int) -> Const:
    """An ``i64`` literal."""
    return Const(value, DType.I64)


def plus(lhs: Expr, rhs: Expr | int) -> Expr:
    """``lhs + rhs``, leaving out zeros."""
    rhs = integer(rhs) if isinstance(rhs, int) else rhs
    if rhs == integer(0):
        return lhs
    if lhs == integer(0):
        return rhs
    return Binary("add", lhs, rhs)


def times(lhs: Expr, factor: int) -> Expr:
    """``lhs * factor``, leaving out ones."""
    if isinstance(lhs, Const):
        return integer(int(lhs.value) * factor)
    return lhs if factor == 1 else Binary("mul", lhs, integer(factor))


def for_range(
    var: str, count: int, body: tuple[Stmt, ...], kind: LoopKind = LoopKind.SERIAL
) -> For:
    """``for var in range(count)``."""
    return For(var, integer(0), integer(count), body, kind)


def nested(
    axes: Sequence[Axis], body: tuple[Stmt, ...], kind: LoopKind = LoopKind.SERIAL
) -> tuple[Stmt, ...]:
    """Loops over axes, the first outermost."""
    for axis in reversed(axes):
        body = (for_range(axis.var, axis.extent, body, kind),)
    return body


def with_locals(buffers: Sequence[Buffer], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements that may use local buffers."""
    for buffer in reversed(buffers):
        body = (Local(buffer, body),)
    return body


def for_lanes(width: int, store: Stmt) -> For:
    """A store for all lanes of a vector, one lane included."""
    return for_range(LANE, width, (store,), LoopKind.VECTOR)


def vector(width: int, store: Store) -> Stmt:
    """A store for as many lanes."""
    if width == 1:
        return substitute_stmts((store,), {LANE: integer(0)})[0]
    return for_lanes(width, store)


def block_origin(block: LaneBlock, var: str) -> Expr:
    """The first lane of a block; of several, of the one that a variable counts."""
    return plus(times(Var(var), block.width) if block.count > 1 else integer(0), block.start)


def spans(
    blocks: Sequence[LaneBlock],
    write: Callable[[int, int, Expr], Sequence[Stmt]],
    kind: LoopKind = LoopKind.SERIAL,
    var: str = CHUNK,
) -> Iterator[Stmt]:
    """What ``write(piece, width, first)`` gives for every vector of an axis, in loops."""
    for block in blocks:
        first = block_origin(block, var)
        found: list[Stmt] = []
        for piece, width in enumerate(block.widths):
            found += write(piece, width, first)
            first = plus(first, width)
        if block.count > 1:
            yield for_range(var, block.count, tuple(found), kind)
        else:
            yield from found
