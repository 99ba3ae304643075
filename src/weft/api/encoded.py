"""Networks with the weights that a plan's encodings make of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from weft.api.network import N, expanded
from weft.ir.edit import set_constants
from weft.ir.graph import Graph
from weft.ops.control import ScanAttributes
from weft.plan.implementation import Encoded
from weft.plan.plan import Plan, PlannedStep


def encoded_operands(plan: Plan) -> Iterator[tuple[str, Encoded]]:
    """The weights of a plan that are encoded, and how; those of loops' bodies, too."""
    for step in plan.steps:
        if step.nested is not None:
            yield from encoded_operands(step.nested)
        yield from _own(step)


def _own(step: PlannedStep) -> Iterator[tuple[str, Encoded]]:
    for operand in step.implementation.operands if step.implementation else ():
        if isinstance(operand.packing, Encoded):
            yield operand.value, operand.packing


def with_encoded(net: N, plan: Plan) -> N:
    """The net that a plan computes: where it rounds weights, with rounded ones.

    Args:
        net: of the plan.
        plan: made of it.
    """
    if plan.target is None or all(each.encoding.exact for _, each in encoded_operands(plan)):
        return net
    asked = plan.constraints
    graph = expanded(
        net, plan.target, precision=asked.precision, keep_float32=asked.keep_float32
    ).graph
    return net.with_graph(rounded(graph, plan))


def rounded(graph: Graph, plan: Plan) -> Graph:
    """The graph with the weights that encodings of its plan make of its own."""
    arrays: dict[str, np.ndarray] = {}
    bodies: dict[str, Graph] = {}
    for step in plan.steps:
        for value, encoded in _own(step):
            if not encoded.encoding.exact and value in graph.constants:
                arrays[value] = encoded.decoded(graph.constants[value])
        if step.nested is not None:
            (node,) = step.nodes
            attributes: ScanAttributes = node.attributes
            bodies[node.name] = rounded(attributes.body, step.nested)
    nodes = tuple(
        replace(node, attributes=replace(node.attributes, body=bodies[node.name]))
        if node.name in bodies
        else node
        for node in graph.nodes
    )
    return set_constants(replace(graph, nodes=nodes), arrays)
