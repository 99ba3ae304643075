"""What exporters and editors leave behind, put into a network: for recipes that clean up.

The networks of `bench.zoo` come without it, as most exporters fold it away.
"""

from __future__ import annotations

from dataclasses import replace as changed
from functools import partial
from itertools import cycle

import numpy as np

from weft.compress.insert import Part, insert_behind
from weft.ir.graph import Graph, Node
from weft.ir.naming import fresh
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.shape import ReshapeAttributes
from weft.rewrite.recipe import Recipe
from weft.rewrite.rule import Exactness

MOST_BETWEEN = 5
"""At most so many nodes are between one piece of litter and the next."""


def _identity(_graph: Graph, _maker: Node, builder: GraphBuilder, value: str) -> str:
    return builder.op("Identity", value)


def _dropout(_graph: Graph, _maker: Node, builder: GraphBuilder, value: str) -> str:
    return builder.op("Dropout", value)


def _same_shape(_graph: Graph, _maker: Node, builder: GraphBuilder, value: str) -> str:
    shape = ReshapeAttributes(builder.types[value].dims, allowzero=1)
    return builder.op("Reshape", value, attributes=shape)


def _times_one(_graph: Graph, _maker: Node, builder: GraphBuilder, value: str) -> str:
    """One is computed, from constants that every such place has of its own."""
    dtype = builder.types[value].dtype.numpy
    two, half = (builder.constant(np.array(x, dtype), "number") for x in (2, 0.5))
    return builder.op("Mul", value, builder.op("Mul", two, half))


def _twice(graph: Graph, maker: Node, builder: GraphBuilder, value: str) -> str:
    """What is computed again is the same, so the larger of both is, too."""
    for each in filter(None, maker.inputs):
        builder.declare(each, graph.types[each])
    wishes = [f"{each}_again" if each else "" for each in maker.outputs]
    again = builder.nodes_of(maker.op, maker.inputs, maker.attributes, outputs=wishes)
    return builder.op("Max", value, again[0])


KINDS = (_identity, _dropout, _same_shape, _times_one, _twice)


def littered(graph: Graph, _: object = None) -> Graph:
    """The network with dropout, identities, reshapes to the same shape, products with a computed
    one, nodes that are there twice, and nodes that nothing reads.
    """
    parts: dict[str, Part] = {}
    unread: list[Node] = []
    types: dict[str, TensorType] = {}
    chosen = [node for node in graph.nodes if graph.types[node.outputs[0]].dtype.is_float]
    step = min(MOST_BETWEEN, max(1, len(chosen) // len(KINDS)))
    for node, kind in zip(chosen[::step], cycle(KINDS), strict=False):
        value = node.outputs[0]
        parts[value] = partial(kind, graph, node)
        name = fresh(f"{value}_unread", graph.types)
        unread.append(Node(name, "Neg", (value,), (name,)))
        types[name] = graph.types[value]
    added = changed(graph, nodes=(*graph.nodes, *unread), types={**graph.types, **types})
    return insert_behind(added, parts, "litter")


LITTER = Recipe("litter", (littered.__doc__ or "").strip(), Exactness.BIT_EXACT, littered)
"""Applied before the recipes that clean up."""
