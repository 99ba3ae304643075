"""What recipes share: which nodes are meant, and building what comes in the place of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace as changed

from weft.errors import UserError, nearest_or_all
from weft.ir.graph import Graph, Node, Origin
from weft.ir.substitute import Replacement
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS


def node_named(graph: Graph, name: str) -> Node:
    """A node; a ``UserError`` names the nearest if there is none."""
    found = graph.by_name.get(name)
    if found is None:
        raise UserError(
            f"graph {graph.name} has no node of that name",
            got=name,
            fix=nearest_or_all(name, graph.by_name),
        )
    return found


def replaced(
    graph: Graph,
    names: Sequence[str],
    ops: Collection[str],
    replace: Callable[[Node], Replacement],
) -> list[Replacement]:
    """Replacements of the nodes of some ops that can be replaced.

    Args:
        graph: the graph.
        names: of nodes, each of which must be replaceable; none for all that are.
        ops: that are meant.
        replace: raises a ``UserError`` for a node that cannot be replaced.

    Raises:
        UserError: a named node cannot be replaced, or none can: the first reason is given.
    """
    if names:
        return [replace(_of_op(node_named(graph, name), ops)) for name in dict.fromkeys(names)]
    found: list[Replacement] = []
    refused: list[UserError] = []
    for node in graph.nodes:
        if node.op in ops:
            try:
                found.append(replace(node))
            except UserError as error:
                refused.append(error)
    if not found and refused:
        raise refused[0]
    if not found:
        listed = ", ".join(sorted(ops))
        raise UserError(f"graph {graph.name} must have a node that is one of: {listed}", got="none")
    return found


def _of_op(node: Node, ops: Collection[str]) -> Node:
    if node.op not in ops:
        raise UserError(f"node {node.name} must be one of: {', '.join(sorted(ops))}", got=node.op)
    return node


def instead(
    graph: Graph, nodes: Sequence[Node], rule: str, build: Callable[[GraphBuilder], Sequence[str]]
) -> Replacement:
    """A replacement that is built by hand.

    Args:
        graph: the graph.
        nodes: that go.
        rule: what the new nodes are said to be made by.
        build: adds nodes to a builder that knows all that the old nodes read, and returns the
            values that stand for the outputs of the last of them, ``""`` where it has none.
    """
    builder = GraphBuilder(OPS, rule)
    made = {value for node in nodes for value in node.outputs}
    read = dict.fromkeys(
        value for node in nodes for value in node.inputs if value and value not in made
    )
    for value in read:
        builder.declare(value, graph.types[value], graph.constants.get(value))
    builder.inputs.extend(value for value in read if value not in graph.constants)
    builder.origin = origin_of(nodes, rule)
    results = build(builder)
    outputs = {
        outer: inner for outer, inner in zip(nodes[-1].outputs, results, strict=True) if outer
    }
    subgraph = changed(builder.graph(tuple(outputs.values())), name=rule)
    return Replacement(
        tuple(node.name for node in nodes),
        subgraph,
        {value: value for value in subgraph.inputs},
        outputs,
    )


def origin_of(nodes: Sequence[Node], rule: str) -> Origin:
    """The origin of what stands for nodes."""
    found = Origin()
    for node in nodes:
        # Nodes of graphs that no frontend made are their own sources.
        found = found.merge(node.origin if node.origin.sources else Origin((node.name,)))
    return found.merge(Origin(), rule)
