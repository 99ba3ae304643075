"""Kernels that read their weights from the end.

What a loop reads in every iteration, always in the same order, leaves a cache that it exceeds
by a little before its turn comes again.  Read forwards and backwards in turns, all that the
cache holds is found there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from weft.loops.nodes import Binary, Const, For, Kernel, LoopKind, Prefetch, Stmt, Var
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import blocks, loaded, substitute_stmts, with_blocks
from weft.loops.walk import index

FARTHEST = 4
"""Of weights that are so many times larger than the last own cache too little is left in it."""


def alternates(weights: int, caches: Sequence[int]) -> bool:
    """Whether every other iteration should read the weights from their end.

    Args:
        weights: bytes that an iteration reads.
        caches: bytes that a core has, nearest first.
    """
    return bool(caches) and caches[0] // 2 < weights < FARTHEST * caches[-1]


def mirrored(kernel: Kernel, weights: Collection[str]) -> Kernel:
    """The kernel with the loops over blocks of its weights in the opposite order.

    Args:
        kernel: iterations of its parallel loops are independent, so it computes the same bits.
        weights: names of parameters.
    """
    body = tuple(_turned(stmt) if _walks(stmt, weights) else stmt for stmt in kernel.body)
    return kernel if body == kernel.body else simplify_kernel(kernel.with_body(body))


def _walks(stmt: Stmt, weights: Collection[str]) -> bool:
    return not loaded((stmt,)).isdisjoint(weights)


def _turned(stmt: Stmt) -> Stmt:
    match stmt:
        case For(var, Const(value=int(start)), Const(value=int(stop)), body, LoopKind.PARALLEL):
            # Processors foresee a block's reads; what is fetched ahead is the wrong block.
            body = substitute_stmts(
                _unfetched(body), {var: Binary("sub", index(start + stop - 1), Var(var))}
            )
            return replace(stmt, body=body)
        case _:
            return stmt


def _unfetched(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    return tuple(
        with_blocks(stmt, [_unfetched(block) for block in blocks(stmt)])
        for stmt in stmts
        if not isinstance(stmt, Prefetch)
    )
