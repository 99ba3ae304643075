"""Ordering: never worse than given, and as good as the best of all orders on small graphs."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from hypothesis import given, settings

from tests.plan.steps import programs
from tests.turns import examples
from weft.errors import InternalError
from weft.plan.liveness import LifetimeCosts, MemoryState, MemoryStep, lifetimes, peak
from weft.plan.order import BEAM_BUDGET, EXACT_BUDGET, best_order


def is_possible(order: tuple[int, ...] | list[int], steps: list[MemoryStep]) -> bool:
    place = {step: at for at, step in enumerate(order)}
    return all(place[b] < place[s] for s in place for b in steps[s].before)


@settings(deadline=None, max_examples=examples(300))
@given(programs())
def test_best_of_all_orders(program):
    steps, sizes, keep = program
    found = best_order(steps, sizes, keep)
    assert sorted(found) == list(range(len(steps)))
    assert is_possible(found, steps)
    every = [o for o in permutations(range(len(steps))) if is_possible(o, steps)]
    assert peak(found, steps, sizes, keep) == min(peak(o, steps, sizes, keep) for o in every)


def random_network(count: int, width: int, seed: int) -> tuple[list[MemoryStep], dict[str, int]]:
    """A layered graph in which a step reads a few of the last ``width`` results."""
    chance = random.Random(seed)
    steps: list[MemoryStep] = []
    sizes: dict[str, int] = {}
    for place in range(count):
        sizes[f"r{place}"] = chance.choice([1, 2, 4, 8, 16]) * 64
        recent = range(max(0, place - width), place)
        reads = sorted(chance.sample(recent, min(len(recent), chance.choice([1, 1, 2, 3]))))
        steps.append(
            MemoryStep(frozenset(reads), tuple(f"r{each}" for each in reads), (f"r{place}",))
        )
    return steps, sizes


@pytest.mark.parametrize(
    ("count", "width"),
    [
        *((40, 6), (300, 3)),
        pytest.param(300, 40, marks=pytest.mark.thorough),
        (1500, 5),
        pytest.param(1500, 200, marks=pytest.mark.thorough),
    ],
)
def test_large_graphs_are_searched_within_the_budget_and_never_worse(
    count: int, width: int, monkeypatch: pytest.MonkeyPatch
):
    steps, sizes = random_network(count, width, seed=count + width)
    looked_at: list[int] = []
    advance = LifetimeCosts.advance

    def counted(costs: LifetimeCosts, state: MemoryState, step: int) -> MemoryState:
        looked_at.append(step)
        return advance(costs, state, step)

    with monkeypatch.context() as patch:
        patch.setattr(LifetimeCosts, "advance", counted)
        found = best_order(steps, sizes)
    assert count <= len(looked_at) <= EXACT_BUDGET + 2 * BEAM_BUDGET
    assert is_possible(found, steps)
    assert peak(found, steps, sizes) <= peak(range(count), steps, sizes)
    assert best_order(steps, sizes) == found


def test_finishes_one_branch_before_it_starts_the_next():
    """Two chains that swell in the middle, joined at the end."""
    steps = [
        MemoryStep(frozenset(), (), ("input",)),
        MemoryStep(frozenset({0}), ("input",), ("big1",)),
        MemoryStep(frozenset({0}), ("input",), ("big2",)),
        MemoryStep(frozenset({1}), ("big1",), ("small1",)),
        MemoryStep(frozenset({2}), ("big2",), ("small2",)),
        MemoryStep(frozenset({3, 4}), ("small1", "small2"), ("sum",), (("sum", "small1"),)),
    ]
    sizes = {"input": 10, "big1": 100, "big2": 100, "small1": 5, "small2": 5, "sum": 5}
    order = best_order(steps, sizes)
    assert peak(range(6), steps, sizes) == 210
    assert peak(order, steps, sizes) == 115
    home = lifetimes(order, steps, sizes).home
    assert home["sum"] == "small1"


def test_impossible_given_order():
    with pytest.raises(InternalError, match="step 0 stands before step 1, which it needs"):
        best_order([MemoryStep(frozenset({1})), MemoryStep()], {})
