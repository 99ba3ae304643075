"""When weights are fetched ahead of the tile that reads them."""

from __future__ import annotations

from weft.kernels.writer import integer, plus
from weft.loops.nodes import Binary, Expr
from weft.targets.target import Target


def prefetches(target: Target, slab: int, total: int) -> bool:
    """Whether the next slab of weights is fetched while one is used.

    Args:
        target: the machine.
        slab: bytes that are used again and again before the next slab's turn.
        total: bytes of all slabs.
    """
    if not target.caches:
        return False
    # In a network, other layers' weights have taken all caches since the last run.
    return total > target.caches[0] // 2 and slab <= target.caches[-1] // 2


def following(number: Expr, count: int) -> Expr:
    """The number after one of ``count``; the last one's own."""
    return Binary("min", plus(number, 1), integer(count - 1))
