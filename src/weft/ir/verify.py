"""Verify that a graph is what ``weft.ir.graph`` promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.errors import InternalError, UserError
from weft.ir.graph import Graph, Node
from weft.ir.types import Symbol, TensorType

Infer: TypeAlias = Callable[[Node, Graph], tuple[TensorType, ...]]
"""The types of a node's outputs; ops are a later layer, so it is handed in."""


def verify(graph: Graph, infer: Infer | None = None) -> None:
    """Raise ``InternalError`` with every violation of a graph's invariants, if any.

    A broken graph is always a bug of Weft: edits and importers refuse what would break one.

    Args:
        graph: the graph, with the bodies that its attributes hold.
        infer: if given, the outputs' types must be what it says.
    """
    found = violations(graph, infer)
    if found:
        listed = "\n  ".join(found)
        raise InternalError(f"graph {graph.name} is broken:\n  {listed}\n", _dump(graph))


def violations(graph: Graph, infer: Infer | None = None) -> tuple[str, ...]:
    """Every violation of a graph's invariants, one sentence each."""
    found = [
        *_names(graph),
        *_order(graph),
        *_types(graph),
        *_constants(graph),
        *_outputs(graph),
        *_bodies(graph, infer),
    ]
    if not found and infer is not None:
        found = list(_inferred(graph, infer))
    return tuple(found)


def bodies(node: Node) -> Iterator[tuple[str, Graph]]:
    """The graphs that a node's attributes hold, with the attributes' names."""
    fields: Iterable[str] = getattr(node.attributes, "__dataclass_fields__", ())
    for name in fields:
        value = getattr(node.attributes, name)
        if isinstance(value, Graph):
            yield name, value


def _names(graph: Graph) -> Iterator[str]:
    nodes: set[str] = set()
    for node in graph.nodes:
        if not node.name:
            yield f"a {node.op} node has no name"
        elif node.name in nodes:
            yield f"two nodes are called {node.name}"
        nodes.add(node.name)
    makers: dict[str, str] = {}
    for value, maker in _definitions(graph):
        if not value:
            yield f"{maker} has no name"
        elif value in makers:
            yield f"value {value} is made by {makers[value]} and by {maker}"
        makers[value] = maker


def _definitions(graph: Graph) -> Iterator[tuple[str, str]]:
    yield from ((value, "a graph input") for value in graph.inputs)
    yield from ((value, "a constant") for value in graph.constants)
    for node in graph.nodes:
        yield from ((value, f"node {node.name}") for value in node.outputs if value)


def _order(graph: Graph) -> Iterator[str]:
    known = {*graph.inputs, *graph.constants}
    made = {value for node in graph.nodes for value in node.outputs}
    for node in graph.nodes:
        for value in node.inputs:
            if value and value not in known:
                state = "before it is made" if value in made else "which nothing makes"
                yield f"node {node.name} reads {value} {state}"
        known.update(node.outputs)


def _types(graph: Graph) -> Iterator[str]:
    defined = {value for value, _ in _definitions(graph)}
    for value in sorted(defined - graph.types.keys()):
        yield f"value {value} has no type"
    for value, type in graph.types.items():
        if value not in defined:
            yield f"type of {value}, which nothing makes"
        for position, dim in enumerate(type.shape):
            if isinstance(dim, Symbol):
                if position:
                    yield f"value {value} has symbol {dim} at dimension {position}, not the leading"
            elif dim < 0:
                yield f"value {value} has negative size {dim} at dimension {position}"


def _constants(graph: Graph) -> Iterator[str]:
    for value, array in graph.constants.items():
        type = graph.types.get(value)
        if type is not None and (actual := _array_type(array)) != type:
            yield f"constant {value} is {actual or array.dtype}, its type says {type}"
        if array.flags.writeable:
            yield f"constant {value} can be written to"


def _array_type(array: np.ndarray) -> TensorType | None:
    try:
        return TensorType(DType.of(array.dtype), tuple(array.shape))
    except KeyError:
        return None


def _outputs(graph: Graph) -> Iterator[str]:
    defined = {value for value, _ in _definitions(graph)}
    for value in graph.outputs:
        if value not in defined:
            yield f"graph output {value} is made by nothing"


def _bodies(graph: Graph, infer: Infer | None) -> Iterator[str]:
    for node in graph.nodes:
        for name, body in bodies(node):
            for violation in violations(body, infer):
                yield f"node {node.name}, {name}: {violation}"


def _inferred(graph: Graph, infer: Infer) -> Iterator[str]:
    for node in graph.nodes:
        try:
            types = infer(node, graph)
        except UserError as error:
            yield f"node {node.name} cannot be typed: {error}"
            continue
        if len(types) < len(node.outputs):
            yield f"node {node.name} has {len(node.outputs)} outputs, {node.op} gives {len(types)}"
        for value, type in zip(node.outputs, types, strict=False):
            if value and graph.types[value] != type:
                yield f"value {value} is {graph.types[value]}, {node.op} gives {type}"


def _dump(graph: Graph) -> str:
    # Plainer than ``weft.ir.text``, which supposes a sound graph.
    lines = [f"inputs {', '.join(graph.inputs)}", f"constants {', '.join(graph.constants)}"]
    for node in graph.nodes:
        made = ", ".join(f"{value}: {graph.types.get(value)}" for value in node.outputs)
        lines.append(f"{made} = {node.op}({', '.join(node.inputs)})  # {node.name}")
    return "\n".join([*lines, f"outputs {', '.join(graph.outputs)}"])
