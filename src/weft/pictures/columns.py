"""How far right vertices stand: near what they are joined to, wires straight, none too close.

Each row is placed as a whole: of all positions that keep the order and the gaps, those with
the least weighted sum of squared distances to where its vertices want to be.  A vertex wants
to be at the mean of its neighbours; bends pull at bends most, so that long wires are straight.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.pictures.rows import Layers
from weft.records import dataclass

GAP = 26.0
BEND = 10.0
_SWEEPS = 8
# How much a wire's end pulls: between two bends, between a bend and a box, between boxes.
_STRAIGHT, _LOOSE, _CHAIN = 8.0, 0.1, 1.0
# In the end chains are made straight, at the cost of what stands beside them.
_FIRM = 1000.0


def columns(made: Layers, widths: Sequence[float]) -> list[float]:
    """The middles of all vertices, from 0 at the left edge of the leftmost.

    Args:
        made: rows in their final order.
        widths: of the boxes.
    """
    if not made.row:
        return []
    sizes = [*widths, *([BEND] * (len(made.row) - made.boxes))]
    middles = _packed(made, sizes)
    both = [[*above, *below] for above, below in zip(made.above, made.below, strict=True)]
    for _ in range(_SWEEPS):
        _sweep(made, made.rows, made.above, sizes, middles)
        _sweep(made, made.rows[::-1], made.below, sizes, middles)
    _sweep(made, made.rows, both, sizes, middles)
    _sweep(made, made.rows[::-1], both, sizes, middles)
    _straighten(made, sizes, middles)
    left = min(middle - size / 2 for middle, size in zip(middles, sizes, strict=True))
    return [middle - left for middle in middles]


def _packed(made: Layers, sizes: Sequence[float]) -> list[float]:
    """Rows side by side around a common middle."""
    middles = [0.0] * len(made.row)
    for row in made.rows:
        offsets = _offsets(row, sizes)
        for vertex, offset in zip(row, offsets, strict=True):
            middles[vertex] = offset - (offsets[-1] / 2 if offsets else 0)
    return middles


def _offsets(row: Sequence[int], sizes: Sequence[float]) -> list[float]:
    """The least distance of each vertex from the first of its row."""
    found: list[float] = []
    for place, vertex in enumerate(row):
        if not place:
            found.append(0.0)
            continue
        found.append(found[-1] + (sizes[row[place - 1]] + sizes[vertex]) / 2 + GAP)
    return found


def _sweep(
    made: Layers,
    rows: Sequence[Sequence[int]],
    joined: Sequence[Sequence[int]],
    sizes: Sequence[float],
    middles: list[float],
) -> None:
    for row in rows:
        offsets = _offsets(row, sizes)
        wishes: list[float] = []
        weights: list[float] = []
        for vertex, offset in zip(row, offsets, strict=True):
            wish, weight = _wish(made, vertex, joined[vertex], middles)
            wishes.append(wish - offset)
            weights.append(weight)
        for vertex, offset, found in zip(row, offsets, _pooled(wishes, weights), strict=True):
            middles[vertex] = found + offset


def _wish(
    made: Layers, vertex: int, joined: Sequence[int], middles: Sequence[float]
) -> tuple[float, float]:
    """Where a vertex wants to be, and how much."""
    total = weight = 0.0
    bend = vertex >= made.boxes
    for other in joined:
        bends = bend + (other >= made.boxes)
        pull = (_CHAIN, _LOOSE, _STRAIGHT)[bends]
        total += pull * middles[other]
        weight += pull
    if weight == 0.0:
        return middles[vertex], 1e-3
    return total / weight, weight


def _straighten(made: Layers, sizes: Sequence[float], middles: list[float]) -> None:
    """Puts what follows only one, which only it follows, right below that one if it can."""
    chained = [
        above if len(above) == 1 and len(made.below[above[0]]) == 1 else [] for above in made.above
    ]
    for row in made.rows:
        offsets = _offsets(row, sizes)
        wishes = [
            middles[(chained[vertex] or [vertex])[0]] - offset
            for vertex, offset in zip(row, offsets, strict=True)
        ]
        weights = [_firmness(made, vertex, chained[vertex]) for vertex in row]
        for vertex, offset, found in zip(row, offsets, _pooled(wishes, weights), strict=True):
            middles[vertex] = found + offset


def _firmness(made: Layers, vertex: int, chained: Sequence[int]) -> float:
    """A wire gives way to a box."""
    if not chained:
        return _CHAIN
    return _STRAIGHT if vertex >= made.boxes else _FIRM


@dataclass(slots=True)
class _Block:
    """Vertices that touch: their common position."""

    total: float
    weight: float
    count: int

    @property
    def mean(self) -> float:
        return self.total / self.weight


def _pooled(wishes: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The ascending positions nearest to the wishes (isotonic regression)."""
    blocks: list[_Block] = []
    for wish, weight in zip(wishes, weights, strict=True):
        block = _Block(wish * weight, weight, 1)
        while blocks and blocks[-1].mean >= block.mean:
            before = blocks.pop()
            block = _Block(
                before.total + block.total, before.weight + block.weight, before.count + block.count
            )
        blocks.append(block)
    return [block.mean for block in blocks for _ in range(block.count)]
