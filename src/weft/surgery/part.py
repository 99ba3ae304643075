"""What comes in place of nodes: a graph, a net, or a function of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ir.verify import violations
from weft.ops.evaluate import call_of
from weft.ops.resolve import resolved
from weft.ops.table import OPS
from weft.ops.trace import trace

Part: TypeAlias = Graph | Callable[..., Any]
"""A graph, or a function of values: a layer, an op function, a net."""


def part_graph(part: Part, given: Mapping[str, TensorType], word: str) -> Graph:
    """The graph of a part.

    Args:
        part: a graph, which stays as it is, or a function of values.
        given: types of the values that it is to read, by their names.
        word: what the edit is called in errors.
    """
    if isinstance(part, Graph):
        return resolved(part)
    try:
        return trace(part, list(given.values()), "part")
    except UserError as error:
        reads = ", ".join(f"{value} {type}" for value, type in given.items()) or "nothing"
        place = f"the part that reads {reads}"
        raise UserError(
            f"{word}: {error.rule.removeprefix('trace: ')}",
            got=error.got,
            fix=error.fix,
            where=f"{error.where}, in {place}" if error.where else place,
        ) from None


def sound(graph: Graph, word: str) -> Graph:
    """The graph, if its types are what its ops give.

    Raises:
        UserError: they are not; all that is wrong is listed.
    """
    found = violations(graph, lambda node, graph: OPS[node.op].infer(call_of(node, graph.types)))
    if found:
        raise UserError(f"{word}: the result is not a valid graph", got="; ".join(found))
    return graph
