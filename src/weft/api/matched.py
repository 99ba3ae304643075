"""What is done with matches: replaced, marked in pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import signature
from typing import Any, cast

from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.match.query import Matches
from weft.match.view import Match
from weft.surgery.chosen import HasNodes, Nodes, node_names
from weft.surgery.nodes import replace_several
from weft.surgery.part import Part
from weft.surgery.view import view

MOST_MARKS = 8
"""So many matches are marked by themselves; more are marked as one."""


def replace_matches(graph: Graph, matches: Iterable[Match], part: Part) -> Graph:
    """The graph with something else in the place of matches that share no nodes."""
    taken: dict[str, int] = {}
    places: list[Any] = []
    takes_match = _takes_match(part)
    for number, match in enumerate(_matches(matches), 1):
        names = node_names(graph, match, "replace")
        for name in names:
            if taken.setdefault(name, number) != number:
                raise UserError(
                    f"replace: matches {taken[name]} and {number} share node {name}",
                    fix="Use greedy or best overlaps.",
                )
        if not names:
            raise UserError("replace: a match must have nodes", got="one of values alone")
        come = partial(cast(Callable[..., Any], part), match) if takes_match else part
        places.append((view(graph, names), come))
    return replace_several(graph, places)


def _matches(given: object) -> list[Match]:
    found = [given] if isinstance(given, Match) else given
    if isinstance(found, Iterable):
        listed = list(cast(Iterable[object], found))
        if all(isinstance(each, Match) for each in listed):
            return cast(list[Match], listed)
    raise UserError(
        "replace: expected a query or its matches",
        got=type(given).__name__,
        fix="Net.replace replaces nodes by their names.",
    )


def _takes_match(part: Part) -> bool:
    """Whether a function wants the match before the values."""
    if isinstance(part, Graph):
        return False
    try:
        first = next(iter(signature(part).parameters), "")
    except (TypeError, ValueError):  # what is no function is refused where it is used
        return False
    return first == "match"


def highlighted(
    graph: Graph, given: Mapping[str, Nodes] | Nodes | None
) -> dict[str, tuple[str, ...]] | None:
    """What a picture marks: names of nodes by caption."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        marked = cast(Mapping[str, Nodes], given)
        return {caption: node_names(graph, each, "draw") for caption, each in marked.items()}
    if isinstance(given, str | Node | HasNodes):
        return {"marked": node_names(graph, given, "draw")}
    listed = cast(Any, given)
    if isinstance(given, Matches) and len(given) <= MOST_MARKS:
        named = {f"match {n}": node_names(graph, each, "draw") for n, each in enumerate(given, 1)}
        return {caption: names for caption, names in named.items() if names}
    listed = list(cast(Iterable[Any], listed)) if isinstance(listed, Iterable) else listed
    names = node_names(graph, listed, "draw")
    return {"matches" if isinstance(given, Matches) else "marked": names} if names else None
