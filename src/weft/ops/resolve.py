"""Graphs whose nodes hold the attributes that were not given.

What builds graphs from the op table fills them in as it makes a node (``Op.resolved``).
Graphs that come from elsewhere (files, text, nodes made by hand) do so here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as changed

from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.ir.verify import bodies
from weft.ops.evaluate import call_of
from weft.ops.table import OPS


def resolved(graph: Graph) -> Graph:
    """The graph with every attribute resolved; the graph itself where all are."""
    nodes = tuple(resolved_node(node, graph.types) for node in graph.nodes)
    if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return graph
    return changed(graph, nodes=nodes)


def resolved_node(node: Node, types: Mapping[str, TensorType]) -> Node:
    """A node with its attributes resolved; the node itself where all are.

    Args:
        node: of a graph that need not be sound yet: one without all its types stays as it is.
        types: of the values that it reads.
    """
    inner = {name: resolved(body) for name, body in bodies(node)}
    if any(body is not getattr(node.attributes, name) for name, body in inner.items()):
        node = changed(node, attributes=changed(node.attributes, **inner))
    op = OPS.get(node.op)
    if op is None or not op.implied or not all(v in types for v in node.inputs if v):
        return node
    attributes = op.resolved(call_of(node, types))
    return node if attributes is node.attributes else changed(node, attributes=attributes)
