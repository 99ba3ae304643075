"""A graph as definitions of values: what grouping and storage work on.

Each value is ``Defined`` by an index expression, ``Assembled`` from parts that are
written in place (concatenation), or an output of an ``Opaque`` node (an extern C body or
a control-flow op).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.errors import InternalError
from weft.ir.edit import prune
from weft.ir.graph import Graph, Node
from weft.ir.naming import fresh
from weft.ir.types import TensorType
from weft.ir.unknown import is_known
from weft.loops.affine import affine
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Cast, Const, Expr, Load, Var
from weft.loops.python_arithmetic import HALVES
from weft.loops.walk import map_expr, rename_loads
from weft.ops.evaluate import call_of
from weft.ops.record import Control, Define, Extern, Op
from weft.ops.shape import VIEWS
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Defined:
    """One value, point by point; loads name other values."""

    value: str
    compute: Compute
    node: Node

    @property
    def reads(self) -> tuple[str, ...]:
        """Values that it depends on."""
        return self.node.reads


@dataclass(frozen=True, slots=True)
class Assembled:
    """A value whose parts lie side by side along an axis.

    Attributes:
        parts: the values, in order, each owned by one assembled value.
        owner: another assembled value that this one is a window of, if any, and where
            along the axis it begins.
    """

    value: str
    parts: tuple[str, ...]
    axis: int
    node: Node
    owner: tuple[str, int] | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """Values that it depends on."""
        return self.parts


@dataclass(frozen=True, slots=True)
class Opaque:
    """A node that is run as a whole; its operands are packed row-major."""

    node: Node
    kind: Literal["extern", "control"]

    @property
    def reads(self) -> tuple[str, ...]:
        """Values that it depends on."""
        return self.node.reads


Item: TypeAlias = Defined | Assembled | Opaque


@dataclass(frozen=True)
class TensorProgram:
    """All values of a graph, in an order in which they can be computed."""

    graph: Graph
    items: tuple[Item, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, np.ndarray]


def copy_of(value: str, source: str, type: TensorType, node: Node) -> Defined:
    """A value equal to another."""
    ranges = tuple(Axis(f"i{place}", extent) for place, extent in enumerate(type.dims))
    point = tuple(Var(axis.var) for axis in ranges)
    copy = replace(node, inputs=(source,), outputs=(value,))
    return Defined(value, Compute(ranges, Load(source, point, type.dtype)), copy)


def moved_from(compute: Compute) -> Load | None:
    """The load of a definition that only moves elements by affine indices, else ``None``."""
    load = compute.value
    if not isinstance(load, Load):
        return None
    own = {axis.var for axis in compute.axes}
    for part in load.index:
        if any(not isinstance(atom, Var) or atom.name not in own for atom in affine(part).terms):
            return None
    return load


def is_widening(compute: Compute) -> bool:
    """Whether a definition reads half precision as f32 and does no more."""
    match compute.value:
        case Cast(DType.F32, Load(_, _, dtype) as load) if dtype in HALVES:
            return moved_from(Compute(compute.axes, load)) is not None
        case _:
            return False


def is_point(load: Load, axes: Sequence[Axis]) -> bool:
    """Whether a load reads the element at the point of the axes itself."""
    return len(load.index) == len(axes) and all(
        part == Var(axis.var) or axis.extent == 1
        for part, axis in zip(load.index, axes, strict=True)
    )


class _Builder:
    """Collects items; names of new values are kept apart from the graph's."""

    def __init__(self, graph: Graph, ops: Mapping[str, Op]) -> None:
        self.graph = graph
        self.ops = ops
        self.types: dict[str, TensorType] = dict(graph.types)
        self.owners = _owners(graph, ops)
        self.items: list[Item] = []

    def fresh(self, wish: str) -> str:
        return fresh(wish, self.types)

    def copy(self, wish: str, source: str, node: Node) -> str:
        name = self.fresh(wish)
        self.types[name] = self.types[source]
        self.items.append(copy_of(name, source, self.types[source], node))
        return name

    def concat(self, node: Node) -> None:
        whole = node.outputs[0]
        axis = node.attributes.axis % len(self.types[whole].shape)
        owner = self.owners.windows.get(whole)
        parts = tuple(
            part
            if owner or self.owners.of_part.get(part) == (whole, place)
            else self.copy(f"{whole}_part{place}", part, node)
            for place, part in enumerate(node.inputs)
        )
        self.items.append(Assembled(whole, parts, axis, node, owner))

    def define(self, node: Node, function: Define) -> None:
        call = call_of(node, self.types)
        names = {f"in{place}": value for place, value in enumerate(node.inputs) if value}
        for value, compute in zip(node.outputs, function.function(call), strict=False):
            if value:
                body = self.with_literals(rename_loads(compute.value, names))
                self.items.append(Defined(value, Compute(compute.axes, body), node))

    def with_literals(self, body: Expr) -> Expr:
        """Puts constants of one element into the expression."""
        constants = self.graph.constants

        def literal(node: Expr) -> Expr:
            if isinstance(node, Load):
                array = constants.get(node.buffer)
                if array is not None and array.size == 1 and is_known(array):
                    return Const(array.reshape(()).item(), node.dtype)
            return node

        return map_expr(body, literal)

    def with_outputs(self, node: Node) -> Node:
        """The node with a value for every output: a C body writes all of them."""
        if all(node.outputs):
            return node
        types = self.ops[node.op].infer(call_of(node, self.types))
        outputs: list[str] = []
        for value, type in zip(node.outputs, types, strict=False):
            outputs.append(value or self.fresh(f"{node.name}_unused"))
            self.types[outputs[-1]] = type
        return replace(node, outputs=tuple(outputs))

    def add(self, node: Node) -> None:
        match self.ops[node.op].compute:
            case _ if node.op == "Concat":
                self.concat(node)
            case Define() as function:
                self.define(node, function)
            case Extern():
                self.items.append(Opaque(self.with_outputs(node), "extern"))
            case Control():
                self.items.append(Opaque(node, "control"))
            case other:
                raise InternalError(f"{node.op} reached the plan as {type(other).__name__}")


@dataclass(frozen=True)
class _Owners:
    of_part: dict[str, tuple[str, int]]
    windows: dict[str, tuple[str, int]]


def _ownable(graph: Graph, ops: Mapping[str, Op], value: str) -> bool:
    """Whether a value can be computed straight into its place in another."""
    node = graph.producers.get(value)
    if node is None or value in graph.outputs:
        return False
    if node.op == "Concat":
        return True
    compute = ops[node.op].compute
    if not isinstance(compute, Define) or node.op in VIEWS:
        return False
    computes = compute.function(call_of(node, graph.types))
    return moved_from(computes[node.outputs.index(value)]) is None


def _window(
    graph: Graph, node: Node, axis: int, of_part: dict[str, tuple[str, int]]
) -> tuple[str, int] | None:
    """Where the parts already lie side by side in another assembled value, if they do."""
    places = [of_part.get(part) for part in node.inputs]
    first = places[0]
    if first is None:
        return None
    whole = graph.producers[first[0]]
    if whole.attributes.axis % len(graph.types[first[0]].shape) != axis:
        return None
    for offset, place in enumerate(places):
        if place != (first[0], first[1] + offset):
            return None
    before = whole.inputs[: first[1]]
    return first[0], sum(graph.types[part].dims[axis] for part in before)


def _owners(graph: Graph, ops: Mapping[str, Op]) -> _Owners:
    """Which part is written straight into which concatenation; later ones choose first."""
    of_part: dict[str, tuple[str, int]] = {}
    windows: dict[str, tuple[str, int]] = {}
    for node in reversed(graph.nodes):
        if node.op != "Concat":
            continue
        whole = node.outputs[0]
        axis = node.attributes.axis % len(graph.types[whole].shape)
        found = None if whole in graph.outputs else _window(graph, node, axis, of_part)
        if found and whole not in of_part:
            windows[whole] = found
            continue
        for place, part in enumerate(node.inputs):
            if part not in of_part and _ownable(graph, ops, part):
                of_part[part] = (whole, place)
    return _Owners(of_part, windows)


def only_used(graph: Graph) -> Graph:
    """Without what no output depends on; nodes keep the places of their unused outputs."""
    graph = prune(graph)
    used = {value for node in graph.nodes for value in node.inputs} | set(graph.outputs)
    if all(value in used for value in graph.producers):
        return graph
    nodes = tuple(
        replace(node, outputs=tuple(value if value in used else "" for value in node.outputs))
        for node in graph.nodes
    )
    kept = used.union(graph.inputs)
    types = {value: type for value, type in graph.types.items() if value in kept}
    return replace(graph, nodes=nodes, types=types)


def own_outputs(graph: Graph) -> Graph:
    """The same function with every output made by a node, and under one name only.

    The caller's memory for an output is written once, by the step that makes the value.
    """
    types, nodes, outputs = dict(graph.types), list(graph.nodes), list[str]()
    for value in graph.outputs:
        name, count = value, 0
        if value not in graph.producers or value in outputs:
            while name in types:
                count += 1
                name = f"{value}_out{count}"
            types[name] = types[value]
            nodes.append(Node(f"{name}_copy", "Identity", (value,), (name,)))
        outputs.append(name)
    return replace(graph, nodes=tuple(nodes), types=types, outputs=tuple(outputs))


def widened_apart(graph: Graph) -> Graph:
    """The same function where every node that reads half precision as f32 converts it itself.

    A conversion costs less than a copy of what it gives, so it belongs to what reads it.
    """
    types, nodes = dict(graph.types), list[Node]()
    widened: dict[str, Node] = {}
    given: set[str] = set()
    for node in graph.nodes:
        inputs = list(node.inputs)
        for place, value in enumerate(node.inputs):
            maker = widened.get(value)
            if maker is None or value in node.inputs[:place]:
                continue
            if value in given:
                name = fresh(value, types)
                types[name] = types[value]
                nodes.append(replace(maker, name=f"{maker.name}_{name}", outputs=(name,)))
                inputs = [name if each == value else each for each in inputs]
            given.add(value)
        nodes.append(replace(node, inputs=tuple(inputs)))
        if node.op == "Cast" and types[node.inputs[0]].dtype in HALVES:
            widened[node.outputs[0]] = node
            given.update(value for value in node.outputs if value in graph.outputs)
    return replace(graph, nodes=tuple(nodes), types=types)


def as_planned(graph: Graph) -> Graph:
    """The same function in the form that plans are made of.

    Nothing is computed in vain, every output has a node of its own, and every reader of half
    precision converts it itself.
    """
    return widened_apart(own_outputs(only_used(graph)))


def tensor_program(graph: Graph, ops: Mapping[str, Op]) -> TensorProgram:
    """Definitions of all values of a static, expanded graph."""
    builder = _Builder(graph, ops)
    for node in graph.nodes:
        builder.add(node)
    return TensorProgram(graph, tuple(builder.items), builder.types, graph.constants)
