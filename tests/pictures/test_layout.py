"""Rows, order and columns: every box below what it reads, nothing on top of anything."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.pictures import rows as rows_module
from weft.pictures.columns import BEND, GAP, _pooled, columns
from weft.pictures.crossings import _crossings, uncross
from weft.pictures.rows import Layers, Wire, layers, row_of_boxes


@st.composite
def drawings(draw) -> tuple[int, list[Wire]]:
    """Boxes in order, each making at most two wires to later ones."""
    count = draw(st.integers(1, 14))
    wires = []
    for source in range(count - 1):
        for _ in range(draw(st.integers(0, 2))):
            later = st.integers(source + 1, count - 1)
            wires.append(Wire(source, tuple(draw(st.sets(later, min_size=1, max_size=4)))))
    return count, wires


def laid_out(count: int, wires: list[Wire]) -> tuple[Layers, list[float], list[float]]:
    made = layers(count, wires)
    uncross(made)
    widths = [20.0 + 7 * (place % 5) for place in range(count)]
    return made, columns(made, widths), [*widths, *([BEND] * (len(made.row) - count))]


@given(drawings())
def test_boxes_stand_below_what_they_read(drawing):
    count, wires = drawing
    row = row_of_boxes(count, wires)
    assert min(row) == 0
    for wire in wires:
        assert all(row[target] > row[wire.source] for target in wire.targets)


def test_what_feeds_many_late_stands_near_them():
    # 0 -> 1 -> 2 -> 3 is a chain; 4 is read by 5 only, which adds it to the chain's end.
    wires = [Wire(0, (1,)), Wire(1, (2,)), Wire(2, (3,)), Wire(3, (5,)), Wire(4, (5,))]
    assert row_of_boxes(6, wires) == [0, 1, 2, 3, 3, 4]


@given(drawings())
def test_wires_pass_each_row_between_their_ends(drawing):
    count, wires = drawing
    made = layers(count, wires)
    for wire, bends in zip(wires, made.bends, strict=True):
        start, last = made.row[wire.source], max(made.row[target] for target in wire.targets)
        assert [made.row[bend] for bend in bends] == list(range(start + 1, last))
        for upper, lower in pairwise([wire.source, *bends]):
            assert lower in made.below[upper]
        for target in wire.targets:
            depth = made.row[target] - start - 1
            before = bends[depth - 1] if depth else wire.source
            assert target in made.below[before]
            assert before in made.above[target]
    joints = sum(len(below) for below in made.below)
    assert joints == sum(len(each.targets) for each in wires) + sum(map(len, made.bends))


@given(drawings())
@settings(deadline=None)
def test_nothing_lies_on_anything(drawing):
    made, middles, sizes = laid_out(*drawing)
    assert sorted(vertex for row in made.rows for vertex in row) == list(range(len(made.row)))
    for row in made.rows:
        for left, right in pairwise(row):
            least = (sizes[left] + sizes[right]) / 2 + GAP
            assert middles[right] - middles[left] >= least - 1e-6
    assert min(x - size / 2 for x, size in zip(middles, sizes, strict=True)) == pytest.approx(0)


@given(drawings())
@settings(deadline=None)
def test_crossings_are_counted_and_never_grow(drawing):
    count, wires = drawing
    made = layers(count, wires)

    def brute() -> int:
        place = {vertex: index for row in made.rows for index, vertex in enumerate(row)}
        total = 0
        for row in made.rows:
            joints = [(place[a], place[b]) for a in row for b in made.below[a]]
            total += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(joints, 2))
        return total

    def counted() -> int:
        place = [0] * len(made.row)
        for row in made.rows:
            for index, vertex in enumerate(row):
                place[vertex] = index
        return _crossings(made, place)

    assert counted() == brute()
    uncross(made)
    assert counted() == brute()


def test_a_plane_drawing_is_found():
    # Three parallel chains whose second row is numbered the other way round.
    wires = [Wire(0, (5,)), Wire(1, (4,)), Wire(2, (3,)), Wire(3, (6,)), Wire(4, (7,))]
    made = layers(8, wires)
    uncross(made)
    place = [0] * 8
    for row in made.rows:
        for index, vertex in enumerate(row):
            place[vertex] = index
    assert _crossings(made, place) == 0


def test_a_chain_is_straight_and_a_long_wire_too():
    chain = [Wire(each, (each + 1,)) for each in range(1, 6)]
    made, middles, _ = laid_out(7, [Wire(0, (1, 6)), *chain])
    chained = [middles[box] for box in range(1, 6)]
    assert max(chained) - min(chained) < 0.1
    bends = made.bends[0]
    assert max(middles[b] for b in bends) - min(middles[b] for b in bends) < BEND


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(0.1, 9)), min_size=1, max_size=9))
def test_pooled_positions_are_the_nearest_ascending_ones(pairs):
    wishes, weights = (np.array(each) for each in zip(*pairs, strict=True))
    found = np.array(_pooled(list(wishes), list(weights)))
    assert (np.diff(found) >= -1e-9).all()
    # The max-min formula of isotonic regression.
    count = len(wishes)

    def mean(first: int, last: int) -> float:
        part = slice(first, last + 1)
        return float((wishes[part] * weights[part]).sum() / weights[part].sum())

    expected = [
        max(min(mean(first, last) for last in range(place, count)) for first in range(place + 1))
        for place in range(count)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_too_many_bends_cut_the_longest_wires(monkeypatch):
    monkeypatch.setattr(rows_module, "MOST_BENDS", 3)
    chain = [Wire(each, (each + 1,)) for each in range(9)]
    made = layers(10, [*chain, Wire(0, (9,)), Wire(2, (5,))])
    assert made.cut == [False] * 9 + [True, False]
    assert made.bends[9] == []
    assert len(made.bends[10]) == 2


def test_an_empty_drawing():
    made = layers(0, [])
    uncross(made)
    assert columns(made, []) == []
