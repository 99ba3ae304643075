"""The matcher: runs the steps of a query over a graph.

It backtracks over an explicit stack, so that neither long queries nor deep graphs exhaust
Python's own.  What follows a repetition is found once for each place and remembered: the
cost of ``*`` is that of the places that it can be at, not of the ways that lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from weft.cached import cached_property
from weft.ir.graph import Node
from weft.match.necessary import may_match
from weft.match.nodes import at_arrange, at_node
from weft.match.program import (
    ANYWHERE,
    ROUND,
    ArrangeStep,
    Done,
    LinkStep,
    LookStep,
    LoopStep,
    NodeStep,
    NumberStep,
    Place,
    QueryProgram,
    RefStep,
    RestartStep,
    SplitStep,
    ValueStep,
)
from weft.match.repeats import Repetitions
from weft.match.search_state import (
    Bindings,
    Budget,
    Config,
    Distinguish,
    Found,
    Kinds,
    SearchEntry,
    entries_of,
)
from weft.match.site import Site
from weft.match.values import at_link, at_number, at_ref, at_restart, at_split, at_value
from weft.match.view import Match, QueryableGraph


class GraphSearch:
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
        view: QueryableGraph,
        program: QueryProgram,
        distinguish: Distinguish = Distinguish.FIRM,
        budget: Budget | None = None,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.site = Site(view, program, budget or Budget.of(view, program), without)
        self.distinguish = distinguish
        self._looked: dict[tuple[LookStep, Place], bool] = {}
        self._looker: GraphSearch | None = None

    @cached_property
    def kinds(self) -> Kinds:
        """Which matches are alike."""
        return Kinds(self.site.view, self.site.program, self.distinguish, self.site.budget)

    @cached_property
    def _repetitions(self) -> Repetitions:
        return Repetitions(self.run, self.kinds)

    def matches(self, node: Node | None = None) -> Iterator[Found]:
        """Every way to match, from a node if one is given; the same match may come twice."""
        begin = Config(self.site.program.entry, (None, node), {})
        for found in self.run(begin):
            if self._holds_at_end(found):
                yield found

    def run(self, config: Config) -> Iterator[Found]:
        """Follow the steps from a point of the search to every end."""
        stack, budget = [config], self.site.budget
        while stack:
            config = stack.pop()
            budget.spend()
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
            elif isinstance(step, LookStep):
                stack.extend(reversed(self._look(step, config)))
            else:
                stack.extend(reversed(_RUN[type(step)](self.site, step, config)))

    def _look(self, step: LookStep, config: Config) -> list[Config]:
        value, _ = config.place
        if value is None:
            values = [*self.site.view.types, ""]
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
            site = self.site
            if site.without:
                self._looker = GraphSearch(site.view, site.program, Distinguish.START, site.budget)
        begin = Config(step.body, place, bound, parent="")
        found = next(self._looker.run(begin), None) is not None
        if not bound:
            self._looked[key] = found != step.negative
        return found != step.negative

    def _holds_at_end(self, found: Found) -> bool:
        for left, right in self.site.program.distinct:
            one = found.bound.get(left)
            if one is not None and one == found.bound.get(right):
                return False
        for step, place in found.pending:
            bound = {name: found.bound[name] for name in step.shared if name in found.bound}
            if not self._sees(step, place, bound):
                return False
        return True


_RUN: Mapping[type, Callable[[Site, Any, Config], list[Config]]] = {
    ValueStep: at_value,
    NumberStep: at_number,
    NodeStep: at_node,
    ArrangeStep: at_arrange,
    LinkStep: at_link,
    SplitStep: at_split,
    RefStep: at_ref,
    RestartStep: at_restart,
}


def matches_at(program: QueryProgram, node: Node, view: QueryableGraph) -> Iterator[Match]:
    """Every match that begins at a node."""
    if not may_match(program, node, view):
        return
    for found in GraphSearch(view, program).matches(node):
        values = dict(found.bound)
        named = {name: view.nodes[values.pop(name)] for name in program.captures & values.keys()}
        yield Match(view, node, values, _by_level(entries_of(found)), named)


def _by_level(entries: Iterable[SearchEntry]) -> tuple[Node, ...]:
    """The nodes that take part: the first, then its operands, then theirs."""
    operands: dict[str | None, list[Node]] = {}
    for entry in entries:
        if entry.node is not None:
            operands.setdefault(entry.parent, []).append(entry.node)
    order: dict[str, Node] = {}
    pending = list(operands.get(None, ()))
    for node in pending:
        if node.name not in order:
            order[node.name] = node
            pending.extend(operands.get(node.name, ()))
    return tuple(order.values())
