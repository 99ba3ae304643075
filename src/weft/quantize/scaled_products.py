"""Numbers that products of two values are multiplied by, as part of the weights before them.

Attention divides its scores by the root of their depth. As a node of its own that multiplication
would be quantized once more; in the weight of the queries it costs nothing.
"""

from __future__ import annotations

from dataclasses import replace as changed

import numpy as np

from weft.ir.edit import prune, set_constants
from weft.ir.graph import Graph, Node
from weft.ir.naming import reading
from weft.ops.quantizable import bias_of, scales_of, weight_of

_MOVES = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten")


def with_scales_in_weights(graph: Graph) -> Graph:
    """The graph without multiplications of a product of values by a number.

    Args:
        graph: simplified.
    """
    for node in graph.nodes:
        number, product = _scaled(graph, node)
        layer = _layer_before(graph, product) if product is not None else None
        if product is None or layer is None:
            continue
        weight, bias = weight_of(graph, layer), bias_of(graph, layer)
        values = [value for value in (weight, bias.value if bias else None) if value]
        arrays = {v: (graph.constants[v] * number).astype(graph.constants[v].dtype) for v in values}
        graph = _without(set_constants(graph, arrays), node, product.outputs[0])
    return graph


def _scaled(graph: Graph, node: Node) -> tuple[np.float32, Node | None]:
    """The number that a node multiplies by, and the product of two values that it multiplies."""
    if node.op != "Mul" or node.outputs[0] in graph.outputs:
        return np.float32(1), None
    for value, other in (node.inputs, node.inputs[::-1]):
        array = graph.constants.get(other)
        maker = graph.producers.get(value)
        if array is None or array.size != 1 or maker is None or maker.op != "MatMul":
            continue
        alone = len(graph.users[value]) == 1 and value not in graph.outputs
        same = graph.types[value] == graph.types[node.outputs[0]]
        if alone and same and scales_of(graph, maker) == "own":
            return np.float32(array.reshape(())), maker
    return np.float32(1), None


def _layer_before(graph: Graph, product: Node) -> Node | None:
    """The layer that makes one of the factors of a product, and nothing else reads."""
    for value in product.inputs:
        while len(graph.users[value]) == 1 and value not in graph.outputs:
            maker = graph.producers.get(value)
            if maker is None:
                break
            if maker.op == "Add":
                first = next((v for v in maker.inputs if v not in graph.constants), "")
                layer = graph.producers.get(first)
                bias = None if layer is None else bias_of(graph, layer)
                maker = layer if bias is not None and bias.node is maker else None
            if maker is not None and _is_own(graph, maker):
                return maker
            if maker is None or maker.op not in _MOVES:
                break
            value = maker.inputs[0]
    return None


def _is_own(graph: Graph, node: Node) -> bool:
    """Whether a node is a layer whose weight and bias no other node reads."""
    weight, bias = weight_of(graph, node), bias_of(graph, node)
    if weight is None or len(graph.users[weight]) > 1:
        return False
    if bias is None:
        return len(node.inputs) < 3 or not node.inputs[2]
    return len(graph.users[bias.value]) == 1


def _without(graph: Graph, node: Node, value: str) -> Graph:
    """The graph whose nodes read a value in place of what a node makes."""
    kept = [each for each in graph.nodes if each is not node]
    types = {name: type for name, type in graph.types.items() if name != node.outputs[0]}
    nodes = tuple(reading(each, {node.outputs[0]: value}) for each in kept)
    return prune(changed(graph, nodes=nodes, types=types))
