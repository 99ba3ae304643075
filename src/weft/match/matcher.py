"""The matcher: runs the steps of a query over a graph.

It backtracks over an explicit stack, so that neither long queries nor deep graphs exhaust
Python's own.  What follows a repetition is found once for each place and remembered: the
cost of ``*`` is that of the places that it can be at, not of the ways that lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from weft.errors import UserError
from weft.ir.graph import Node
from weft.match.conditions import Subject, input_places, output_places
from weft.match.program import (
    ANYWHERE,
    DONE,
    ROUND,
    ArrangeStep,
    Done,
    LinkStep,
    LookStep,
    LoopStep,
    NodeStep,
    NumberStep,
    Place,
    Program,
    RefStep,
    RestartStep,
    SplitStep,
    Step,
    ValueStep,
)
from weft.match.view import View

Bindings: TypeAlias = Mapping[str, str]


class Entry(NamedTuple):
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


Entries: TypeAlias = "tuple[Entry, Entries] | None"
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


_STEPS = 30_000
_STEPS_PER_NODE = 40


@dataclass
class Budget:
    """How much may still be tried."""

    most: int
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.most

    @staticmethod
    def of(view: View) -> Budget:
        """What a graph of this size gets."""
        return Budget(_STEPS + _STEPS_PER_NODE * len(view.nodes))

    def spend(self, count: int = 1) -> None:
        """Note steps, and give up when there have been too many."""
        self.left -= count
        if self.left < 0:
            raise TooManyWays(
                "query: it can match in too many ways",
                got=f"no end after {self.most:,} steps",
                fix="Say more about what stands in its repetitions, or ask for greedy overlaps.",
            )


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


class _Round(NamedTuple):
    """One round of a repetition, and where it leads."""

    entries: tuple[Entry, ...]
    bound: Bindings
    pending: Pending
    then: Any


class Search:
    """A search for matches.

    Args:
        view: the graph.
        program: the query.
        distinguish: which matches are different.
        budget: how much may be tried.
        without: nodes that must not take part.
    """

    def __init__(
        self,
        view: View,
        program: Program,
        distinguish: Distinguish = Distinguish.FIRM,
        budget: Budget | None = None,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.view = view
        self.program = program
        self.distinguish = distinguish
        self.budget = budget or Budget.of(view)
        self.without = without
        self._remembered: dict[Any, Completions] = {}
        self._looked: dict[tuple[LookStep, Place], bool] = {}
        self._by_op: dict[str, list[Node]] | None = None
        self._looker: Search | None = None

    def matches(self, node: Node | None = None) -> Iterator[Found]:
        """Every way to match, from a node if one is given; the same match may come twice."""
        begin = Config(self.program.entry, (None, node), {})
        for found in self.run(begin):
            if self._holds_at_end(found):
                yield found

    def run(self, config: Config) -> Iterator[Found]:
        """Follow the steps from a point of the search to every end."""
        stack = [config]
        while stack:
            config = stack.pop()
            self.budget.spend()
            step = config.step
            if isinstance(step, Done):
                agenda = config.agenda
                if agenda is None:
                    # Only the end of a round is a place from which anything goes on.
                    place = config.place if step is ROUND else ANYWHERE
                    yield Found(place, config.bound, config.entries, None, config.pending)
                    continue
                after, place, parent, rest = agenda
                stack.append(config._replace(step=after, place=place, parent=parent, agenda=rest))
            elif isinstance(step, LoopStep):
                yield from self._loop(step, config)
            else:
                stack.extend(reversed(_RUN[type(step)](self, step, config)))

    # --- values -----------------------------------------------------------------------------

    def _value(self, step: ValueStep, config: Config) -> list[Config]:
        value, mark = config.place
        if value is not None:
            return self._with_value(step, config, value, mark)
        found: list[Config] = []
        for each in self._candidates(step, config.bound):
            found += self._with_value(step, config, each, ())
        return found

    def _with_value(self, step: ValueStep, config: Config, value: str, mark: Any) -> list[Config]:
        bound = self._fit(step, value, config.bound)
        if bound is None:
            return []
        return [config._replace(step=step.next, place=(value, mark), bound=bound)]

    def _candidates(self, step: ValueStep, bound: Bindings) -> Iterable[str]:
        if step.name in bound:
            return (bound[step.name],)
        match step.kind:
            case "input":
                return self.view.inputs
            case "output":
                return self.view.outputs
            case "const":
                return self.view.constants
            case _:
                return self.view.types

    def _fit(self, step: ValueStep, value: str, bound: Bindings) -> Bindings | None:
        """The names bound when a value is what a step says."""
        if not value and not step.optional:
            return None
        if step.kind and value not in self._of_kind(step.kind):
            return None
        if step.check is not None:
            maker = self.view.producers.get(value)
            if not value or not step.check(Subject(self.view, maker, value)):
                return None
        if not step.name:
            return bound
        known = bound.get(step.name)
        if known is None:
            return {**bound, step.name: value}
        return bound if known == value else None

    def _of_kind(self, kind: str) -> Iterable[str] | Any:
        view = self.view
        return (
            view.constants if kind == "const" else view.inputs if kind == "input" else view.outputs
        )

    def _number(self, step: NumberStep, config: Config) -> list[Config]:
        value, mark = config.place
        values = self.view.constants if value is None else (value,)
        return [
            config._replace(step=step.next, place=(each, mark))
            for each in values
            if is_number(self.view.constants.get(each), step.value)
        ]

    def _ref(self, step: RefStep, config: Config) -> list[Config]:
        value, mark = config.place
        if value is None:
            found: list[Config] = []
            known = config.bound.get(step.name)
            for each in self.view.producers if known is None else (known,):
                found += self._ref(step, config._replace(place=(each, ())))
            return found
        known = config.bound.get(step.name)
        if known is not None:
            return self._known(step, config, value) if known == value else []
        if not value:
            return []
        agenda = config.agenda
        if step.next is not DONE:
            agenda = (step.next, (value, mark), config.parent, agenda)
        bound = {**config.bound, step.name: value}
        return [config._replace(step=step.body, place=(value, None), bound=bound, agenda=agenda)]

    def _known(self, step: RefStep, config: Config, value: str) -> list[Config]:
        # The order of a match's nodes depends on every place that a node stands at.
        entries = config.entries
        maker = self.view.producers.get(value)
        if maker is not None:
            entries = (Entry(maker, config.parent, known=True), entries)
        return [config._replace(step=step.next, entries=entries)]

    # --- nodes ------------------------------------------------------------------------------

    def _node(self, step: NodeStep, config: Config) -> list[Config]:
        found: list[Config] = []
        for node in self._nodes_at(step, config):
            if node.name in self.without or not self._passes(step, node):
                continue
            bound = self._named(step, node, config.bound)
            if bound is not None:
                self._enter(step, node, config, bound, found)
        return found

    def _nodes_at(self, step: NodeStep, config: Config) -> Iterable[Node]:
        value, mark = config.place
        view = self.view
        if value is None:
            return (mark,) if mark is not None else self._all_of(step, config.bound)
        if not step.forward:
            maker = view.producers.get(value)
            outputs = step.outputs
            if maker is None or (
                outputs is not None and not step.open and maker.outputs.index(value) >= len(outputs)
            ):
                return ()
            return (maker,)
        if not value:
            return [node for node in view.nodes.values() if not any(node.inputs)]
        if mark:
            return [node for node in view.readers(value) if _labelled(node, value, mark)]
        return view.readers(value)

    def _all_of(self, step: NodeStep, bound: Bindings) -> Iterable[Node]:
        nodes = self.view.nodes
        if step.capture in bound:
            return (nodes[bound[step.capture]],)
        if self._by_op is None:
            self._by_op = {}
            for node in nodes.values():
                self._by_op.setdefault(node.op, []).append(node)
        if len(step.tests) == 1 and not step.negated and step.tests[0].op != "*":
            return self._by_op.get(step.tests[0].op, ())
        self.budget.spend(len(nodes))
        return nodes.values()

    def _passes(self, step: NodeStep, node: Node) -> bool:
        for test in step.tests:
            if test.op not in ("*", node.op):
                continue
            if test.check is None or test.check(Subject(self.view, node, _first(node.outputs))):
                return not step.negated
        return step.negated

    def _named(self, step: NodeStep, node: Node, bound: Bindings) -> Bindings | None:
        """The names bound when a node is what a step says."""
        own: dict[str, str] = {}
        outputs = step.outputs
        if outputs is not None:
            if len(outputs) > len(node.outputs):
                return None
            if not step.open:
                extra = node.outputs[len(outputs) :]
                if any(value and self.view.use_count(value) for value in extra):
                    return None
            own = {
                name: value
                for name, value in zip(outputs, node.outputs, strict=False)
                if name != "_"
            }
        if step.capture:
            own[step.capture] = node.name
        if not own:
            return bound
        if any(bound.get(name, value) != value for name, value in own.items()):
            return None
        return {**bound, **own}

    def _enter(
        self,
        step: NodeStep,
        node: Node,
        config: Config,
        bound: Bindings,
        found: list[Config],
    ) -> None:
        """Add the points beyond a node, with its operands still to be done."""
        ready = self._operands(step, node, bound)
        if ready is None:
            return
        bound, tasks = ready
        entry = Entry(node, config.parent, step.fixed or config.parent is None)
        entries = (entry, config.entries)
        for place in self._beyond(step, node):
            after, then, agenda = step.next, place, config.agenda
            if tasks:
                if after is not DONE:
                    agenda = (after, place, node.name, agenda)
                for operand, value in reversed(tasks[1:]):
                    agenda = (operand, value, node.name, agenda)
                after, then = tasks[0]
            found.append(Config(after, then, bound, entries, agenda, node.name, config.pending))

    def _operands(
        self, step: NodeStep, node: Node, bound: Bindings
    ) -> tuple[Bindings, list[tuple[Step, Place]]] | None:
        """The names that plain operands bind, and the operands that take steps."""
        operands, inputs = step.operands, node.inputs
        tasks: list[tuple[Step, Place]] = []
        if operands is None:
            return bound, tasks
        if not step.ordered:
            if len(inputs) != step.count:
                return None
            return bound, [(operand, ("", inputs)) for operand in operands]
        for place, operand in enumerate(operands):
            value = inputs[place] if place < len(inputs) else ""
            if isinstance(operand, ValueStep) and operand.next is DONE:
                fitted = self._fit(operand, value, bound)
                if fitted is None:
                    return None
                bound = fitted
            else:
                tasks.append((operand, (value, None)))
        if not step.rest and any(inputs[len(operands) :]):
            return None
        return bound, tasks

    def _beyond(self, step: NodeStep, node: Node) -> list[Place]:
        """The places on the other side of a node."""
        if step.next is DONE or isinstance(step.next, RestartStep):
            return [ANYWHERE]
        if step.forward:
            outputs = node.outputs
            if step.outputs is not None:
                outputs = outputs[: len(step.outputs)]
            return [(value, ()) for value in dict.fromkeys(outputs) if value]
        if self.program.links:
            places = enumerate(node.inputs)
            found: list[Place] = [(value, (node.op, i)) for i, value in places if value]
        else:
            found = [(value, None) for value in dict.fromkeys(node.inputs) if value]
        return found or [("", None)]

    def _arrange(self, step: ArrangeStep, config: Config) -> list[Config]:
        """Try the first of the operands on every input that is left."""
        inputs: tuple[str, ...] = config.place[1]
        operand = step.operands[0]
        found: list[Config] = []
        for place, value in enumerate(inputs):
            rest = (*inputs[:place], *inputs[place + 1 :])
            bound: Bindings | None = config.bound
            if isinstance(operand, ValueStep) and operand.next is DONE:
                bound = self._fit(operand, value, config.bound)
                if bound is None:
                    continue
                if step.after is None:
                    found.append(config._replace(step=DONE, bound=bound))
                else:
                    found.append(config._replace(step=step.after, place=("", rest), bound=bound))
                continue
            agenda = config.agenda
            if step.after is not None:
                agenda = (step.after, ("", rest), config.parent, agenda)
            found.append(config._replace(step=operand, place=(value, None), agenda=agenda))
        return found

    # --- edges, choices, looks ---------------------------------------------------------------

    def _link(self, step: LinkStep, config: Config) -> list[Config]:
        value, mark = config.place
        if value is None:
            return [config._replace(place=(each, ())) for each in self.view.types]
        if not value or not self._leaves_by(step.source, value):
            return []
        if step.target is not None:
            if step.forward:
                mark = tuple(sorted({*(mark or ()), step.target}, key=str))
            elif mark and mark[1] not in input_places(mark[0], step.target):
                return []
        return [config._replace(step=step.next, place=(value, mark))]

    def _leaves_by(self, port: str | int | None, value: str) -> bool:
        if port is None:
            return True
        maker = self.view.producers.get(value)
        return maker is not None and maker.outputs.index(value) in output_places(maker.op, port)

    def _split(self, step: SplitStep, config: Config) -> list[Config]:
        return [config._replace(step=option) for option in step.options]

    def _restart(self, step: RestartStep, config: Config) -> list[Config]:
        return [config._replace(step=step.next, place=ANYWHERE)]

    def _look(self, step: LookStep, config: Config) -> list[Config]:
        value, _ = config.place
        if value is None:
            values = [*self.view.types, ""]
            return [config._replace(place=(each, ())) for each in values]
        after = config._replace(step=step.next)
        if step.shared:
            return [after._replace(pending=(*config.pending, (step, (value, ()))))]
        return [after] if self._sees(step, (value, ()), {}) else []

    def _sees(self, step: LookStep, place: Place, bound: Bindings) -> bool:
        """Whether what a look is for is so."""
        key = (step, place)
        if not bound and key in self._looked:
            return self._looked[key]
        if self._looker is None:
            self._looker = self
            if self.without:
                self._looker = Search(self.view, self.program, Distinguish.START, self.budget)
        begin = Config(step.body, place, bound, parent="")
        found = next(self._looker.run(begin), None) is not None
        if not bound:
            self._looked[key] = found != step.negative
        return found != step.negative

    def _holds_at_end(self, found: Found) -> bool:
        for left, right in self.program.distinct:
            one = found.bound.get(left)
            if one is not None and one == found.bound.get(right):
                return False
        for step, place in found.pending:
            bound = {name: found.bound[name] for name in step.shared if name in found.bound}
            if not self._sees(step, place, bound):
                return False
        return True

    # --- repetitions -------------------------------------------------------------------------

    def _loop(self, step: LoopStep, config: Config) -> Iterator[Found]:
        """The ends of everything from a repetition on."""
        key = self._key(step, config.place, 0, config.bound, config.agenda, config.parent)
        for each in self._completions(key).values():
            bound = {**config.bound, **each.bound} if each.bound else config.bound
            place = each.place or ANYWHERE
            pending = config.pending + each.pending
            yield Found(place, bound, config.entries, each, pending)

    def _key(
        self,
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

    def _completions(self, key: Any) -> Completions:
        """Every way on from a repetition, the rounds from the last to the first."""
        remembered = self._remembered
        rounds: dict[Any, list[_Round]] = {}
        stack = [key]
        while stack:
            key = stack[-1]
            if key in remembered:
                stack.pop()
            elif key not in rounds:
                rounds[key] = self._rounds(key)
                then = dict.fromkeys(each.then for each in rounds[key])
                stack.extend(each for each in then if each not in remembered)
            else:
                remembered[key] = self._combined(key, rounds.pop(key))
                stack.pop()
        return remembered[key]

    def _rounds(self, key: Any) -> list[_Round]:
        """What one more round can be."""
        step, place, count, known, agenda, started = key
        if step.most is not None and count >= step.most:
            return []
        begin = Config(step.body, place, dict(known), parent="" if started else None)
        found: list[_Round] = []
        for each in self.run(begin):
            entries = list(entries_of(each))
            bound = dict(each.bound)
            for name in step.locals:
                if name in bound:
                    entries.append(Entry(None, name=name, value=bound.pop(name)))
            on = started or any(entry.node for entry in entries)
            parent = "" if on else None
            then = self._key(step, each.place, count + 1, bound, agenda, parent)
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
            self.budget.spend(len(follow))
            start, fixed, size = _summary(each.entries)
            for way in follow.values():
                entries = way.entries
                for entry in reversed(each.entries):
                    entries = (entry, entries)
                bound = {**each.bound, **way.bound} if each.bound else way.bound
                self.keep(
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
                self.keep(found, self.completion(end, bound))
        return found

    def completion(self, end: Found, given: Bindings) -> Completion:
        """The end of a search as a way there; ``given`` was bound before."""
        # Entries that a repetition has summed up are not looked at again.
        start, fixed, size = _summary(entries_in(end.before))
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
                rounds = tuple(sorted((e.name, e.value) for e in entries if e.node is None))
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


_RUN: Mapping[type, Callable[[Search, Any, Config], list[Config]]] = {
    ValueStep: Search._value,  # pyright: ignore[reportPrivateUsage]
    NumberStep: Search._number,  # pyright: ignore[reportPrivateUsage]
    NodeStep: Search._node,  # pyright: ignore[reportPrivateUsage]
    ArrangeStep: Search._arrange,  # pyright: ignore[reportPrivateUsage]
    LinkStep: Search._link,  # pyright: ignore[reportPrivateUsage]
    SplitStep: Search._split,  # pyright: ignore[reportPrivateUsage]
    RefStep: Search._ref,  # pyright: ignore[reportPrivateUsage]
    LookStep: Search._look,  # pyright: ignore[reportPrivateUsage]
    RestartStep: Search._restart,  # pyright: ignore[reportPrivateUsage]
}


def is_number(array: np.ndarray | None, number: float) -> bool:
    """Whether a constant is this number, as its own type rounds it."""
    if array is None or array.size != 1:
        return False
    return bool(array.reshape(-1)[0] == np.asarray(number).astype(array.dtype))


def _first(values: tuple[str, ...]) -> str:
    return next((value for value in values if value), "")


def _labelled(node: Node, value: str, labels: tuple[str | int, ...]) -> bool:
    """Whether a node reads a value at a position that all labels are for."""
    return any(
        each == value and all(place in input_places(node.op, label) for label in labels)
        for place, each in enumerate(node.inputs)
    )


def _items(bound: Bindings) -> frozenset[tuple[str, str]]:
    return frozenset(bound.items())


def entries_in(entries: Entries) -> Iterator[Entry]:
    """The entries of a list."""
    while entries is not None:
        yield entries[0]
        entries = entries[1]


def entries_of(found: Found) -> tuple[Entry, ...]:
    """What a search found, in the order of the steps."""
    before = reversed(list(entries_in(found.before)))
    return (*before, *entries_in(found.rest.entries if found.rest else None))


def _summary(entries: Iterable[Entry]) -> tuple[str, frozenset[str], int]:
    """The first node of a match if it is among them, the fixed ones, and how many there are."""
    start, fixed, count = "", set[str](), 0
    for entry in entries:
        if entry.node is not None and not entry.known:
            count += 1
            if entry.parent is None:
                start = entry.node.name
            if entry.fixed:
                fixed.add(entry.node.name)
    return start, frozenset(fixed), count
