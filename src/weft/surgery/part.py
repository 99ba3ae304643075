"""What comes in place of nodes: a graph, a net, or a function of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ir.verify import violations
from weft.ops.evaluate import call_of
from weft.ops.table import OPS
from weft.ops.trace import trace

Part: TypeAlias = Graph | Callable[..., Any]
"""A graph, or a function of values: a layer, an op function, a net."""


def part_graph(part: Part, types: Sequence[TensorType], name: str = "part") -> Graph:
    """The graph of a part for inputs of these types."""
    return part if isinstance(part, Graph) else trace(part, types, name)


def sound(graph: Graph, word: str) -> Graph:
    """The graph, if its types are what its ops give.

    Raises:
        UserError: they are not; all that is wrong is listed.
    """
    found = violations(graph, lambda node, graph: OPS[node.op].infer(call_of(node, graph.types)))
    if found:
        raise UserError(f"{word}: the result is not a sound graph", got="; ".join(found))
    return graph
