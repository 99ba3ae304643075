"""The plane of variants: the front is what nobody beats, ticks are round, every dot is there."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.explore.plot import Point, front, label, scatter, ticks

SVG = "{http://www.w3.org/2000/svg}"


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12),
    st.booleans(),
)
def test_the_front_is_what_no_other_point_beats(pairs, rising):
    points = [Point(str(place), float(x), float(y)) for place, (x, y) in enumerate(pairs)]

    def better(one: Point, other: Point) -> bool:
        height = one.y - other.y if rising else other.y - one.y
        return one.x <= other.x and height >= 0 and (one.x, one.y) != (other.x, other.y)

    unbeaten = {(p.x, p.y) for p in points if not any(better(q, p) for q in points)}
    found = front(points, rising=rising)
    assert {(point.x, point.y) for point in found} == unbeaten
    assert [point.x for point in found] == sorted(point.x for point in found)


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9))
def test_ticks_are_even_and_hold_the_range(low, span):
    found = ticks(low, low + span, 6)
    assert found[0] <= low + 1e-6 * abs(low)
    assert found == sorted(set(found))
    assert found[-1] >= low + span
    assert 1 <= len(found) <= 20


def test_labels_are_short():
    assert [label(value) for value in (0, 0.25, 1500, 2e6, 3.5e9)] == [
        "0", "0.25", "1.5k", "2M", "3.5G",
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 2])
def test_every_variant_is_a_dot_with_its_name(count):
    points = [Point("small <1>", 10, 0.5), Point("large", 20, 0.4)][:count]
    root = ElementTree.fromstring(scatter("a against b", "b", "a", points, rising=True))
    dots = list(root.iter(f"{SVG}circle"))
    assert [dot.find(f"{SVG}title").text for dot in dots] == [
        "small <1>: 10, 0.5", "large: 20, 0.4",
    ][:count]  # fmt: skip
    assert dots[0].attrib["fill"] != "#ffffff"
    assert all(dot.attrib["fill"] == "#ffffff" for dot in dots[1:])
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert {"small <1>", "a", "b", "a against b"} <= set(texts)


def test_the_front_is_drawn_and_noise_is_marked():
    points = [
        Point("fast", 10, 0.5, 9, 14),
        Point("good", 30, 0.9, 28, 33),
        Point("beaten", 40, 0.7, 39, 44),
    ]
    root = ElementTree.fromstring(scatter("net", "cost", "accuracy", points, rising=True))
    titles = [
        path.find(f"{SVG}title").text
        for path in root.iter(f"{SVG}path")
        if path.find(f"{SVG}title") is not None
    ]
    assert titles == [
        "the front: no other is better", "fast: 9 to 14", "good: 28 to 33", "beaten: 39 to 44",
    ]  # fmt: skip
    (line,) = [p for p in root.iter(f"{SVG}path") if "stroke-dasharray" in p.attrib]
    # A step up at the cost of each point of the front after the first.
    assert line.attrib["d"].count("V") == 1
    assert any("bars: the least" in (each.text or "") for each in root.iter(f"{SVG}text"))
    exact = scatter("net", "cost", "accuracy", [Point("one", 1, 1)], rising=True)
    assert "bars" not in exact
