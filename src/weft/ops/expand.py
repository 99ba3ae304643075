"""Replace composite ops by the graphs that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.ir.graph import Graph, Node
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import call_of
from weft.ops.record import Expand, Op


def _expand_node(node: Node, builder: GraphBuilder, expansion: Expand) -> list[Node]:
    """The nodes that compute the node's outputs under their own names."""
    start = len(builder.nodes)
    builder.origin = node.origin
    made = expansion.function(call_of(node, builder.types), builder, node.inputs)
    nodes = builder.nodes[start:]
    del builder.nodes[start:]
    names: dict[str, str] = {}
    aliases: list[Node] = []
    inner = {value for each in nodes for value in each.outputs}
    for wanted, value in zip(node.outputs, made, strict=False):
        if not wanted or value == wanted:
            continue
        if value in inner and value not in names:
            names[value] = wanted
        else:  # an input handed through, or one value under two names
            aliases.append(
                Node(builder.fresh(f"{node.name}_copy"), "Identity", (value,), (wanted,))
            )
    renamed = [
        replace(
            each,
            inputs=tuple(names.get(value, value) for value in each.inputs),
            outputs=tuple(names.get(value, value) for value in each.outputs),
            origin=node.origin,
        )
        for each in nodes
    ]
    return renamed + [
        replace(each, inputs=tuple(names.get(value, value) for value in each.inputs))
        for each in aliases
    ]


def expand(
    graph: Graph, ops: Mapping[str, Op], expansions: Mapping[str, Expand] | None = None
) -> Graph:
    """The same function in ops that are not composite.

    Values keep their names; expansions of expansions are expanded too.

    Args:
        graph: the graph.
        ops: the table.
        expansions: of these ops instead of those that are composite, by name.
    """

    def expansion(node: Node) -> Expand | None:
        if expansions is not None:
            return expansions.get(node.op)
        compute = ops[node.op].compute
        return compute if isinstance(compute, Expand) else None

    if not any(map(expansion, graph.nodes)):
        return graph
    taken = [*graph.types, *(node.name for node in graph.nodes)]
    builder = GraphBuilder(ops, graph.name, taken)
    builder.types.update(graph.types)
    builder.constants.update(graph.constants)
    done: list[Node] = []
    pending = list(reversed(graph.nodes))
    while pending:
        node = pending.pop()
        found = expansion(node)
        if found is not None:
            pending.extend(reversed(_expand_node(node, builder, found)))
        else:
            done.append(node)
    made = {value for node in done for value in node.outputs if value}
    known = made | set(graph.inputs)
    used = {value for node in done for value in node.inputs} | set(graph.outputs)
    constants = {name: array for name, array in builder.constants.items() if name in used}
    types = {
        name: type for name, type in builder.types.items() if name in known or name in constants
    }
    return replace(graph, nodes=tuple(done), types=types, constants=constants)
