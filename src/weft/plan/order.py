"""Order: the sequence of steps that needs the least memory at its worst moment.

What is live depends only on the set of steps already done, so an order is a path through
such sets, and its peak is the largest transition on it.  The graph is cut at steps that
every other step comes before or after; each piece is searched best first, which is exact,
until a budget is spent, and by a beam from there.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from weft.cached import cached_property
from weft.errors import InternalError
from weft.plan.liveness import LifetimeCosts, MemoryState, MemoryStep, Path
from weft.records import dataclass

EXACT_BUDGET = 60_000
"""Transitions that exact search may look at in one piece; a few tenths of a second."""
BEAM_BUDGET = 120_000
"""Transitions that a beam may look at in one piece; at the double it gives up."""
MAX_BEAM = 64


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _ancestors(steps: Sequence[MemoryStep]) -> list[int]:
    found: list[int] = []
    for place, step in enumerate(steps):
        mask = 0
        for earlier in step.before:
            if earlier >= place:
                raise InternalError(f"step {place} stands before step {earlier}, which it needs")
            mask |= found[earlier] | 1 << earlier
        found.append(mask)
    return found


def _descendants(steps: Sequence[MemoryStep]) -> list[int]:
    found = [0] * len(steps)
    for place in reversed(range(len(steps))):
        for earlier in steps[place].before:
            found[earlier] |= found[place] | 1 << place
    return found


def _vector(mask: int, length: int) -> np.ndarray:
    packed = np.frombuffer(mask.to_bytes((length + 7) // 8, "little"), np.uint8)
    return np.unpackbits(packed, count=length, bitorder="little").astype(bool)


class _Needs:
    """For each step, bytes that are live while it runs in every order."""

    def __init__(self, costs: LifetimeCosts, ancestors: list[int], descendants: list[int]) -> None:
        count = len(costs.steps)
        self.bytes = np.array([step.scratch for step in costs.steps], dtype=np.int64)
        for root, users in costs.users.items():
            begun = (1 << count) - 1
            if root in costs.writers:
                begun = _closure(costs.writers[root], descendants)
            ahead = (1 << count) - 1 if root in costs.keep else _closure(users, ancestors)
            self.bytes[_vector(begun & ahead, count)] += costs.sizes[root]
        for place, pairs in enumerate(costs.pairs):
            olds = {new.name: new.size for new, _ in pairs}
            news = {old.name for _, old in pairs}
            self.bytes[place] -= sum(sorted(olds.values(), reverse=True)[: len(news)])


def _closure(mask: int, related: list[int]) -> int:
    found = mask
    for place in _bits(mask):
        found |= related[place]
    return found


@dataclass
class _Piece:
    """The search for the order of some steps that follow ``start``.

    Attributes:
        floor: no peak below this matters: some moment needs as much in every order.
        spent: transitions looked at.
    """

    costs: LifetimeCosts
    members: tuple[int, ...]
    start: MemoryState
    floor: int
    spent: int = field(default=0)

    @cached_property
    def goal(self) -> int:
        return self.start.done | sum(1 << member for member in self.members)

    def as_given(self, state: MemoryState) -> MemoryState:
        """The remaining steps as they stand."""
        for step in self.members:
            if not state.done >> step & 1:
                state = self.costs.advance(state, step)
        return state

    def next(self, state: MemoryState) -> list[MemoryState]:
        """The states one step on.

        A step that does not raise the peak and leaves no more memory live is taken at
        once: whatever follows in another order needs no less without it.
        """
        goal = self.goal
        while state.done != goal:
            found: list[MemoryState] = []
            self.spent += len(state.ready)
            for step in state.ready:
                after = self.costs.advance(state, step)
                if after.live <= state.live and after.peak <= max(state.peak, self.floor):
                    state = after
                    break
                found.append(after)
            else:
                return found
        return [state]

    def cost(self, state: MemoryState) -> int:
        return max(state.peak, self.floor)

    def exact(self) -> MemoryState | None:
        """The best order, or nothing when the budget is spent."""
        goal = self.goal
        heap: list[tuple[int, int, int, MemoryState]] = [(self.cost(self.start), 0, 0, self.start)]
        seen: set[int] = set()
        count = 0
        while heap and self.spent < EXACT_BUDGET:
            _, _, _, state = heapq.heappop(heap)
            if state.done == goal:
                return state
            if state.done in seen:
                continue
            seen.add(state.done)
            for after in self.next(state):
                if after.done not in seen:
                    count += 1
                    # Of equal peaks, whoever is further on; then whoever came first.
                    key = (self.cost(after), -after.done.bit_count(), count)
                    heapq.heappush(heap, (*key, after))
        return None

    def beam(self) -> MemoryState:
        """A good order: the best few states at each number of steps done."""
        levels: dict[int, dict[int, MemoryState]] = {0: {self.start.done: self.start}}
        base = self.start.done.bit_count()
        self.spent = 0
        for level in range(len(self.members)):
            states = sorted(
                levels.pop(level, {}).values(), key=lambda each: (self.cost(each), each.live)
            )
            if self.spent > 2 * BEAM_BUDGET and states:
                return self.as_given(states[0])
            for state in states[: self.width(level, states)]:
                for after in self.next(state):
                    there = levels.setdefault(after.done.bit_count() - base, {})
                    best = there.get(after.done)
                    if best is None or after.peak < best.peak:
                        there[after.done] = after
        return levels[len(self.members)][self.goal]

    def width(self, level: int, states: Sequence[MemoryState]) -> int:
        """How many states of a level the budget has room for."""
        choices = max((len(state.ready) for state in states[:MAX_BEAM]), default=1)
        share = (BEAM_BUDGET - self.spent) // ((len(self.members) - level) * max(1, choices))
        return max(1, min(MAX_BEAM, share))

    def best(self) -> MemoryState:
        """The given order where no other can be better, else what a search finds."""
        given = self.as_given(self.start)
        if given.peak <= max(self.floor, self.start.peak):
            return given
        found = self.exact() or self.beam()
        return found if found.peak < given.peak else given


def _pieces(count: int, ancestors: list[int], descendants: list[int]) -> Iterator[tuple[int, ...]]:
    """Runs of steps between those that every other step comes before or after."""
    piece: list[int] = []
    for place in sorted(range(count), key=lambda each: (ancestors[each].bit_count(), each)):
        if (ancestors[place] | descendants[place]).bit_count() == count - 1:
            yield tuple(sorted(piece))
            yield (place,)
            piece = []
        else:
            piece.append(place)
    yield tuple(sorted(piece))


def _unwind(path: Path) -> list[int]:
    found: list[int] = []
    while path is not None:
        path, step = path
        found.append(step)
    return found[::-1]


def best_order(
    steps: Sequence[MemoryStep], sizes: Mapping[str, int], keep: frozenset[str] = frozenset()
) -> list[int]:
    """The order of steps with the least peak that was found.

    Args:
        steps: in an order that is possible; the result is never worse than that.
        sizes: bytes of every root.
        keep: roots that stay live to the end.

    Returns:
        Indices of the steps.  Equal arguments give equal results.
    """
    costs = LifetimeCosts(steps, sizes, keep)
    ancestors, descendants = _ancestors(steps), _descendants(steps)
    if not steps:
        return []
    floor = int(_Needs(costs, ancestors, descendants).bytes.max())
    state = costs.start()
    for members in _pieces(len(steps), ancestors, descendants):
        state = _Piece(costs, members, state, max(floor, state.peak)).best()
    return _unwind(state.path)
