"""Put nodes behind many values at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as changed
from typing import TypeAlias

from weft.ir.graph import Graph, Node, Origin
from weft.ir.history import noted
from weft.ir.naming import listed, making, reading
from weft.ir.order import topological
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS

Part: TypeAlias = Callable[[GraphBuilder, str, str], str]
"""``part(builder, value, output)`` adds nodes; the last one makes a value named ``output``."""


def insert_behind(graph: Graph, parts: Mapping[str, Part], rule: str) -> Graph:
    """Put nodes between values and all that reads them, in one pass over the graph.

    A computed value keeps its name behind the nodes, so graph outputs do too; what was
    computed is called ``NAME_exact`` then.  A graph input stays, and its users read
    ``NAME_changed``.

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
        if value in graph.producers:
            maker = graph.producers[value]
            exact = before[value] = builder.fresh(f"{value}_exact")
            output = builder.fresh(f"{value}_changed")
            sources = maker.origin.sources or (maker.name,)
        else:
            exact, sources = value, ()
            output = after[value] = builder.fresh(f"{value}_changed")
        builder.origin = Origin(sources, (rule,))
        builder.declare(exact, graph.types[value])
        count = len(builder.nodes)
        made = part(builder, exact, output)
        back = {made: value} if value in before else {}
        added += [making(node, back) for node in builder.nodes[count:]]
    nodes = [making(reading(node, after), before) for node in graph.nodes]
    types = {name: type for name, type in builder.types.items() if name not in before.values()}
    inner = {name for node in added for name in node.outputs}
    edited = changed(
        graph,
        nodes=topological([*nodes, *added]),
        types={
            **graph.types,
            **{name: types[name] for name in (*inner, *builder.constants) if name in types},
            **{exact: graph.types[value] for value, exact in before.items()},
        },
        constants={**graph.constants, **builder.constants},
    )
    return noted(edited, "insert", f"{len(added)} nodes behind {listed(parts)}")
