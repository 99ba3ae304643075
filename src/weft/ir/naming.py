"""What edits share: renaming, refusing, and the wording of history."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace as changed
from typing import cast

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError, nearest
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType


def mapped(names: Iterable[str], mapping: Mapping[str, str]) -> tuple[str, ...]:
    """Names, those in the mapping exchanged."""
    return tuple(mapping.get(name, name) for name in names)


def reading(node: Node, names: Mapping[str, str]) -> Node:
    """The node with inputs renamed."""
    if names.keys().isdisjoint(node.inputs):
        return node
    return changed(node, inputs=mapped(node.inputs, names))


def making(node: Node, names: Mapping[str, str]) -> Node:
    """The node with outputs renamed."""
    if names.keys().isdisjoint(node.outputs):
        return node
    return changed(node, outputs=mapped(node.outputs, names))


def fresh(wish: str, taken: Container[str]) -> str:
    """A name that is not taken."""
    name, count = wish, 1
    while name in taken:
        name, count = f"{wish}_{count}", count + 1
    return name


def numbered(wish: str, taken: Container[str], counts: dict[str, int]) -> str:
    """A name that is not taken; counts on from the last number of the wish, for speed."""
    name = wish
    while name in taken:
        counts[wish] = counts.get(wish, 0) + 1
        name = f"{wish}_{counts[wish]}"
    return name


def identifier(name: str) -> str:
    """A C identifier as near to a name as possible."""
    found = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "net"
    return f"net_{found}" if found[0].isdigit() else found


def listed(names: Iterable[str]) -> str:
    """Names for a line of history: a few, then how many more."""
    listed = list(names)
    more = f" and {len(listed) - 4} more" if len(listed) > 4 else ""
    return ", ".join(listed[:4]) + more


def type_of(array: np.ndarray, name: str) -> TensorType:
    """The type of a constant."""
    try:
        return TensorType(DType.of(array.dtype), tuple(array.shape))
    except KeyError:
        raise UserError(
            f"constant {name} has an unsupported element type", got=str(array.dtype)
        ) from None


def require_mapping(given: object, rule: str) -> None:
    """Refuse what is no mapping by names."""
    if not isinstance(given, Mapping):
        raise UserError(rule, got=f"{type(given).__name__} {given!r}"[:80])
    for key in cast(Mapping[object, object], given):
        if not isinstance(key, str):
            raise UserError(rule, got=f"{key!r} for a name")


def refuse_duplicates(names: Iterable[str], kind: str) -> None:
    """Refuse a name that stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(f"there is a {kind} {name} already")
        seen.add(name)


def require_nodes(graph: Graph, names: Iterable[str]) -> None:
    """Refuse names of nodes that do not exist."""
    for name in names:
        if name not in graph.by_name:
            raise UserError(f"graph {graph.name} has no node {name}", fix=_meant(graph, name))


def _meant(graph: Graph, name: str) -> str:
    """What somebody may have meant who gave the name of a node."""
    if name in graph.producers:
        return f"It is a value, which node {graph.producers[name].name} makes."
    if name in graph.types:
        kind = "a constant" if name in graph.constants else "an input"
        return f"It is {kind} of the graph."
    return nearest(name, graph.by_name)


def require_values(types: Mapping[str, TensorType], values: Iterable[str], where: str) -> None:
    """Refuse names of values that do not exist."""
    for value in values:
        if value and value not in types:
            raise UserError(f"there is no value {value}", where=where, fix=nearest(value, types))
