"""Ordering: never worse than given, and as good as the best of all orders on small graphs."""

from __future__ import annotations

import random
import time
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InternalError
from weft.plan.memory import live_bytes
from weft.plan.order import Step, best_order, lifetimes, peak


@st.composite
def programs(draw: st.DrawFn, most: int = 7) -> tuple[list[Step], dict[str, int], frozenset[str]]:
    """Random programs: some roots are written in two parts, some taken over in place."""
    count = draw(st.integers(1, most))
    sizes = {"in": draw(st.integers(0, 5))}
    written: dict[str, set[int]] = {"in": set()}
    steps: list[Step] = []
    for place in range(count):
        reads = draw(st.sets(st.sampled_from(sorted(written)), max_size=3))
        new = draw(st.booleans()) or place == 0
        if new:
            target = f"r{place}"
            sizes[target] = draw(st.integers(0, 5))
        else:
            target = draw(st.sampled_from(sorted(written)))
        # A part may be added only to a root that nobody reads yet.
        if any(target in step.reads for step in steps) or target == "in":
            target = f"r{place}"
            sizes[target] = draw(st.integers(0, 5))
        reads -= {target}
        before = frozenset().union(*(written[root] for root in reads))
        pairs = draw(st.permutations([(target, root) for root in sorted(reads)]))
        steps.append(
            Step(
                before,
                tuple(sorted(reads)),
                (target,),
                tuple(pairs[: draw(st.integers(0, len(pairs)))]),
                draw(st.integers(0, 4)),
            )
        )
        written.setdefault(target, set()).add(place)
    used = {root for step in steps for root in (*step.reads, *step.writes)}
    keep = draw(st.sets(st.sampled_from(sorted(used)), max_size=2))
    return steps, sizes, frozenset(keep)


def is_possible(order: tuple[int, ...] | list[int], steps: list[Step]) -> bool:
    place = {step: at for at, step in enumerate(order)}
    return all(place[b] < place[s] for s in place for b in steps[s].before)


@settings(deadline=None, max_examples=300)
@given(programs())
def test_best_of_all_orders(program):
    steps, sizes, keep = program
    found = best_order(steps, sizes, keep)
    assert sorted(found) == list(range(len(steps)))
    assert is_possible(found, steps)
    every = [o for o in permutations(range(len(steps))) if is_possible(o, steps)]
    assert peak(found, steps, sizes, keep) == min(peak(o, steps, sizes, keep) for o in every)


@settings(deadline=None, max_examples=300)
@given(programs())
def test_peak_is_what_the_lifetimes_say(program):
    steps, sizes, keep = program
    order = best_order(steps, sizes, keep)
    live = live_bytes(lifetimes(order, steps, sizes, keep).intervals, 1)
    assert max(live, default=0) == peak(order, steps, sizes, keep)


@settings(deadline=None, max_examples=200)
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


def random_network(count: int, width: int, seed: int) -> tuple[list[Step], dict[str, int]]:
    """A layered graph in which a step reads a few of the last ``width`` results."""
    chance = random.Random(seed)
    steps: list[Step] = []
    sizes: dict[str, int] = {}
    for place in range(count):
        sizes[f"r{place}"] = chance.choice([1, 2, 4, 8, 16]) * 64
        recent = range(max(0, place - width), place)
        reads = sorted(chance.sample(recent, min(len(recent), chance.choice([1, 1, 2, 3]))))
        steps.append(Step(frozenset(reads), tuple(f"r{each}" for each in reads), (f"r{place}",)))
    return steps, sizes


@pytest.mark.parametrize(("count", "width"), [(40, 6), (300, 3), (300, 40), (1500, 5), (1500, 200)])
def test_large_graphs_are_fast_and_never_worse(count, width):
    steps, sizes = random_network(count, width, seed=count + width)
    start = time.process_time()
    found = best_order(steps, sizes)
    assert time.process_time() - start < 10
    assert is_possible(found, steps)
    assert peak(found, steps, sizes) <= peak(range(count), steps, sizes)
    assert best_order(steps, sizes) == found


def test_finishes_one_branch_before_it_starts_the_next():
    """Two chains that swell in the middle, joined at the end."""
    steps = [
        Step(frozenset(), (), ("input",)),
        Step(frozenset({0}), ("input",), ("big1",)),
        Step(frozenset({0}), ("input",), ("big2",)),
        Step(frozenset({1}), ("big1",), ("small1",)),
        Step(frozenset({2}), ("big2",), ("small2",)),
        Step(frozenset({3, 4}), ("small1", "small2"), ("sum",), (("sum", "small1"),)),
    ]
    sizes = {"input": 10, "big1": 100, "big2": 100, "small1": 5, "small2": 5, "sum": 5}
    order = best_order(steps, sizes)
    assert peak(range(6), steps, sizes) == 210
    assert peak(order, steps, sizes) == 115
    home = lifetimes(order, steps, sizes).home
    assert home["sum"] == "small1"


def test_scratch_gets_an_interval_of_its_own():
    steps = [Step(frozenset(), (), ("scratch_0",), (), 7), Step(frozenset({0}), ("scratch_0",))]
    found = lifetimes([0, 1], steps, {"scratch_0": 3}).intervals
    assert [(each.name, each.bytes, each.first, each.last) for each in found] == [
        ("scratch_0", 3, 0, 1),
        ("scratch_0_1", 7, 0, 0),
    ]


def test_impossible_given_order():
    with pytest.raises(InternalError, match="step 0 stands before step 1, which it needs"):
        best_order([Step(frozenset({1})), Step()], {})
