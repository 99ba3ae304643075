"""Liveness: what a step does to memory, and what is live when in a given order of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from weft.ir.naming import fresh
from weft.plan.interval import Interval
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class MemoryStep:
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


Path: TypeAlias = "tuple[Path, int] | None"


@dataclass(frozen=True, slots=True)
class Use:
    """A root as one step sees it; ``writers`` and ``users`` are sets of steps, as bits."""

    name: str
    size: int
    writers: int
    users: int
    keep: bool
    written: bool


@dataclass(frozen=True, slots=True)
class MemoryState:
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


class LifetimeCosts:
    """Memory before, during and after steps."""

    def __init__(
        self, steps: Sequence[MemoryStep], sizes: Mapping[str, int], keep: frozenset[str]
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

    def _uses(self, step: MemoryStep) -> tuple[Use, ...]:
        return tuple(self.use(root, root in step.writes) for root in _touched(step))

    def use(self, root: str, written: bool) -> Use:
        """A root as a step that writes it, or does not, sees it."""
        return Use(
            root,
            self.sizes[root],
            self.writers.get(root, 0),
            self.users[root],
            root in self.keep,
            written,
        )

    def _pairs(self, step: MemoryStep) -> tuple[tuple[Use, Use], ...]:
        return tuple(
            (self.use(new, True), self.use(old, False))
            for new, old in step.in_place
            if self.sizes[new] == self.sizes[old] and old in step.reads and new in step.writes
        )

    def start(self) -> MemoryState:
        """Before the first step: roots that no step writes are live."""
        live = sum(self.sizes[root] for root in self.users if root not in self.writers)
        ready = tuple(place for place, before in enumerate(self.before) if not before)
        return MemoryState(0, live, live, ready, None)

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

    def advance(self, state: MemoryState, step: int) -> MemoryState:
        """The state after one more step."""
        during, live = self.run(step, state.done, state.live)
        done = state.done | 1 << step
        freed = [later for later in self.after[step] if not self.before[later] & ~done]
        ready = sorted((*(each for each in state.ready if each != step), *freed))
        return MemoryState(done, live, max(state.peak, during), tuple(ready), (state.path, step))


def _touched(step: MemoryStep) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*step.reads, *step.writes)))


def peak(
    order: Iterable[int],
    steps: Sequence[MemoryStep],
    sizes: Mapping[str, int],
    keep: frozenset[str] = frozenset(),
) -> int:
    """Bytes live at the worst moment of an order."""
    costs = LifetimeCosts(steps, sizes, keep)
    state = costs.start()
    for step in order:
        state = costs.advance(state, step)
    return state.peak


def lifetimes(
    order: Sequence[int],
    steps: Sequence[MemoryStep],
    sizes: Mapping[str, int],
    keep: frozenset[str] = frozenset(),
) -> Lifetimes:
    """When each root is live in an order, and which roots share memory."""
    costs = LifetimeCosts(steps, sizes, keep)
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
    order: Sequence[int], steps: Sequence[MemoryStep], taken: Mapping[str, tuple[int, int]]
) -> dict[int, str]:
    names: dict[int, str] = {}
    for step in order:
        if steps[step].scratch:
            names[step] = fresh(f"scratch_{step}", taken)
    return names
