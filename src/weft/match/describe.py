"""Write the query that a part of a graph matches."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from math import isfinite
from typing import Any, cast

from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.naming import fresh
from weft.match.messages import nearest
from weft.ops.table import OPS
from weft.surgery.chosen import Nodes, node_names

_RESERVED = frozenset({"def", "const", "input", "output"})


def query_of(graph: Graph, nodes: Nodes | None = None) -> str:
    """A query that matches some nodes of a graph, and all that is like them.

    It says their ops, their connections, which values are constants and which attributes are
    not the usual ones; of names and shapes it says nothing.

    Args:
        graph: the graph.
        nodes: names, nodes or matches; all of the graph if not given.
    """
    chosen = list(graph.by_name) if nodes is None else node_names(graph, nodes, "query")
    for name in chosen:
        if name not in graph.by_name:
            raise UserError(
                f"query: graph {graph.name} has no node {name}", fix=nearest(name, graph.by_name)
            )
    if not chosen:
        raise UserError("query: at least one node is expected", got="none")
    wanted = set(chosen)
    parts = [node for node in graph.nodes if node.name in wanted]
    names = _value_names(parts)
    return "\n".join(_statement(node, graph, names) for node in parts)


def _value_names(nodes: Collection[Node]) -> Mapping[str, str]:
    """Short names that can stand in a query."""
    values = dict.fromkeys(v for node in nodes for v in (*node.inputs, *node.outputs) if v)
    made = {value for node in nodes for value in node.outputs}
    found: dict[str, str] = {}
    taken = set(_RESERVED)
    for value in values:
        plain = re.sub(r"\W", "_", value.rpartition("/")[2]).strip("_").lower()
        wish = plain if re.fullmatch(r"[a-z]\w{0,11}", plain) else "v" if value in made else "x"
        found[value] = fresh(wish, taken)
        taken.add(found[value])
    return found


def _statement(node: Node, graph: Graph, names: Mapping[str, str]) -> str:
    outputs = ", ".join(names.get(value, "_") for value in node.outputs)
    operands = ", ".join(_operands(node, graph, names))
    conditions = ", ".join(_conditions(node))
    text = f"{outputs} = {node.op}({operands})"
    return f"{text} [{conditions}]" if conditions else text


def _operands(node: Node, graph: Graph, names: Mapping[str, str]) -> Iterator[str]:
    last = max((place for place, value in enumerate(node.inputs) if value), default=-1)
    for value in node.inputs[: last + 1]:
        if not value:
            # Nothing is there, and nothing need be.
            yield "_?"
        else:
            yield f"const {names[value]}" if value in graph.constants else names[value]


def _conditions(node: Node) -> Iterator[str]:
    """The attributes that are not what they are when nobody says anything."""
    try:
        usual = OPS[node.op].attributes()
    except TypeError:  # Some have to be given.
        usual = None
    for field in fields(node.attributes):
        value = getattr(node.attributes, field.name)
        if usual is not None and getattr(usual, field.name) == value:
            continue
        text = literal(value)
        if text is not None:
            yield f"@{field.name}={text}"


def literal(value: Any) -> str | None:
    """A value as it stands in a query; none if there is no way to write it."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if isfinite(value) else None
        case Enum():
            return literal(value.value)
        case str():
            return None if '"' in value or "\n" in value else f'"{value}"'
        case tuple():
            parts = [literal(each) for each in cast(tuple[Any, ...], value)]
            return None if None in parts else f"({', '.join(str(part) for part in parts)})"
        case _:
            return None
