"""Bounds of every value of a graph, from the definitions of its ops (``loops.element_bounds``)."""

from __future__ import annotations

from collections.abc import Mapping

from weft.dtypes import DType
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.loops.bound_arithmetic import BOUNDED
from weft.loops.element_bounds import (
    ElementBounds,
    element_bounds,
    known_only_by,
    of_array,
    sum_bounds,
)
from weft.ops.definitions import composed, expansion
from weft.ops.evaluate import call_of

MOST_ELEMENTS = 1 << 18
"""Bounds of a value that differ at more places are merged along its longest axis."""


def value_bounds(
    graph: Graph, given: Mapping[str, ElementBounds] | None = None
) -> dict[str, ElementBounds]:
    """Bounds of the values of a graph, whatever its inputs are.

    Args:
        graph: the graph.
        given: bounds of inputs of which more is known than their type.

    Returns:
        By value, for all of static shape whose type has bounds; where nothing is known, those of
        the type.
    """
    found: dict[str, ElementBounds] = dict(given or {})
    for value in graph.inputs:
        if value not in found:
            _only_type(graph.types[value], value, found)
    for value, array in graph.constants.items():
        if DType.of(array.dtype) in BOUNDED:
            found[value] = of_array(array)
    for node in graph.nodes:
        found.update(node_bounds(graph, node, found))
    return found


def _only_type(type: TensorType, value: str, found: dict[str, ElementBounds]) -> None:
    if type.is_static and type.dtype in BOUNDED:
        found[value] = known_only_by(type.dtype, len(type.shape))


def node_bounds(
    graph: Graph, node: Node, known: Mapping[str, ElementBounds]
) -> dict[str, ElementBounds]:
    """Bounds of a node's outputs, from those of its inputs."""
    made = _computed(graph, node, known) or {}
    found: dict[str, ElementBounds] = {}
    for value in filter(None, node.outputs):
        if value in made:
            found[value] = made[value].compact(MOST_ELEMENTS)
        else:
            _only_type(graph.types[value], value, found)
    return found


def node_sum(graph: Graph, node: Node, known: Mapping[str, ElementBounds]) -> ElementBounds | None:
    """Bounds of the one sum in a node's definition, of its output's rank."""
    computes = composed(call_of(node, graph.types)) if _is_static(graph, node) else None
    if computes is None:
        return None
    found = sum_bounds(computes[0], _buffers(node, known))
    return found and found.compact(MOST_ELEMENTS)


def _is_static(graph: Graph, node: Node) -> bool:
    values = [*node.inputs, *node.outputs]
    # Without elements nothing is read, and what is not read cannot be indexed.
    return all(
        graph.types[each].is_static and 0 not in graph.types[each].shape for each in values if each
    )


def _buffers(node: Node, known: Mapping[str, ElementBounds]) -> dict[str, ElementBounds]:
    return {f"in{n}": known[value] for n, value in enumerate(node.inputs) if value in known}


def _computed(
    graph: Graph, node: Node, known: Mapping[str, ElementBounds]
) -> dict[str, ElementBounds] | None:
    if not _is_static(graph, node):
        return None
    call, buffers = call_of(node, graph.types), _buffers(node, known)
    computes = composed(call)
    if computes is not None:
        made = [element_bounds(compute, buffers) for compute in computes]
        return {
            value: bounds
            for value, bounds in zip(node.outputs, made, strict=False)
            if value and bounds is not None
        }
    inner = expansion(call)
    if inner is None:
        return None
    inside = value_bounds(inner, {v: b for v, b in buffers.items() if v in inner.inputs})
    names = zip(node.outputs, inner.outputs, strict=False)
    return {outer: inside[name] for outer, name in names if outer and name in inside}
