"""Matches of rules: every way in which the pattern of a rule fits at a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.ir.graph import Node
from weft.match.matcher import GraphSearch
from weft.match.program import QueryProgram
from weft.match.search_state import SearchEntry, entries_of
from weft.match.view import Match, QueryableGraph


def matches_at(program: QueryProgram, node: Node, view: QueryableGraph) -> Iterator[Match]:
    """Every match that begins at a node."""
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
