"""The order of vertices within rows, so that few wires cross."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from weft.pictures.rows import Layers

_SWEEPS = 12
_PATIENCE = 4


def uncross(made: Layers) -> None:
    """Orders the vertices of all rows: by the middle of what they are joined to, repeatedly."""
    place = [0] * len(made.row)
    for row in made.rows:
        _number(row, place)
    _sweep(made.rows, made.above, place)
    best, fewest, stale = [list(row) for row in made.rows], _crossings(made, place), 0
    for sweep in range(_SWEEPS):
        if fewest == 0 or stale >= _PATIENCE:
            break
        if sweep % 2 == 0:
            _sweep(made.rows[::-1], made.below, place)
        else:
            _sweep(made.rows, made.above, place)
        found = _crossings(made, place)
        if found < fewest:
            best, fewest, stale = [list(row) for row in made.rows], found, 0
        else:
            stale += 1
    made.rows = best


def _number(row: Sequence[int], place: list[int]) -> None:
    for index, vertex in enumerate(row):
        place[vertex] = index


def _sweep(rows: Sequence[list[int]], joined: Sequence[Sequence[int]], place: list[int]) -> None:
    """Row after row by the mean place of the neighbours in the row before."""
    for row in rows:
        keys = {
            vertex: (
                sum(place[each] for each in joined[vertex]) / len(joined[vertex])
                if joined[vertex]
                else place[vertex]
            )
            for vertex in row
        }
        row.sort(key=keys.__getitem__)
        _number(row, place)


def _crossings(made: Layers, place: Sequence[int]) -> int:
    """How many pairs of wires cross between neighbouring rows."""
    total = 0
    for row in made.rows:
        ends: list[int] = []
        for vertex in row:
            targets = sorted(place[each] for each in made.below[vertex])
            total += sum(len(ends) - bisect_right(ends, target) for target in targets)
            for target in targets:
                insort(ends, target)
    return total
