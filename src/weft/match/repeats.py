"""What follows a repetition: found once for every place, the rounds from the last to the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from weft.match.program import ANYWHERE, LoopStep, Place
from weft.match.search_state import (
    Agenda,
    Bindings,
    Completion,
    Completions,
    Config,
    Found,
    Kinds,
    Pending,
    SearchEntry,
    completion,
    entries_of,
    summary,
)


class _Round(NamedTuple):
    """One round of a repetition, and where it leads."""

    entries: tuple[SearchEntry, ...]
    bound: Bindings
    pending: Pending
    then: Any


class Repetitions:
    """The repetitions of one search.

    Args:
        run: follows steps from a point of the search to every end.
        kinds: which ways are alike.
    """

    def __init__(self, run: Callable[[Config], Iterator[Found]], kinds: Kinds) -> None:
        self.run = run
        self.kinds = kinds
        self._remembered: dict[Any, Completions] = {}

    def found(self, step: LoopStep, config: Config) -> Iterator[Found]:
        """The ends of everything from a repetition on."""
        key = _key(step, config.place, 0, config.bound, config.agenda, config.parent)
        for each in self._completions(key).values():
            bound = {**config.bound, **each.bound} if each.bound else config.bound
            place = each.place or ANYWHERE
            pending = config.pending + each.pending
            yield Found(place, bound, config.entries, each, pending)

    def _completions(self, key: Any) -> Completions:
        """Every way on from a repetition, the rounds from the last to the first."""
        remembered = self._remembered
        rounds: dict[Any, list[_Round]] = {}
        stack = [key]
        while stack:
            key = stack[-1]
            if key in remembered:
                stack.pop()
            elif self._beyond(key):
                remembered[key] = {}
            elif key not in rounds:
                rounds[key] = self._rounds(key)
                then = dict.fromkeys(each.then for each in rounds[key])
                stack.extend(each for each in then if each not in remembered)
            else:
                remembered[key] = self._combined(key, rounds.pop(key))
                stack.pop()
        return remembered[key]

    def _beyond(self, key: Any) -> bool:
        """Whether something that every way on meets has been passed: no edge leads back."""
        step, (value, _), _, known, _, _ = key
        view = self.kinds.view
        if not (step.targets and value and view.ordered):
            return False
        here = self._position(value)
        bound: dict[str, str] = dict(known)
        for name, is_node in step.targets:
            target = bound.get(name)
            if not target:
                continue
            there = view.place(view.nodes[target]) if is_node else self._position(target)
            if there < here if step.forward else there > here:
                return True
        return False

    def _position(self, value: str) -> tuple[int, int]:
        """Where the node stands that makes a value; what none makes comes before all."""
        maker = self.kinds.view.producers.get(value)
        return (-1, 0) if maker is None else self.kinds.view.place(maker)

    def _rounds(self, key: Any) -> list[_Round]:
        """What one more round can be."""
        step, place, count, known, agenda, started = key
        if step.most is not None and count >= step.most:
            return []
        begin = Config(step.body, place, dict(known), parent="" if started else None)
        found: list[_Round] = []
        for each in self.run(begin):
            self.kinds.budget.spend()
            entries = list(entries_of(each))
            bound = dict(each.bound)
            for name in step.locals:
                if name in bound:
                    entries.append(SearchEntry(None, name=name, value=bound.pop(name)))
            on = started or any(entry.node for entry in entries)
            parent = "" if on else None
            then = _key(step, each.place, count + 1, bound, agenda, parent)
            if then == key:
                continue  # Nothing was taken and nothing learned.
            new = {name: value for name, value in bound.items() if (name, value) not in known}
            found.append(_Round(tuple(entries), new, each.pending, then))
        return found

    def _combined(self, key: Any, rounds: list[_Round]) -> Completions:
        """The ways through any round, and the way past all."""
        step, place, count, known, agenda, started = key
        found: Completions = {}
        for each in rounds:
            follow = self._remembered[each.then]
            self.kinds.budget.spend(len(follow))
            start, fixed, size = summary(each.entries)
            for way in follow.values():
                entries = way.entries
                for entry in reversed(each.entries):
                    entries = (entry, entries)
                bound = {**each.bound, **way.bound} if each.bound else way.bound
                self.kinds.keep(
                    found,
                    Completion(
                        size + way.size,
                        start or way.start,
                        fixed | way.fixed if fixed else way.fixed,
                        bound,
                        entries,
                        each.pending + way.pending,
                        way.place,
                    ),
                )
        if count >= step.least:
            parent = "" if started else None
            bound = dict(known)
            leave = Config(step.next, place, bound, agenda=agenda, parent=parent)
            for end in self.run(leave):
                self.kinds.keep(found, completion(end, bound))
        return found


def _key(
    step: LoopStep,
    place: Place,
    count: int,
    bound: Bindings,
    agenda: Agenda,
    parent: str | None,
) -> Any:
    """All that decides what can follow."""
    count = min(count, step.least) if step.most is None else count
    needed = step.names
    rest = agenda
    while rest is not None:
        needed |= rest[0].names
        rest = rest[3]
    known = frozenset((name, bound[name]) for name in needed if name in bound)
    return (step, place, count, known, agenda, parent is not None)
