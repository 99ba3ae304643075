"""Liveness in a given order: its peak, and which roots share memory."""

from __future__ import annotations

from hypothesis import given, settings

from tests.plan.steps import programs
from tests.turns import examples
from weft.plan.liveness import MemoryStep, lifetimes, peak
from weft.plan.memory import live_bytes
from weft.plan.order import best_order


@settings(deadline=None, max_examples=examples(300))
@given(programs())
def test_peak_is_what_the_lifetimes_say(program):
    steps, sizes, keep = program
    order = best_order(steps, sizes, keep)
    live = live_bytes(lifetimes(order, steps, sizes, keep).intervals, 1)
    assert max(live, default=0) == peak(order, steps, sizes, keep)


@settings(deadline=None, max_examples=examples(200))
@given(programs())
def test_what_shares_memory_is_never_needed_twice(program):
    steps, sizes, keep = program
    order = best_order(steps, sizes, keep)
    found = lifetimes(order, steps, sizes, keep)
    place = {step: at for at, step in enumerate(order)}
    spans = {}
    for number, step in enumerate(steps):
        for root in (*step.reads, *step.writes):
            first, last = spans.get(root, (len(steps), -1))
            spans[root] = (min(first, place[number]), max(last, place[number]))
    allowed = {pair for step in steps for pair in step.in_place}
    for new, (first, _) in spans.items():
        for old, (_, last) in spans.items():
            if new != old and found.home[new] == found.home[old] and spans[old] < spans[new]:
                assert last <= first
                assert last < first or (new, old) in allowed
                assert old not in keep


def test_scratch_gets_an_interval_of_its_own():
    steps = [
        MemoryStep(frozenset(), (), ("scratch_0",), (), 7),
        MemoryStep(frozenset({0}), ("scratch_0",)),
    ]
    found = lifetimes([0, 1], steps, {"scratch_0": 3}).intervals
    assert [(each.name, each.bytes, each.first, each.last) for each in found] == [
        ("scratch_0", 3, 0, 1),
        ("scratch_0_1", 7, 0, 0),
    ]
