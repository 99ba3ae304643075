"""Run a graph by the ops' NumPy references: the oracle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.dtypes import DType
from weft.errors import InternalError, UserError
from weft.ir.buffers import ArrayLike, as_array
from weft.ir.compose import bind_symbols
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
    graph = _with_sizes_of(graph, inputs)
    values: dict[str, np.ndarray] = {**graph.constants, **inputs}
    for node in graph.nodes:
        values.update(evaluate_node(node, ops[node.op], graph.types, values))
    return values if keep else {name: values[name] for name in graph.outputs}


def _with_sizes_of(graph: Graph, inputs: Mapping[str, np.ndarray]) -> Graph:
    """The graph with its open sizes bound to those of arrays; references ask for the shapes."""
    sizes: dict[str, int] = {}
    for name in graph.inputs:
        given = np.shape(inputs[name]) if name in inputs else ()
        for dim, size in zip(graph.types[name].shape, given, strict=False):
            if isinstance(dim, Symbol) and sizes.setdefault(dim.name, size) != size:
                raise UserError(
                    f"{dim.name} is one size in all inputs", got=f"{sizes[dim.name]} and {size}"
                )
    return bind_symbols(graph, sizes) if sizes and all(sizes.values()) else graph


def evaluate_in_double(
    graph: Graph, inputs: Mapping[str, np.ndarray], ops: Mapping[str, Op]
) -> dict[str, np.ndarray]:
    """Every value of a graph by the references, in double precision where values are ``f32``.

    Nodes whose types allow no double, or whose results are not floating-point, such as those that
    round to integers, compute in single precision what they read.

    Args:
        graph: any graph whose ops are in the table.
        inputs: an array for every graph input.
        ops: the op table.
    """
    values = {name: _doubled(array) for name, array in {**graph.constants, **inputs}.items()}
    for node in graph.nodes:
        values.update(_node_in_double(node, ops[node.op], graph.types, values))
    return values


def _node_in_double(
    node: Node, op: Op, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    made = [value for value in node.outputs if value]
    if all(types[value].dtype is DType.F32 for value in made):
        wide = {name: type_of(values[name], name) for name in node.inputs if name}
        try:
            found = op.infer(call_of(node, wide))
        except UserError:
            found = ()
        wide |= dict(zip(node.outputs, found, strict=False))
        if found and all(wide[value].dtype is DType.F64 for value in made):
            return evaluate_node(node, op, wide, values)
    narrow = {name: values[name].astype(types[name].dtype.numpy) for name in node.inputs if name}
    return {name: _doubled(array) for name, array in evaluate_node(node, op, types, narrow).items()}


def _doubled(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array
