"""Windows that slide along the tiled axis: neighbouring positions read the same elements.

A depthwise convolution or a pooling reads ``x[stride * position + dilation * tap]`` for all
lanes at once, so a tile of positions and all taps of a row read few elements, each several
times.  In the order of the elements each is loaded once, and the weights of a row stay in
registers.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.kernels.guards import Guard
from weft.loops.affine import affine
from weft.loops.nodes import Axis, Expr, Reduce, Var
from weft.loops.walk import free_vars, loads
from weft.records import dataclass

MOST_TAPS = 8
"""Taps of a row that are written out: so many weights are held in registers."""


@dataclass(frozen=True, slots=True)
class Slide:
    """A window's move: ``stride * position + dilation * tap``.

    Attributes:
        tap: the reduction axis.
        stride: elements between neighbouring positions.
        dilation: elements between neighbouring taps.
    """

    tap: str
    stride: int
    dilation: int

    def order(self, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Pairs of a position and a tap by the elements that they read."""
        return sorted(pairs, key=lambda pair: self.stride * pair[0] + self.dilation * pair[1])


def slide(
    reduce: Reduce,
    value: Expr,
    guards: tuple[Guard, ...],
    lanes: Axis | None,
    tile: Axis | None,
) -> Slide | None:
    """The move along the tiled axis of the one window that is read in whole vectors."""
    if lanes is None or tile is None:
        return None
    extents = {axis.var: axis.extent for axis in reduce.axes}
    found: set[Slide] = set()
    for load in loads(value):
        if tile.var not in free_vars(load):
            continue
        if lanes.var not in free_vars(load):
            return None
        for part in load.index:
            form = affine(part)
            stride = form.terms.get(Var(tile.var), 0)
            taps = [a.name for a in form.terms if isinstance(a, Var) and a.name in extents]
            if stride and len(taps) == 1:
                found.add(Slide(taps[0], stride, form.terms[Var(taps[0])]))
    if len(found) != 1:
        return None
    (move,) = found
    alone = all(guard.is_along(tile.var) for guard in guards if guard.tap == move.tap)
    return move if alone and extents[move.tap] <= MOST_TAPS else None
