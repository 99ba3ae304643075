"""Put nodes behind many values at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as changed
from typing import TypeAlias

from weft.ir.graph import Graph, Node, Origin, noted
from weft.ir.naming import listed, making, reading
from weft.ir.order import topological
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS

Part: TypeAlias = Callable[[GraphBuilder, str], str]
"""``part(builder, value)`` adds nodes and returns the value to be read in place of ``value``."""


def insert_behind(graph: Graph, parts: Mapping[str, Part], rule: str) -> Graph:
    """Put nodes between values and all that reads them, in one pass over the graph.

    A computed value keeps its name behind the nodes, so graph outputs do too; what was
    computed is called ``NAME_exact`` then.  A graph input stays.

    Args:
        graph: the graph.
        parts: for a value, what makes the nodes; they keep its type.
        rule: what the new nodes' origin says.
    """
    builder = GraphBuilder(OPS, graph.name, taken=[*graph.types, *graph.by_name])
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    added: list[Node] = []
    for value, part in parts.items():
        maker = graph.producers.get(value)
        exact = value if maker is None else builder.fresh(f"{value}_exact")
        sources = () if maker is None else maker.origin.sources or (maker.name,)
        builder.origin = Origin(sources, (rule,))
        builder.declare(exact, graph.types[value])
        count = len(builder.nodes)
        made = part(builder, exact)
        nodes = builder.nodes[count:]
        if maker is None:
            after[value] = made
        else:
            before[value] = exact
            nodes = [making(node, {made: value}) for node in nodes]
        added += nodes
    kept = [making(reading(node, after), before) for node in graph.nodes]
    made_here = {value for node in added for value in node.outputs} - graph.types.keys()
    edited = changed(
        graph,
        nodes=topological([*kept, *added]),
        types={
            **graph.types,
            **{name: builder.types[name] for name in (*made_here, *builder.constants)},
            **{exact: graph.types[value] for value, exact in before.items()},
        },
        constants={**graph.constants, **builder.constants},
    )
    return noted(edited, "insert", f"{len(added)} nodes behind {listed(parts)}")
