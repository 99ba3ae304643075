"""Where the vertices of a drawing stand: rows, with bends where wires pass through.

A drawing is a list of boxes, each with a width, and of wires, each from one box to later
ones.  Every box gets a row below those that it reads.  A wire that spans several rows
passes each by a bend, a narrow vertex of its own, shared by all its targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from weft.records import dataclass

MOST_BENDS = 60_000
"""Beyond this many the longest wires are not drawn through, but named at both ends."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A value on its way.

    Attributes:
        source: index of the box that makes it.
        targets: indices of the boxes that read it, all greater than the source.
    """

    source: int
    targets: tuple[int, ...]


@dataclass
class Layers:
    """Boxes and bends in rows.

    Vertices are numbered: boxes first, then bends.

    Attributes:
        row: of every vertex.
        rows: the vertices of each row, from left to right.
        above: for each vertex, those one row above that it is joined to.
        below: for each vertex, those one row below that it is joined to.
        bends: of every wire, from top to bottom.
        cut: whether a wire is not drawn through but named at its ends.
        boxes: how many vertices are boxes.
    """

    row: list[int]
    boxes: int
    rows: list[list[int]] = field(default_factory=list[list[int]])
    above: list[list[int]] = field(default_factory=list[list[int]])
    below: list[list[int]] = field(default_factory=list[list[int]])
    bends: list[list[int]] = field(default_factory=list[list[int]])
    cut: list[bool] = field(default_factory=list[bool])


def row_of_boxes(count: int, wires: Sequence[Wire]) -> list[int]:
    """A row for each box, below what it reads, and near where most of its wires lead."""
    row = [0] * count
    made: list[list[Wire]] = [[] for _ in range(count)]
    read = [0] * count
    for wire in wires:
        made[wire.source].append(wire)
        for target in wire.targets:
            read[target] += 1
    for source in range(count):
        for wire in made[source]:
            for target in wire.targets:
                row[target] = max(row[target], row[source] + 1)
    for source in reversed(range(count)):
        targets = [row[target] for wire in made[source] for target in wire.targets]
        if targets and len(made[source]) > read[source]:
            row[source] = min(targets) - 1
    return row


def _cuts(row: Sequence[int], wires: Sequence[Wire]) -> list[bool]:
    """Which wires to leave out so that not too many bends remain: the longest."""
    spans = [max((row[t] for t in wire.targets), default=0) - row[wire.source] for wire in wires]
    found = [False] * len(wires)
    total = sum(max(0, span - 1) for span in spans)
    for place in sorted(range(len(wires)), key=lambda place: -spans[place]):
        if total <= MOST_BENDS:
            break
        found[place] = True
        total -= max(0, spans[place] - 1)
    return found


def layers(count: int, wires: Sequence[Wire]) -> Layers:
    """Rows for boxes, bends for wires, and what is joined to what."""
    row = row_of_boxes(count, wires)
    made = Layers(row, count, cut=_cuts(row, wires))
    made.above = [[] for _ in range(count)]
    made.below = [[] for _ in range(count)]
    for wire, is_cut in zip(wires, made.cut, strict=True):
        made.bends.append([] if is_cut else _lay(made, wire))
    made.rows = [[] for _ in range(max(made.row, default=-1) + 1)]
    for vertex, place in enumerate(made.row):
        made.rows[place].append(vertex)
    return made


def _lay(made: Layers, wire: Wire) -> list[int]:
    """Adds the bends of a wire, joins its ends; the bends."""
    bends: list[int] = []
    last = wire.source

    def join(upper: int, lower: int) -> None:
        made.below[upper].append(lower)
        made.above[lower].append(upper)

    start = made.row[wire.source]
    for target in sorted(set(wire.targets), key=lambda target: made.row[target]):
        while start + len(bends) + 1 < made.row[target]:
            made.row.append(start + len(bends) + 1)
            made.above.append([])
            made.below.append([])
            bends.append(len(made.row) - 1)
            join(last, bends[-1])
            last = bends[-1]
        depth = made.row[target] - start - 1
        join(bends[depth - 1] if depth else wire.source, target)
    return bends
