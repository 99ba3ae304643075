"""What users mean by nodes and values: names, nodes, views, matches, or several of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from weft.errors import UserError, nearest
from weft.ir.graph import Graph, Node


@runtime_checkable
class HasNodes(Protocol):
    """A view, or a match of a query."""

    # Any, since neither type checker nor Python take a cached property for a property.
    @property
    def nodes(self) -> Any:
        """The nodes, in a tuple."""
        ...

    @property
    def outputs(self) -> Any:
        """Names of values that they make for others, in a tuple."""
        ...


Nodes: TypeAlias = "str | Node | HasNodes | Iterable[str | Node | HasNodes]"
"""Nodes by their names, as they are, or those of views and matches."""
Values: TypeAlias = "str | Node | HasNodes | Iterable[str | Node | HasNodes]"
"""Values by their names, or those that nodes, views and matches give."""


def node_names(graph: Graph, given: Nodes, word: str) -> tuple[str, ...]:
    """The names of nodes, each once.

    Args:
        graph: that they are of.
        given: what a user gave.
        word: what is done with them, for errors.
    """
    found: dict[str, None] = {}
    for each in _each(given, f"{word}: nodes are given by their names, as nodes, or as matches"):
        if isinstance(each, str):
            found[each] = None
        elif isinstance(each, Node):
            found[each.name] = None
        else:
            found.update(dict.fromkeys(node.name for node in each.nodes))
    for name in found:
        if name not in graph.by_name and not isinstance(given, str):
            _refuse_stranger(graph, name, given, word)
    return tuple(found)


def _refuse_stranger(graph: Graph, name: str, given: object, word: str) -> None:
    """Nodes and matches of another graph are told as such; plain names the edits check."""
    if isinstance(given, Node | HasNodes):
        raise UserError(
            f"{word}: graph {graph.name} has no node {name}",
            got=f"a {type(given).__name__.lower()} of another graph",
            fix=nearest(name, graph.by_name) or "Ask the graph that is edited.",
        )


def value_names(given: Values, word: str) -> tuple[str, ...]:
    """The names of values, in order.

    Args:
        given: what a user gave; of a node, a view or a match the values that it gives.
        word: what is done with them, for errors.
    """
    found: list[str] = []
    for each in _each(given, f"{word}: values are given by their names, or as nodes or matches"):
        if isinstance(each, str):
            found.append(each)
        else:
            found += [value for value in each.outputs if value]
    return tuple(found)


def one_value(given: Values, word: str) -> str:
    """The name of a single value."""
    found = value_names(given, word)
    if len(found) != 1:
        raise UserError(f"{word}: one value is expected", got=", ".join(found) or "none")
    return found[0]


def _each(given: object, rule: str) -> list[str | Node | HasNodes]:
    if isinstance(given, str | Node):
        return [given]
    if not isinstance(given, Graph) and isinstance(given, HasNodes):
        return [given]
    if isinstance(given, Iterable) and not isinstance(given, Mapping | bytes):
        return [inner for each in cast(Iterable[Any], given) for inner in _each(each, rule)]
    raise UserError(rule, got=f"{type(cast(object, given)).__name__} {cast(object, given)!r}"[:80])
