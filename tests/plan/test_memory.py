"""Placement: nothing overlaps, the bound is a bound, and it is met or nearly met."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.turns import examples
from weft.plan import memory
from weft.plan import report as report_module
from weft.plan.interval import Interval
from weft.plan.memory import Placement, aligned, live_bytes, place
from weft.plan.report import Report, summary


@st.composite
def interval_lists(draw: st.DrawFn) -> list[Interval]:
    count = draw(st.integers(0, 14))
    spans = [sorted((draw(st.integers(0, 9)), draw(st.integers(0, 9)))) for _ in range(count)]
    return [
        Interval(f"v{number}", draw(st.integers(0, 1000)), first, last)
        for number, (first, last) in enumerate(spans)
    ]


def check(intervals: list[Interval], placement: Placement, alignment: int) -> None:
    assert set(placement.offsets) == {each.name for each in intervals}
    end = 0
    for each in intervals:
        offset = placement.offsets[each.name]
        assert offset % alignment == 0
        end = max(end, offset + aligned(each.bytes, alignment))
        for other in intervals:
            if other is each or each.bytes == 0 or other.bytes == 0:
                continue
            if each.first <= other.last and other.first <= each.last:
                start = placement.offsets[other.name]
                assert offset + each.bytes <= start or start + other.bytes <= offset
    assert placement.bytes == end
    assert placement.lower_bound <= placement.bytes


@settings(deadline=None, max_examples=examples(200))
@given(interval_lists(), st.sampled_from([1, 16, 64]))
def test_nothing_overlaps(intervals, alignment):
    placement = place(intervals, alignment, seconds=0.1)
    check(intervals, placement, alignment)
    assert placement.lower_bound == max(live_bytes(intervals, alignment), default=0)
    assert place(intervals, alignment, seconds=0.1) == placement


def network(count: int, mean: float, seed: int) -> list[Interval]:
    chance = random.Random(seed)
    found: list[Interval] = []
    for number in range(count):
        first = chance.randrange(count)
        last = min(count - 1, first + int(chance.expovariate(1 / mean)))
        found.append(Interval(f"v{number}", chance.randrange(1, 40) * 1000, first, last))
    return found


@pytest.mark.parametrize(
    ("count", "mean", "seed"),
    [
        (30, 6, 1),
        (30, 12, 2),
        (60, 10, 3),
        (120, 10, 4),
        (300, 10, 5),
        pytest.param(1000, 20, 6, marks=pytest.mark.thorough),
    ],
)
def test_near_the_bound(count, mean, seed):
    intervals = network(count, mean, seed)
    placement = place(intervals)
    check(intervals, placement, 64)
    assert placement.ratio <= 1.05


SOLVED = (60, 10, 5)
"""A network that repairs leave above the bound, and a solver does not."""


def test_the_solver_closes_what_greedy_leaves_open():
    intervals = network(*SOLVED)
    greedy, solved = place(intervals, seconds=0), place(intervals, seconds=2)
    check(intervals, solved, 64)
    assert greedy.bytes > greedy.lower_bound
    assert (solved.method, solved.bytes) == ("solver", solved.lower_bound)
    assert place(intervals, seconds=2) == solved


def test_without_a_solver_plans_are_made_and_say_what_would_help(monkeypatch: pytest.MonkeyPatch):
    intervals = network(*SOLVED)
    monkeypatch.setattr(memory, "is_installed", lambda: False)
    found = place(intervals)
    assert found == place(intervals, seconds=0)
    assert found.method == "repaired"
    report = Report("net", (), found.bytes, found.lower_bound, found.method, 0)
    assert "OR-tools" not in summary(report)
    monkeypatch.setattr(report_module, "is_installed", lambda: False)
    assert summary(report) == (
        f"0 steps; arena {found.bytes:,} bytes, lower bound {found.lower_bound:,} "
        f"(ratio {found.ratio:.3f}, repaired; OR-tools may come closer: "
        "pip install 'weft[solver]'); weights 0 bytes"
    )


@pytest.mark.parametrize(
    ("count", "mean", "seed"), [(24, 6, 6), (24, 6, 7), (60, 10, 1), (60, 10, 2)]
)
def test_repairs_meet_the_bound_where_greedy_placement_does_not(count: int, mean: int, seed: int):
    placement = place(network(count, mean, seed), seconds=0)
    assert (placement.method, placement.bytes) == ("repaired", placement.lower_bound)
