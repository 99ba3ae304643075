"""Ask a graph: all matches of a query, or those that do not overlap."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast, get_args, overload

from weft.cached import cached_property
from weft.errors import UserError, fault
from weft.ir.graph import Graph, Node
from weft.ir.naming import require_mapping
from weft.match.compile import compile_query
from weft.match.conditions import Predicate
from weft.match.disjoint import MOST_MEMBERS, heaviest
from weft.match.matcher import GraphSearch
from weft.match.messages import nearest
from weft.match.program import QueryProgram
from weft.match.search_state import (
    Budget,
    Completion,
    Deadline,
    Distinguish,
    OutOfTime,
    TooManyWays,
    completion,
    entries_in,
)
from weft.match.view import GraphView, Match, QueryableGraph
from weft.ops.resolve import resolved
from weft.records import dataclass
from weft.screen import Screen, Shown, several, some

Overlaps: TypeAlias = Literal["all", "every", "greedy", "best"]
"""Which matches are wanted where they overlap."""
Weight: TypeAlias = Callable[[Match], int]

SECONDS = 5.0
"""For how long ``best`` looks for the best set."""

_LONGEST = "of matches that differ in repetitions only the longest were considered"


class Matches(Shown, Sequence[Match]):
    """Matches in the order of the graph; each is put together when it is asked for.

    Args:
        view: the graph.
        program: the query.
        ways: how it was matched.
        cut: what was left undone, if anything was.
    """

    elsewhere: Callable[[], str] | None = None
    """Says where else the query matches, asked for only where it does not here."""

    def __init__(
        self, view: QueryableGraph, program: QueryProgram, ways: Sequence[Completion], cut: str = ""
    ) -> None:
        self.cut = cut
        self._view = view
        self._program = program
        self._ways = ways

    def __len__(self) -> int:
        return len(self._ways)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> Matches: ...
    def __getitem__(self, index: int | slice) -> Match | Matches:
        if isinstance(index, slice):
            return Matches(self._view, self._program, self._ways[index], self.cut)
        return _match(self._view, self._program, self._ways[index])

    @cached_property
    def hint(self) -> str:
        """Why there may be no match, and where there are some; nothing where there are."""
        if self._ways or self.cut:
            return ""
        ops = {node.op for node in self._view.nodes.values()}
        missing = sorted(self._program.needs - ops)
        longest = depth(self._view)
        found: list[str] = []
        if missing:
            found.append(f"the graph has no {' and no '.join(missing)}")
        elif self._program.least > longest:
            least = self._program.least
            found.append(f"no path of the graph has {least} nodes, the longest has {longest}")
        if self.elsewhere is not None:
            found.append(self.elsewhere())
        return "; ".join(filter(None, found))

    def __iter__(self) -> Iterator[Match]:
        return (_match(self._view, self._program, way) for way in self._ways)

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        title = f"Matches: {several(len(self), 'match', 'matches')}"
        told = (("note", self.cut), ("hint", self.hint))
        facts = tuple((label, text) for label, text in told if text)
        return Screen(title, facts, ("", "nodes", "names"), _Told(self), (0,))


class _Told(Sequence[tuple[str, ...]]):
    """Matches as rows of a table, each put together when it is asked for."""

    def __init__(self, matches: Matches, first: int = 0) -> None:
        self._matches, self._first = matches, first

    def __len__(self) -> int:
        return len(self._matches)

    @overload
    def __getitem__(self, index: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> _Told: ...
    def __getitem__(self, index: int | slice) -> tuple[str, ...] | _Told:
        if isinstance(index, slice):
            return _Told(self._matches[index], self._first + (index.start or 0))
        match = self._matches[index]
        named = {**match.values, **{name: node.name for name, node in match.named.items()}}
        return (
            str(self._first + index),
            some((f"{node.name} ({node.op})" for node in match.nodes), 3),
            ", ".join(f"{name} = {value or '(absent)'}" for name, value in named.items()),
        )


@dataclass(frozen=True)
class Query:
    """A query that was read.

    Attributes:
        program: what is run.
    """

    program: QueryProgram

    @staticmethod
    def read(text: str, predicates: Mapping[str, Predicate] | None = None) -> Query:
        """Reads a query.

        Args:
            text: in the language of ``docs/query.md``.
            predicates: conditions in Python, ``predicate(subject, *arguments)``, by the names
                that the query calls them.

        Raises:
            UserError: what is wrong with it, where, and what may be meant.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError("query: expected text", got=type(text).__name__)
        if predicates is not None:
            require_mapping(predicates, "query: predicates are functions by name")
            for name, each in predicates.items():
                if not callable(each):
                    rule = f"query: predicate {name} must be a function"
                    raise UserError(rule, got=repr(each))
        return Query(compile_query(text, predicates))

    def matches(
        self,
        graph: Graph,
        *,
        overlaps: Overlaps = "all",
        seconds: float = SECONDS,
        weight: Weight | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Matches:
        """The matches in a graph.

        Args:
            graph: any graph whose ops are in the table.
            overlaps: ``all`` tells those apart that differ in more than what repetitions took,
                and gives the longest of each; ``every`` gives the rest of them, too;
                ``greedy`` goes through the graph and takes from each node the longest match
                of nodes that no earlier one has; ``best`` is a set of disjoint matches of the
                largest weight.
            seconds: for how long ``best`` looks for matches and for the set.
            weight: of a match for ``best``; by default the number of its nodes.
            clock: that tells the time in seconds.

        Raises:
            UserError: it matches in too many ways.
        """
        known: tuple[str, ...] = get_args(Overlaps)
        if overlaps not in known:
            fix = nearest(str(overlaps), known)
            raise UserError("overlaps are " + ", ".join(known), got=str(overlaps), fix=fix)
        view = GraphView(resolved(graph))
        match overlaps:
            case "all":
                return self._found(view, Distinguish.FIRM)
            case "every":
                return self._found(view, Distinguish.EVERY)
            case "greedy":
                return Matches(view, self.program, _greedy(view, self.program))
            case "best":
                deadline = Deadline.after(_checked(seconds), clock)
                ways, left = self._candidates(view, deadline)
                chosen, cut = _best(view, self.program, ways, deadline, weight)
                return Matches(view, self.program, chosen, "; ".join(filter(None, (left, cut))))

    def _candidates(self, view: QueryableGraph, deadline: Deadline) -> tuple[list[Completion], str]:
        """Matches to choose from, and what is not among them."""
        known: list[Completion] = []
        # Half of the time for all, and what is left for the longest.
        for distinguish, until in (
            (Distinguish.EVERY, deadline.half()),
            (Distinguish.FIRM, deadline),
        ):
            budget = Budget.of(view, self.program, deadline=until)
            search = GraphSearch(view, self.program, distinguish, budget)
            try:
                ways, whole = _until(search)
            except TooManyWays:
                if distinguish is Distinguish.FIRM:
                    raise
                continue
            known = max(known, ways, key=len)
            if whole:
                return ways, "" if distinguish is Distinguish.EVERY else _LONGEST
        return known, f"stopped after {deadline.seconds:g} s: not all matches were found by then"

    def _found(self, view: QueryableGraph, distinguish: Distinguish) -> Matches:
        ways = _distinct(GraphSearch(view, self.program, distinguish))
        return Matches(view, self.program, ways)


def query(
    graph: Graph,
    text: str,
    *,
    overlaps: Overlaps = "all",
    predicates: Mapping[str, Predicate] | None = None,
    seconds: float = SECONDS,
    weight: Weight | None = None,
) -> Matches:
    """Reads a query and gives its matches; see ``Query``."""
    asked = Query.read(text, predicates)
    return asked.matches(graph, overlaps=overlaps, seconds=seconds, weight=weight)


def _checked(seconds: float) -> float:
    """A time limit that is a number of seconds."""
    given = cast(object, seconds)
    if isinstance(given, int | float) and not isinstance(given, bool) and given >= 0:
        return seconds
    raise UserError("seconds must be a number, 0 or more", got=repr(given))


def _until(search: GraphSearch) -> tuple[list[Completion], bool]:
    """The matches that are found until the time is over, and whether these are all."""
    found: dict[Any, Completion] = {}
    try:
        return _distinct(search, None, found), True
    except OutOfTime:
        return _sorted(search, found), False


def _distinct(
    search: GraphSearch, node: Node | None = None, found: dict[Any, Completion] | None = None
) -> list[Completion]:
    """Matches that the search tells apart, the best of each, in the order of the graph.

    Args:
        search: for them.
        node: at which they begin, if they begin at one.
        found: where those are put that are found.
    """
    found = {} if found is None else found
    program = search.site.program
    if not program.needs <= search.site.by_op.keys() or program.least > depth(search.site.view):
        return []
    for each in search.matches(node):
        search.site.budget.spend()
        search.kinds.keep(found, completion(each, {}), whole=True)
    return _sorted(search, found)


def depth(view: QueryableGraph) -> int:
    """How many nodes the longest path has, if the view's order tells; else how many there are."""
    if not view.ordered:
        return len(view.nodes)
    levels: dict[str, int] = {}
    longest = 0
    for node in view.nodes.values():
        level = 1 + max((levels.get(value, 0) for value in node.inputs), default=0)
        levels.update(dict.fromkeys(node.outputs, level))
        levels[""] = 0
        longest = max(longest, level)
    return longest


def _sorted(search: GraphSearch, found: Mapping[Any, Completion]) -> list[Completion]:
    """What was found, in the order of the graph."""
    every = search.distinguish is Distinguish.EVERY
    ways = sorted(found.values(), key=lambda way: _order(search.site.view, way, every))
    return ways if every else _without_twins(ways)


def _order(view: QueryableGraph, way: Completion, every: bool) -> Any:
    nodes = view.nodes
    start = view.place(nodes[way.start]) if way.start else (-1, 0)
    names = _names(way) if every else way.fixed
    places = sorted(view.place(nodes[name]) for name in names)
    return (start, places, -way.size, sorted(way.bound.items()))


def _without_twins(ways: Sequence[Completion]) -> list[Completion]:
    """One of those that have the same nodes: alternatives may repeat what others do not."""

    def kind(way: Completion) -> Any:
        return (way.start, way.size, frozenset(way.bound.items()))

    counts = Counter(map(kind, ways))
    found: dict[Any, Completion] = {}
    for way in ways:
        # Nodes are put together only where there is something to compare them with.
        nodes = frozenset(_names(way)) if counts[kind(way)] > 1 else frozenset[str]()
        found.setdefault((kind(way), nodes), way)
    return list(found.values())


def _greedy(view: QueryableGraph, program: QueryProgram) -> list[Completion]:
    budget = Budget.of(view, program, greedy=True)
    taken: set[str] = set()
    chosen: list[Completion] = []
    search: GraphSearch | None = None
    for way in _distinct(GraphSearch(view, program, Distinguish.START, budget)):
        if way.start in taken:
            continue
        if not taken.isdisjoint(_names(way)):
            # What it remembers holds as long as no more nodes are taken.
            if search is None:
                search = GraphSearch(view, program, Distinguish.START, budget, frozenset(taken))
            others = _distinct(search, view.nodes[way.start])
            others = [each for each in others if each.start == way.start]
            if not others:
                continue
            way = others[0]
        taken.update(_names(way))
        chosen.append(way)
        search = None
    return chosen


def _names(way: Completion) -> set[str]:
    return {entry.node.name for entry in entries_in(way.entries) if entry.node is not None}


def _best(
    view: QueryableGraph,
    program: QueryProgram,
    ways: Sequence[Completion],
    deadline: Deadline,
    weight: Weight | None,
) -> tuple[list[Completion], str]:
    """Disjoint matches of the largest weight, and what is not known about them."""
    sizes = [way.size for way in ways]
    if weight is not None:
        weights = [_weighed(weight, _match(view, program, way)) for way in ways]
    elif sum(sizes) > MOST_MEMBERS:
        weights = sizes  # nodes on two branches count twice, which only the order depends on
    else:
        weights = [len(_names(way)) for way in ways]
    chosen, cut = heaviest(sizes, lambda number: _names(ways[number]), weights, deadline)
    return [ways[number] for number in chosen], cut


def _weighed(weight: Weight, match: Match) -> int:
    """The weight that the user's function gives to a match; its faults are told as its own."""
    try:
        found = cast(object, weight(match))
        if not isinstance(found, int):
            raise TypeError(f"it must return a whole number; it returned {found!r}")
        return found
    except Exception as error:
        place = ", ".join(node.name for node in match.nodes[:4])
        raise fault("query: `weight`", weight, error, where=f"a match of {place}") from error


def _match(view: QueryableGraph, program: QueryProgram, way: Completion) -> Match:
    entries = list(entries_in(way.entries))
    nodes = {entry.node.name: entry.node for entry in entries if entry.node is not None}
    ordered = sorted(nodes.values(), key=view.place)
    told = {name: value for name, value in way.bound.items() if name not in program.hidden}
    named = {name: view.nodes[told.pop(name)] for name in sorted(program.captures & told.keys())}
    lists: dict[str, tuple[str, ...]] = dict.fromkeys(sorted(program.lists - program.hidden), ())
    for entry in entries:
        if entry.node is None and entry.name in lists:
            lists[entry.name] = (*lists[entry.name], entry.value)
    for name, values in lists.items():
        places = {value: _place(view, value, name in program.captures) for value in values}
        lists[name] = tuple(sorted(values, key=places.__getitem__))
    root = nodes.get(way.start)
    return Match(view, root, dict(sorted(told.items())), tuple(ordered), named, lists)


def _place(view: QueryableGraph, name: str, node: bool) -> tuple[int, int]:
    """Where a node stands, or the one that makes a value."""
    found = view.nodes[name] if node else view.producers.get(name)
    return (-1, 0) if found is None else view.place(found)
