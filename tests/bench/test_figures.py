"""Means, exponents, races and tables of the benchmarks."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest

from bench.figures import (
    Result,
    geometric_mean,
    markdown,
    median,
    number,
    races,
    slope,
    summary,
    time_rows,
)
from bench.plot import bars

RESULTS = [
    Result("a", "weft", 1, (1.0, 3.0, 2.0)),
    Result("a", "fast", 1, (4.0,)),
    Result("a", "slow", 1, (8.0,)),
    Result("b", "weft", 1, (4.0,)),
    Result("b", "weft-tuned", 1, (1.0,)),
    Result("b", "fast", 1, (2.0,)),
    Result("b", "slow", 1, why="it fell over"),
    Result("c", "weft", 1, why="no such op"),
    Result("c", "fast", 1, (1.0,)),
]


def test_medians():
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 3, 2]) == 2.5
    assert RESULTS[0].median == 2.0
    assert math.isnan(RESULTS[-2].median)


def test_geometric_means():
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([3.0]) == pytest.approx(3.0)
    assert math.isnan(geometric_mean([]))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_exponents_of_power_laws(power: float):
    sizes = [3.0, 5.0, 11.0, 40.0]
    assert slope(sizes, [7.0 * size**power for size in sizes]) == pytest.approx(power)


def test_races_are_against_the_fastest_that_is_not_weft():
    found = {race.network: race for race in races(RESULTS)}
    assert set(found) == {"a", "b"}
    assert (found["a"].peer.contestant, found["a"].ratio) == ("fast", 2.0)
    assert (found["b"].peer.contestant, found["b"].ratio) == ("fast", 0.5)


def test_rows_of_times():
    rows = time_rows(RESULTS, 1, ["weft", "fast", "slow"])
    assert rows == [
        ["a", "2.00", "4.00", "8.00", "fast", "2.00"],
        ["b", "4.00", "2.00", "-", "fast", "0.50"],
        ["c", "-", "1.00", "-", "-", "-"],
    ]
    assert time_rows(RESULTS, 2, ["weft"]) == []


def test_summaries_by_group():
    groups = {"both": ("a", "b"), "one": ("a",), "none": ("z",)}
    assert summary(RESULTS, groups) == [
        ["both (2)", "1", "1.00", "0.50", "b, fast"],
        ["one (1)", "1", "2.00", "2.00", "a, fast"],
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.0, "1.00"), (12.345, "12.3"), (1234.5, "1,234")],
)
def test_numbers_have_three_digits(value: float, text: str):
    assert number(value) == text


def test_no_number_is_a_dash():
    assert number(math.nan) == "-"


def test_tables_are_markdown():
    assert markdown(["a", "b"], [["x", "1"]]) == ["| a | b |", "|---|---:|", "| x | 1 |"]


def test_bars_are_as_high_as_their_values():
    picture = ElementTree.fromstring(bars("title <&>", {"net": {"weft": 2.0, "fast": 1.0}}))
    heights = {}
    for each in picture.iter("{http://www.w3.org/2000/svg}rect"):
        title = each.find("{http://www.w3.org/2000/svg}title")
        if title is not None and title.text:
            heights[title.text] = float(each.attrib["height"])
    assert set(heights) == {"net, weft: 2.00", "net, fast: 1.00"}
    assert heights["net, weft: 2.00"] == pytest.approx(2 * heights["net, fast: 1.00"], abs=0.2)


def test_a_plot_of_nothing_is_a_picture():
    ElementTree.fromstring(bars("nothing", {}))
