"""Parts of loops that both kinds of row kernels are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from weft.kernels.arithmetic import integer, plus, times
from weft.kernels.tiling import Block
from weft.loops.nodes import Axis, Buffer, Expr, For, Kind, Local, Stmt, Store, Var
from weft.loops.walk import substitute_stmts

LANE = "lane"
CHUNK = "chunk"
CHEAP, COSTLY = 4, 2
"""Vectors in flight, by what an element takes: they hide the time of an addition."""


def nested(
    axes: Sequence[Axis], body: tuple[Stmt, ...], kind: Kind = Kind.SERIAL
) -> tuple[Stmt, ...]:
    """Loops over axes, the first outermost."""
    for axis in reversed(axes):
        body = (For(axis.var, integer(0), integer(axis.extent), body, kind),)
    return body


def with_locals(buffers: Sequence[Buffer], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements that may use local buffers."""
    for buffer in reversed(buffers):
        body = (Local(buffer, body),)
    return body


def vector(width: int, store: Store) -> Stmt:
    """A store for as many lanes."""
    if width == 1:
        return substitute_stmts((store,), {LANE: integer(0)})[0]
    return For(LANE, integer(0), integer(width), (store,), Kind.VECTOR)


def spans(
    blocks: Sequence[Block],
    write: Callable[[int, int, Expr], Sequence[Stmt]],
    kind: Kind = Kind.SERIAL,
) -> Iterator[Stmt]:
    """What ``write(piece, width, first)`` gives for every vector of an axis, in loops."""
    for block in blocks:
        looped = block.count > 1
        offset = times(Var(CHUNK), block.width) if looped else integer(0)
        offset = plus(offset, block.start)
        found: list[Stmt] = []
        for piece, width in enumerate(block.widths):
            found += write(piece, width, offset)
            offset = plus(offset, width)
        if looped:
            yield For(CHUNK, integer(0), integer(block.count), tuple(found), kind)
        else:
            yield from found
