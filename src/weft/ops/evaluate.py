"""Run a graph by the ops' NumPy references: the oracle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.errors import InternalError, UserError
from weft.ir.buffers import ArrayLike, as_array
from weft.ir.graph import Graph, Node
from weft.ir.naming import type_of
from weft.ir.types import Symbol, TensorType
from weft.ops.record import Call, Op


def fitting(name: str, given: ArrayLike, type: TensorType) -> np.ndarray:
    """An input's array, if it has the input's type; open sizes take any."""
    array = as_array(given, f"input {name}")
    found = type_of(array, name)
    sizes = zip(found.shape, type.shape, strict=False)
    same = all(isinstance(wanted, Symbol) or size == wanted for size, wanted in sizes)
    if found.dtype != type.dtype or len(found.shape) != len(type.shape) or not same:
        raise UserError(f"input {name} is {type}", got=str(found))
    return array


def call_of(node: Node, types: Mapping[str, TensorType]) -> Call:
    """The ``Call`` of a node of a graph with these types."""
    return Call(
        node.op,
        node.attributes,
        tuple(types[value] if value else None for value in node.inputs),
        len(node.outputs),
        f"node {node.name}",
    )


def evaluate_node(
    node: Node, op: Op, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The outputs of one node by its reference, by value name."""
    inputs = [values[value] if value else None for value in node.inputs]
    with np.errstate(all="ignore"):
        results = op.reference(call_of(node, types), *inputs)
    found: dict[str, np.ndarray] = {}
    for value, result in zip(node.outputs, results, strict=False):
        if not value:
            continue
        expected = types[value]
        array = np.asarray(result)
        if array.dtype != expected.dtype.numpy or (
            expected.is_static and array.shape != expected.dims
        ):
            raise InternalError(
                f"reference of {node.op} gave {array.dtype}{list(array.shape)} for {value}, "
                f"inferred {expected}"
            )
        found[value] = array
    return found


def evaluate(
    graph: Graph, inputs: Mapping[str, np.ndarray], ops: Mapping[str, Op], *, keep: bool = False
) -> dict[str, np.ndarray]:
    """Run a graph by the references.

    Args:
        graph: any graph whose ops are in the table.
        inputs: an array for every graph input.
        ops: the op table.
        keep: return every value, not just the graph's outputs.

    Returns:
        Arrays by value name.
    """
    values: dict[str, np.ndarray] = {**graph.constants, **inputs}
    for node in graph.nodes:
        values.update(evaluate_node(node, ops[node.op], graph.types, values))
    return values if keep else {name: values[name] for name in graph.outputs}
