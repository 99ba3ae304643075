"""Constants that every step of a loop reads: they belong to its body.

There they are weights as elsewhere: they are folded, packed in the order in which kernels read
them, and encoded.
"""

from __future__ import annotations

from dataclasses import replace as changed

from weft.ir.edit import prune
from weft.ir.graph import Graph, Node
from weft.ops.control import ScanAttributes


def with_constants(graph: Graph) -> Graph:
    """The same function, with constants that a ``Scan`` hands to each step in its body.

    Args:
        graph: with or without loops; bodies of bodies are changed as well.

    Returns:
        The graph itself if no loop reads a constant.
    """
    nodes = tuple(_settled(node, graph) if node.op == "Scan" else node for node in graph.nodes)
    if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return graph
    return prune(changed(graph, nodes=nodes))


def _settled(node: Node, graph: Graph) -> Node:
    given: ScanAttributes = node.attributes
    first, body = given.num_states + given.num_scan_inputs, given.body
    pairs = list(zip(body.inputs[first:], node.inputs[first:], strict=True))
    arrays = {
        inner: graph.constants[outer]
        for inner, outer in pairs
        if outer in graph.constants and inner not in body.outputs
    }
    if arrays:
        kept = [pair for pair in pairs if pair[0] not in arrays]
        inputs = (*body.inputs[:first], *(inner for inner, _ in kept))
        body = changed(body, inputs=inputs, constants={**body.constants, **arrays})
        outer = (*node.inputs[:first], *(outer for _, outer in kept))
        node = changed(node, inputs=outer, attributes=changed(given, body=body))
    inside = with_constants(body)
    if inside is body:
        return node
    return changed(node, attributes=changed(node.attributes, body=inside))
