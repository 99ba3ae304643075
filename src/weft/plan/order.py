"""Order: the sequence of steps that needs the least memory at its worst moment.

What is live depends only on the set of steps already done, so an order is a path through
such sets, and its peak is the largest transition on it.  The graph is cut at steps that
every other step comes before or after; each piece is searched best first, which is exact,
until a budget is spent, and by a beam from there.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np

from weft.errors import InternalError
from weft.ir.naming import fresh
from weft.plan.interval import Interval

EXACT_BUDGET = 60_000
"""Transitions that exact search may look at in one piece; a few tenths of a second."""
BEAM_BUDGET = 120_000
"""Transitions that a beam may look at in one piece; at the double it gives up."""
MAX_BEAM = 64


@dataclass(frozen=True, slots=True)
class Step:
    """One step, as ordering sees it.

    Attributes:
        before: indices of the steps that must come earlier.
        reads: roots in the arena that it reads.
        writes: roots in the arena that it writes, possibly only in part.
        in_place: (written root, read root): may share memory when the second dies here
            and the first begins here; only roots of equal size ever do.
        scratch: bytes that it needs while it runs.
    """

    before: frozenset[int] = frozenset()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    in_place: tuple[tuple[str, str], ...] = ()
    scratch: int = 0


@dataclass(frozen=True)
class Lifetimes:
    """When every root and every scratch area is live.

    Attributes:
        intervals: what needs a place in the arena; steps are counted in the new order.
        home: the interval that a root lies in: its own, or that of the root whose memory
            it took over.
        scratch: the interval of a step's scratch, by index of the step; absent where it
            needs none.
    """

    intervals: tuple[Interval, ...]
    home: Mapping[str, str]
    scratch: Mapping[int, str]


# --- what a step does to memory -------------------------------------------------------------

Path: TypeAlias = "tuple[Path, int] | None"


@dataclass(frozen=True, slots=True)
class _Use:
    """A root as one step sees it; ``writers`` and ``users`` are sets of steps, as bits."""

    name: str
    size: int
    writers: int
    users: int
    keep: bool
    written: bool


@dataclass(frozen=True, slots=True)
class _State:
    """Somewhere on the way.

    Attributes:
        done: steps done, as bits.
        live: bytes live after them; peak: at the worst moment so far.
        ready: steps that may come next.
        path: the way here.
    """

    done: int
    live: int
    peak: int
    ready: tuple[int, ...]
    path: Path


class _Costs:
    """Memory before, during and after steps."""

    def __init__(
        self, steps: Sequence[Step], sizes: Mapping[str, int], keep: frozenset[str]
    ) -> None:
        self.steps = steps
        self.sizes = sizes
        self.keep = keep
        self.writers: dict[str, int] = {}
        self.users: dict[str, int] = {}
        for place, step in enumerate(steps):
            for root in step.writes:
                self.writers[root] = self.writers.get(root, 0) | 1 << place
            for root in (*step.reads, *step.writes):
                self.users[root] = self.users.get(root, 0) | 1 << place
        self.before = [sum(1 << earlier for earlier in step.before) for step in steps]
        self.after: list[list[int]] = [[] for _ in steps]
        for place, step in enumerate(steps):
            for earlier in step.before:
                self.after[earlier].append(place)
        self.uses = [self._uses(step) for step in steps]
        self.pairs = [self._pairs(step) for step in steps]

    def _uses(self, step: Step) -> tuple[_Use, ...]:
        return tuple(self.use(root, root in step.writes) for root in _touched(step))

    def use(self, root: str, written: bool) -> _Use:
        """A root as a step that writes it, or does not, sees it."""
        return _Use(
            root,
            self.sizes[root],
            self.writers.get(root, 0),
            self.users[root],
            root in self.keep,
            written,
        )

    def _pairs(self, step: Step) -> tuple[tuple[_Use, _Use], ...]:
        return tuple(
            (self.use(new, True), self.use(old, False))
            for new, old in step.in_place
            if self.sizes[new] == self.sizes[old] and old in step.reads and new in step.writes
        )

    def start(self) -> _State:
        """Before the first step: roots that no step writes are live."""
        live = sum(self.sizes[root] for root in self.users if root not in self.writers)
        ready = tuple(place for place, before in enumerate(self.before) if not before)
        return _State(0, live, live, ready, None)

    def taken_over(self, step: int, done: int) -> list[tuple[str, str]]:
        """Pairs (new root, old root) that share memory when ``step`` runs after ``done``."""
        after = done | 1 << step
        found: list[tuple[str, str]] = []
        used: set[str] = set()
        for new, old in self.pairs[step]:
            free = new.name not in used and old.name not in used
            if free and not new.writers & done and not old.keep and not old.users & ~after:
                used |= {new.name, old.name}
                found.append((new.name, old.name))
        return found

    def run(self, step: int, done: int, live: int) -> tuple[int, int]:
        """Bytes live while a step runs, and after it."""
        after = done | 1 << step
        born = died = 0
        for use in self.uses[step]:
            if use.written and not use.writers & done:
                born += use.size
            if not use.keep and not use.users & ~after:
                died += use.size
        during = live + born + self.steps[step].scratch
        if self.pairs[step]:
            during -= sum(self.sizes[new] for new, _ in self.taken_over(step, done))
        return during, live + born - died

    def advance(self, state: _State, step: int) -> _State:
        """The state after one more step."""
        during, live = self.run(step, state.done, state.live)
        done = state.done | 1 << step
        freed = [later for later in self.after[step] if not self.before[later] & ~done]
        ready = sorted((*(each for each in state.ready if each != step), *freed))
        return _State(done, live, max(state.peak, during), tuple(ready), (state.path, step))


def _touched(step: Step) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*step.reads, *step.writes)))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _ancestors(steps: Sequence[Step]) -> list[int]:
    found: list[int] = []
    for place, step in enumerate(steps):
        mask = 0
        for earlier in step.before:
            if earlier >= place:
                raise InternalError(f"step {place} stands before step {earlier}, which it needs")
            mask |= found[earlier] | 1 << earlier
        found.append(mask)
    return found


def _descendants(steps: Sequence[Step]) -> list[int]:
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

    def __init__(self, costs: _Costs, ancestors: list[int], descendants: list[int]) -> None:
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


# --- search ---------------------------------------------------------------------------------


@dataclass
class _Piece:
    """The search for the order of some steps that follow ``start``.

    Attributes:
        floor: no peak below this matters: some moment needs as much in every order.
        spent: transitions looked at.
    """

    costs: _Costs
    members: tuple[int, ...]
    start: _State
    floor: int
    spent: int = field(default=0)

    @cached_property
    def goal(self) -> int:
        return self.start.done | sum(1 << member for member in self.members)

    def as_given(self, state: _State) -> _State:
        """The remaining steps as they stand."""
        for step in self.members:
            if not state.done >> step & 1:
                state = self.costs.advance(state, step)
        return state

    def next(self, state: _State) -> list[_State]:
        """The states one step on.

        A step that does not raise the peak and leaves no more memory live is taken at
        once: whatever follows in another order needs no less without it.
        """
        goal = self.goal
        while state.done != goal:
            found: list[_State] = []
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

    def cost(self, state: _State) -> int:
        return max(state.peak, self.floor)

    def exact(self) -> _State | None:
        """The best order, or nothing when the budget is spent."""
        goal = self.goal
        heap: list[tuple[int, int, int, _State]] = [(self.cost(self.start), 0, 0, self.start)]
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

    def beam(self) -> _State:
        """A good order: the best few states at each number of steps done."""
        levels: dict[int, dict[int, _State]] = {0: {self.start.done: self.start}}
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

    def width(self, level: int, states: Sequence[_State]) -> int:
        """How many states of a level the budget has room for."""
        choices = max((len(state.ready) for state in states[:MAX_BEAM]), default=1)
        share = (BEAM_BUDGET - self.spent) // ((len(self.members) - level) * max(1, choices))
        return max(1, min(MAX_BEAM, share))

    def best(self) -> _State:
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
    steps: Sequence[Step], sizes: Mapping[str, int], keep: frozenset[str] = frozenset()
) -> list[int]:
    """The order of steps with the least peak that was found.

    Args:
        steps: in an order that is possible; the result is never worse than that.
        sizes: bytes of every root.
        keep: roots that stay live to the end.

    Returns:
        Indices of the steps.  Equal arguments give equal results.
    """
    costs = _Costs(steps, sizes, keep)
    ancestors, descendants = _ancestors(steps), _descendants(steps)
    if not steps:
        return []
    floor = int(_Needs(costs, ancestors, descendants).bytes.max())
    state = costs.start()
    for members in _pieces(len(steps), ancestors, descendants):
        state = _Piece(costs, members, state, max(floor, state.peak)).best()
    return _unwind(state.path)


# --- a given order --------------------------------------------------------------------------


def peak(
    order: Iterable[int],
    steps: Sequence[Step],
    sizes: Mapping[str, int],
    keep: frozenset[str] = frozenset(),
) -> int:
    """Bytes live at the worst moment of an order."""
    costs = _Costs(steps, sizes, keep)
    state = costs.start()
    for step in order:
        state = costs.advance(state, step)
    return state.peak


def lifetimes(
    order: Sequence[int],
    steps: Sequence[Step],
    sizes: Mapping[str, int],
    keep: frozenset[str] = frozenset(),
) -> Lifetimes:
    """When each root is live in an order, and which roots share memory."""
    costs = _Costs(steps, sizes, keep)
    spans: dict[str, tuple[int, int]] = {}
    home: dict[str, str] = {}
    last = len(order) - 1
    for root in costs.users:
        if root not in costs.writers:
            spans[root], home[root] = (0, 0), root
    done = 0
    for place, step in enumerate(order):
        for new, old in costs.taken_over(step, done):
            home[new] = home[old]
        for root in _touched(steps[step]):
            owner = home.setdefault(root, root)
            first, _ = spans.get(owner, (place, place))
            spans[owner] = (first, last if root in keep else place)
        done |= 1 << step
    found = [Interval(name, sizes[name], *span) for name, span in spans.items()]
    scratch = _scratch(order, steps, spans)
    for place, step in enumerate(order):
        if step in scratch:
            found.append(Interval(scratch[step], steps[step].scratch, place, place))
    return Lifetimes(tuple(found), home, scratch)


def _scratch(
    order: Sequence[int], steps: Sequence[Step], taken: Mapping[str, tuple[int, int]]
) -> dict[int, str]:
    names: dict[int, str] = {}
    for step in order:
        if steps[step].scratch:
            names[step] = fresh(f"scratch_{step}", taken)
    return names
