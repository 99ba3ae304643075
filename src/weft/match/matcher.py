"""The matcher: runs the steps of a query over a graph.

It backtracks over an explicit stack, so that neither long queries nor deep graphs exhaust
Python's own.  What follows a repetition is found once for each place and remembered: the
cost of ``*`` is that of the places that it can be at, not of the ways that lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

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
from weft.match.repeats import Repetitions
from weft.match.view import View
from weft.match.ways import (
    Bindings,
    Budget,
    Config,
    Distinguish,
    Entry,
    Found,
    Kinds,
)


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
        self.budget = budget or Budget.of(view, program)
        self.without = without
        self._looked: dict[tuple[LookStep, Place], bool] = {}
        self._by_op: dict[str, list[Node]] | None = None
        self._looker: Search | None = None

    @cached_property
    def kinds(self) -> Kinds:
        """Which matches are alike."""
        return Kinds(self.view, self.program, self.distinguish, self.budget)

    @cached_property
    def _repetitions(self) -> Repetitions:
        return Repetitions(self.run, self.kinds)

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
                yield from self._repetitions.found(step, config)
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
