# pyright: basic
"""ATen graphs of PyTorch into graphs of Weft, node by node.

A node that no row imports, or that its row refuses, is noted, and the import goes on with a
placeholder for what it gives: one pass tells of all such nodes and of what can be compiled.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch import fx
from torch.fx.node import map_arg

import weft.torch.aten.rows  # noqa: F401
from weft.codegen.naming import identifier
from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.emit import RefusalError, Tensor
from weft.ir.graph import Graph, Origin
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS
from weft.records import dataclass
from weft.torch.aliases import identical, writes
from weft.torch.aten.record import COMPLEX, IGNORED, TABLE, Emit, Row
from weft.torch.capture import Captured, Slot
from weft.torch.index_bounds import Bounds, index_bounds
from weft.torch.tensors import as_array, gives_complex, has_fractions, order_of, type_of

_UNIFORM = 4096
"""Constants with more elements, all of one value, become an op that makes them."""


@dataclass(frozen=True, eq=False)
class Imported:
    """A graph of Weft, and what its names are in PyTorch's.

    Attributes:
        graph: what is computed.
        inputs: the nodes that give the inputs, in order.
        outputs: the nodes whose values are the outputs, in order.
        weights: the slots of constants that are parameters, buffers or constants, by name.
        refused: why nodes could not be imported; their values are inputs of the graph.
        orders: of inputs that are not contiguous, their dimensions as they follow in memory; the
            graph takes them as they lie.
        bounds: of inputs that are indices, by place.
    """

    graph: Graph
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    weights: Mapping[str, Slot]
    refused: Mapping[fx.Node, str] = field(default_factory=dict)
    orders: Mapping[fx.Node, tuple[int, ...]] = field(default_factory=dict)
    bounds: Mapping[int, Bounds] = field(default_factory=dict)

    def array(self, place: int, tensor: torch.Tensor) -> np.ndarray:
        """A tensor for an input as the graph takes it, copied only where it lies otherwise."""
        order = self.orders.get(self.inputs[place])
        return as_array((tensor.permute(order) if order else tensor).contiguous())


def import_nodes(
    captured: Captured, nodes: Sequence[fx.Node], outputs: Sequence[fx.Node], name: str = ""
) -> Imported:
    """Imports part of a graph.

    Args:
        captured: the whole.
        nodes: the part, in the graph's order.
        outputs: nodes of the part, or slots, whose values are wanted.
        name: of the graph of Weft; the module's if not given.
    """
    return _Import(captured, name or identifier(captured.name)).run(nodes, outputs)


def import_all(captured: Captured) -> Imported:
    """Imports a whole graph; ``refused`` tells what is missing.

    The graph's outputs are the tensors among its results, each node once.
    """
    nodes = [node for node in captured.graph.nodes if node.op == "call_function"]
    values = (result.value for result in captured.results)
    outputs = dict.fromkeys(value for value in values if isinstance(value, fx.Node))
    return import_nodes(captured, nodes, list(outputs))


class _Import:
    def __init__(self, captured: Captured, name: str) -> None:
        self.captured = captured
        self.builder = GraphBuilder(OPS, name)
        self.emit = Emit(self.builder)
        self.values: dict[fx.Node, Any] = {}
        self.inputs: dict[fx.Node, str] = {}
        self.orders: dict[fx.Node, tuple[int, ...]] = {}
        self.weights: dict[str, Slot] = {}
        self._names: dict[int, str] = {}
        self.refused: dict[fx.Node, str] = {}

    def run(self, nodes: Sequence[fx.Node], outputs: Sequence[fx.Node]) -> Imported:
        for slot in self.captured.inputs:
            if isinstance(slot.value, torch.Tensor) and slot.node.users:
                self._input(slot.node)
        for node in nodes:
            try:
                self._node(node)
            except UserError as error:
                self.refused[node] = error.rule + (f"; got {error.got}" if error.got else "")
                self.values.pop(node, None)
        made: list[str] = []
        for node in outputs:
            value = self._value(node).name
            # An output is made by a node of its own: not an input, not a weight, not twice one.
            if value in self.inputs.values() or value in self.builder.constants or value in made:
                value = self.builder.op("Identity", value, output=node.name)
            made.append(value)
        graph = self.builder.graph(made)
        used = {name for node in graph.nodes for name in node.inputs}
        kept = {node: name for node, name in self.inputs.items() if name in used}
        graph = _without_inputs(graph, set(self.inputs.values()) - set(kept.values()))
        compiled = [node for node in nodes if node not in self.refused]
        return Imported(
            graph,
            tuple(kept),
            tuple(outputs),
            self.weights,
            self.refused,
            self.orders,
            index_bounds(tuple(kept), compiled),
        )

    # --- values -------------------------------------------------------------------------------

    def _input(self, node: fx.Node) -> Tensor:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            raise RefusalError(f"its argument {node.name} is no tensor and known at run time only")
        slot = self.captured.slots.get(node)
        order = order_of(slot.value) if slot is not None else ()
        order = (*order, len(order)) if order and value.is_complex() else order
        type = type_of(value)
        if not order:
            name = self.builder.input(node.name, type)
            self.inputs[node] = name
            self.values[node] = found = self.emit.of(name)
            return found
        # As it lies in memory; the layout's planning takes what comes first into account.
        lies = TensorType(type.dtype, tuple(type.shape[each] for each in order))
        name = self.builder.input(node.name, lies)
        self.inputs[node], self.orders[node] = name, order
        back = tuple(order.index(each) for each in range(len(order)))
        self.emit.name = f"{node.name}.order"
        self.values[node] = found = self.emit.transpose(self.emit.of(name), back)
        return found

    def _value(self, node: fx.Node) -> Any:
        """What a node gives: a tensor, several, or a constant."""
        if node in self.values:
            return self.values[node]
        slot = self.captured.slots.get(node)
        if slot is None or slot.kind in ("input", "state"):
            if slot is not None and not isinstance(slot.value, torch.Tensor):
                return slot.value
            # From outside of the part.
            return self._several(node) if _gives_several(node) else self._input(node)
        self.values[node] = found = self._weight(slot)
        return found

    def _weight(self, slot: Slot) -> Tensor:
        known = self._names.get(id(slot.value))
        if known is not None:
            # Tied weights are one.
            return self.emit.of(known)
        array = as_array(slot.value)
        if slot.kind == "constant" and array.size > _UNIFORM and (array == array.flat[0]).all():
            filled = {
                "shape": array.shape,
                "value": array.flat[0].item(),
                "dtype": DType.of(array.dtype),
            }
            made = self.emit("ConstantOfShape", **filled)
            # The code depends on its elements.
            self.weights[made.name] = slot
            self._names[id(slot.value)] = made.name
            return made
        name = self.builder.constant(array, slot.name)
        self.weights[name] = slot
        self._names[id(slot.value)] = name
        if slot.kind == "constant" or not has_fractions(slot.value):
            self.emit.arrays[name] = array
        return self.emit.of(name)

    def _several(self, node: fx.Node) -> Any:
        raise RefusalError(f"{node.name}, from outside of the part, gives several values")

    # --- nodes --------------------------------------------------------------------------------

    def _node(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            source, place = cast(tuple[fx.Node, int], node.args)
            if isinstance(source, fx.Node) and source in self.refused:
                # What the node above gives comes from outside, element by element.
                self._input(node)
                return
            self.values[node] = self._value(source)[place]
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            raise RefusalError(f"{node.target} is no ATen op")
        if isinstance(node.meta.get("val"), bool | int | float):
            self.values[node] = node.meta["val"]
            return
        row, arguments = row_of(node)
        self.emit.name = _name(node)
        self.emit.results = results_of(node)
        self.emit.nodes = arguments
        self.builder.origin = origin_of(node)
        count = len(self.builder.nodes)
        try:
            made = row(self.emit, **map_arg(arguments, self._value))
            _check(node, made, self.emit.results)
        except UserError:
            del self.builder.nodes[count:]
            raise
        self.values[node] = made
        for written in writes(node):
            self.values[written] = made
            self.values |= {each: made for each in identical(written) if each in self.values}


def row_of(node: fx.Node) -> tuple[Row, dict[str, Any]]:
    """The row that imports a node, and the arguments that it takes, nodes not resolved.

    Raises:
        RefusalError: there is none, or it does not heed an argument that is not the default.
    """
    target: Any = node.target
    of_complex = any(map(gives_complex, (node, *node.all_input_nodes)))
    row, key = row_named(target, COMPLEX if of_complex else TABLE), _key(target)
    if row is None:
        of = " of complex numbers" if of_complex else ""
        raise RefusalError(f"{key}{of} is not supported")
    taken = _parameters(row)
    found: dict[str, Any] = {}
    for place, argument in enumerate(target._schema.arguments):
        given = argument.name in node.kwargs or place < len(node.args)
        default = argument.default_value if argument.has_default_value() else None
        value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        value = value if given else default
        if argument.name in taken:
            found[argument.name] = value
        elif argument.name in IGNORED or _heeds_all(row):
            continue
        elif given and value != default:
            raise RefusalError(f"{key} with {argument.name} is not supported", got=str(value))
    return row, found


def row_named(op: torch._ops.OpOverload, table: Mapping[str, Row] = TABLE) -> Row | None:
    """The row of an op, or of the op that it is in place; ``None`` if there is none."""
    namespace, name = op._schema.name.split("::")
    row = table.get(_key(op))
    if row is None and name.endswith("_") and namespace == "aten":
        row = table.get(f"{name.removesuffix('_')}.{op._overloadname}")
    return row


def _key(op: torch._ops.OpOverload) -> str:
    """The name in the table."""
    namespace, name = op._schema.name.split("::")
    key = f"{name}.{op._overloadname}"
    return key if namespace == "aten" else f"{namespace}::{key}"


@cache
def _parameters(row: Row) -> frozenset[str]:
    parameters = list(inspect.signature(row).parameters.values())[1:]
    return frozenset(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)


@cache
def _heeds_all(row: Row) -> bool:
    """Whether a row takes ``**_``: the type of the result says all that arguments would."""
    parameters = inspect.signature(row).parameters.values()
    return any(each.kind is each.VAR_KEYWORD for each in parameters)


def results_of(node: fx.Node) -> tuple[TensorType | None, ...]:
    """Types of what a node gives; ``None`` for what is no tensor."""
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else (value,)
    return tuple(type_of(each) if isinstance(each, torch.Tensor) else None for each in values)


def _gives_several(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), list | tuple)


def _check(node: fx.Node, made: Any, results: Sequence[TensorType | None]) -> None:
    """Refuses what has another type than PyTorch infers, for outputs that somebody reads."""
    values = made if isinstance(made, list | tuple) else (made,)
    taken = [user for user in node.users if user.target is operator.getitem and user.users]
    places: Any = [user.args[1] for user in taken]
    for place, (value, type) in enumerate(zip(values, results, strict=False)):
        wanted = not _gives_several(node) or place in places
        if wanted and type is not None and (value is None or value.type != type):
            got = str(value.type) if value is not None else "nothing"
            raise RefusalError(f"the row of {node.target} must give {type}", got=got)


def _name(node: fx.Node) -> str:
    """A name for what a node becomes: the module's path and the op."""
    path = _module_path(node)
    op = node.name
    return f"{path}.{op}" if path else op


def _module_path(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    return paths[-1].removeprefix("L['self'].").removeprefix("L__self___") if paths else ""


def origin_of(node: fx.Node) -> Origin:
    """Where a node stands: the module's path, and the line of its source that is not PyTorch's."""
    sources = [_module_path(node)] if _module_path(node) else []
    lines = (node.meta.get("stack_trace") or "").splitlines()
    places = [line.strip() for line in lines if line.lstrip().startswith("File ")]
    own = [line for line in places if "/torch/" not in line] or places
    if own:
        file, line = own[-1].split('"')[1], own[-1].split("line ")[1].split(",")[0]
        sources.append(f"{file.rsplit('/', 1)[-1]}:{line}")
    return Origin(tuple(sources) or (node.name,))


def _without_inputs(graph: Graph, names: set[str]) -> Graph:
    if not names:
        return graph
    kept = tuple(name for name in graph.inputs if name not in names)
    types = {name: type for name, type in graph.types.items() if name not in names}
    return Graph(graph.name, kept, graph.outputs, graph.nodes, types, graph.constants)
