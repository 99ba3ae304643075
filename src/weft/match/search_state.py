"""What a search finds: entries, ways from a place to the end, and which of them are alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from weft.errors import UserError
from weft.ir.graph import Node
from weft.match.program import ANYWHERE, LookStep, Place, QueryProgram, Step
from weft.match.view import QueryableGraph
from weft.records import dataclass

Bindings: TypeAlias = Mapping[str, str]


class SearchEntry(NamedTuple):
    """What was found on the way: a node, or what a round of a repetition bound.

    Attributes:
        node: the node, if it is one.
        parent: the node whose operand it is; none for the first of all.
        fixed: it does not stand in a repetition.
        known: it was found before.
        name, value: what a round bound.
    """

    node: Node | None
    parent: str | None = None
    fixed: bool = False
    known: bool = False
    name: str = ""
    value: str = ""


Entries: TypeAlias = "tuple[SearchEntry, Entries] | None"
"""A list of entries that shares what follows the first with others."""
Agenda: TypeAlias = "tuple[Step, Place, str | None, Agenda] | None"
"""What is left to do: a step, its place, whose operand it is, and what comes then."""
Pending: TypeAlias = tuple[tuple[LookStep, Place], ...]
"""What must still be looked for, when all names are bound."""


class Config(NamedTuple):
    """A point of the search."""

    step: Step
    place: Place
    bound: Bindings
    entries: Entries = None
    agenda: Agenda = None
    parent: str | None = None
    pending: Pending = ()


class Found(NamedTuple):
    """The end of a search: ``before`` runs back to the beginning, ``rest`` on to the end."""

    place: Place
    bound: Bindings
    before: Entries
    rest: Completion | None
    pending: Pending


class Distinguish(Enum):
    """Which matches count as different."""

    EVERY = "every"
    """All that differ in a node or a name."""
    FIRM = "firm"
    """Those that differ in more than what repetitions took."""
    START = "start"
    """Those that begin at different nodes."""


class TooManyWays(UserError):
    """A query that would take too long."""


class OutOfTime(Exception):
    """The time is over for which something may be looked for."""


@dataclass(frozen=True)
class Deadline:
    """Until when something may be looked for.

    Attributes:
        seconds: how long in all.
        clock: gives the time in seconds.
        end: when the time is over.
    """

    seconds: float
    clock: Callable[[], float]
    end: float

    @staticmethod
    def after(seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """A deadline from now on."""
        return Deadline(seconds, clock, clock() + seconds)

    @property
    def left(self) -> float:
        """Seconds that are left; 0 if the time is over."""
        return max(0.0, self.end - self.clock())

    def half(self) -> Deadline:
        """A deadline after half of what is left."""
        now = self.clock()
        return Deadline(self.seconds, self.clock, now + max(0.0, self.end - now) / 2)


# What finds something on deep networks or long chains takes a third of it at most.
_STEPS = 15_000
_STEPS_PER_NODE = 25
_STEPS_PER_PART = 100
# A counted repetition can be in any round at any node.
_STEPS_PER_ROUND = 8
_MOST_FOR_ROUNDS = 500_000
# How often the clock is looked at.
_STEPS_PER_LOOK = 1000

_SAY_MORE = "Say more about what stands in its repetitions, or ask for greedy overlaps."
_SAY_MORE_GREEDILY = "Say more about what stands in its repetitions, or let them count less far."


@dataclass
class Budget:
    """How much may still be tried.

    Attributes:
        most: steps.
        advice: what helps where they are not enough.
        deadline: until when, if there is one.
    """

    most: int
    advice: str = _SAY_MORE
    deadline: Deadline | None = None
    left: int = field(init=False)
    look: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.most
        self.look = self.most - _STEPS_PER_LOOK

    @staticmethod
    def of(
        view: QueryableGraph,
        program: QueryProgram,
        *,
        greedy: bool = False,
        deadline: Deadline | None = None,
    ) -> Budget:
        """What a graph and a query of these sizes get."""
        count = len(view.nodes)
        sizes = _STEPS_PER_NODE * count + _STEPS_PER_PART * program.size
        rounds = min(program.rounds, count)
        counted = min(_STEPS_PER_ROUND * count * rounds, _MOST_FOR_ROUNDS)
        advice = _SAY_MORE_GREEDILY if greedy else _SAY_MORE
        return Budget(_STEPS + sizes + counted, advice, deadline)

    def spend(self, count: int = 1) -> None:
        """Note steps, and give up when there have been too many or the time is over."""
        self.left -= count
        if self.left < 0:
            raise TooManyWays(
                "query: it can match in too many ways",
                got=f"no end after {self.most:,} steps",
                fix=self.advice,
            )
        if self.left < self.look and self.deadline is not None:
            self.look = self.left - _STEPS_PER_LOOK
            if not self.deadline.left:
                raise OutOfTime


class Completion(NamedTuple):
    """A way from a place to the end.

    Attributes:
        size: how many nodes it takes.
        start: the first node of the match, if it is on the way.
        fixed: nodes outside of repetitions.
        bound: names that it binds.
        entries: what it finds, in order.
        pending: what must still be looked for.
        place: where it ends.
    """

    size: int
    start: str
    fixed: frozenset[str]
    bound: Bindings
    entries: Entries
    pending: Pending
    place: Place | None


Completions: TypeAlias = dict[Any, Completion]


@dataclass(frozen=True)
class Kinds:
    """Which ways are alike, and which of them is kept.

    Attributes:
        view: the graph.
        program: the query.
        distinguish: which matches are different.
        budget: how much may be tried.
    """

    view: QueryableGraph
    program: QueryProgram
    distinguish: Distinguish
    budget: Budget

    def keep(self, found: Completions, new: Completion, *, whole: bool = False) -> None:
        """Add a way if it is the first of its kind, or longer than the one that there is.

        Args:
            found: what there is.
            new: the way.
            whole: it is a match, not only the end of one.
        """
        key = self._match_kind(new) if whole else self._kind(new)
        old = found.get(key)
        if old is None or self._better(new, old):
            found[key] = new

    def _kind(self, way: Completion) -> Any:
        """Two ways of one kind differ only in what does not distinguish matches."""
        match self.distinguish:
            case Distinguish.EVERY:
                entries = tuple(entries_in(way.entries))
                nodes = frozenset(entry.node.name for entry in entries if entry.node)
                # How often does not count: rounds without nodes could find the same again.
                rounds = frozenset((e.name, e.value) for e in entries if e.node is None)
                self.budget.spend(len(entries))
                return (way.place, way.start, nodes, rounds, _items(way.bound), way.pending)
            case Distinguish.FIRM:
                return (way.place, way.start, way.fixed, _items(way.bound), way.pending)
            case Distinguish.START:
                if way.place is not None:
                    return (way.place, way.start, _items(way.bound), way.pending)
                needed = {name for pair in self.program.distinct for name in pair}
                needed.update(name for look, _ in way.pending for name in look.shared)
                bound = {name: way.bound[name] for name in needed if name in way.bound}
                return (way.start, _items(bound), way.pending)

    def _match_kind(self, way: Completion) -> Any:
        """Two matches of one kind are not told apart."""
        match self.distinguish:
            case Distinguish.EVERY:
                return self._kind(way._replace(place=None, start="", pending=()))
            case Distinguish.FIRM:
                firm = self.program.firm
                bound = {name: value for name, value in way.bound.items() if name in firm}
                return (way.start, way.fixed, _items(bound))
            case Distinguish.START:
                return way.start or _items(way.bound)

    def _better(self, new: Completion, old: Completion) -> bool:
        if new.size != old.size:
            return new.size > old.size
        return self._earlier(new.entries, old.entries)

    def _earlier(self, new: Entries, old: Entries) -> bool:
        """Whether the first node that differs comes earlier in the graph."""
        ours, theirs = new, old
        while ours is not theirs and ours is not None and theirs is not None:
            one, other = ours[0].node, theirs[0].node
            if one is not None and other is not None and one.name != other.name:
                return self.view.place(one) < self.view.place(other)
            ours, theirs = ours[1], theirs[1]
            self.budget.spend()
        return False


def completion(end: Found, given: Bindings) -> Completion:
    """The end of a search as a way there; ``given`` was bound before."""
    # Entries that a repetition has summed up are not looked at again.
    start, fixed, size = summary(entries_in(end.before))
    listed: Entries = None
    if end.rest is not None:
        listed, size = end.rest.entries, size + end.rest.size
        start, fixed = start or end.rest.start, fixed | end.rest.fixed
    before = end.before
    while before is not None:
        listed = (before[0], listed)
        before = before[1]
    bound = {name: value for name, value in end.bound.items() if name not in given}
    place = None if end.place is ANYWHERE else end.place
    return Completion(size, start, fixed, bound, listed, end.pending, place)


def _items(bound: Bindings) -> frozenset[tuple[str, str]]:
    return frozenset(bound.items())


def entries_in(entries: Entries) -> Iterator[SearchEntry]:
    """The entries of a list."""
    while entries is not None:
        yield entries[0]
        entries = entries[1]


def entries_of(found: Found) -> tuple[SearchEntry, ...]:
    """What a search found, in the order of the steps."""
    before = reversed(list(entries_in(found.before)))
    return (*before, *entries_in(found.rest.entries if found.rest else None))


def summary(entries: Iterable[SearchEntry]) -> tuple[str, frozenset[str], int]:
    """The first node of a match if it is among them, the fixed ones, and how many there are."""
    start, fixed, count = "", set[str](), 0
    for entry in entries:
        if entry.node is not None:
            count += not entry.known
            if entry.parent is None and not entry.known:
                start = entry.node.name
            if entry.fixed:
                fixed.add(entry.node.name)
    return start, frozenset(fixed), count
