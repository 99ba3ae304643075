"""Put subgraphs in the places of sets of nodes, any number of them in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from dataclasses import replace as changed

import numpy as np

from weft.errors import UserError
from weft.ir.graph import Graph, Node, Origin
from weft.ir.naming import numbered
from weft.ir.order import topological
from weft.ir.types import TensorType
from weft.records import dataclass


@dataclass(frozen=True)
class Replacement:
    """One place: the nodes that go and the subgraph that comes.

    Attributes:
        nodes: names of the nodes that go.
        subgraph: what comes.
        inputs: value of the graph for every input of the subgraph.
        outputs: output of the subgraph for every value that the nodes made and that
            something else reads or the graph returns; the value keeps its name.
    """

    nodes: tuple[str, ...]
    subgraph: Graph
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass
class _Work:
    """The pass under way: what the new graph will be made of."""

    graph: Graph
    gone: dict[str, int]
    types: dict[str, TensorType]
    constants: dict[str, np.ndarray]
    node_names: set[str]
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    value_suffixes: dict[str, int] = field(default_factory=dict[str, int])
    node_suffixes: dict[str, int] = field(default_factory=dict[str, int])

    def fresh_value(self, wish: str) -> str:
        return numbered(wish, self.types, self.value_suffixes)

    def fresh_node(self, wish: str) -> str:
        name = numbered(wish, self.node_names, self.node_suffixes)
        self.node_names.add(name)
        return name

    def resolve(self, value: str) -> str:
        """The value that a replaced value has become another name of."""
        seen: list[str] = []
        while value in self.aliases:
            if value in seen:
                raise UserError(f"replace: value {value} would depend on itself")
            seen.append(value)
            value = self.aliases[value]
        for each in seen:
            self.aliases[each] = value
        return value


def substitute(
    graph: Graph, replacements: Sequence[Replacement], *, retyped: bool = False
) -> Graph:
    """Make all replacements, or raise ``UserError`` and make none.

    Args:
        graph: the graph.
        replacements: that do not overlap.
        retyped: values may get other types; those of what reads them are as they were, for
            the caller to infer.
    """
    gone = _gone(graph, replacements)
    _check_kept_values(graph, gone, replacements)
    for each in replacements:
        _check_interface(graph, gone, each, retyped)
    work = _Work(
        graph,
        gone,
        _surviving_types(graph, gone, replacements),
        dict(graph.constants),
        {node.name for node in graph.nodes if node.name not in gone},
    )
    come = [_instantiate(work, each) for each in replacements]
    return _assemble(work, replacements, come)


def _gone(graph: Graph, replacements: Sequence[Replacement]) -> dict[str, int]:
    gone: dict[str, int] = {}
    for number, each in enumerate(replacements):
        if not each.nodes:
            raise UserError("replace: there must be at least one node to replace", got="none")
        for name in each.nodes:
            if name not in graph.by_name:
                raise UserError(f"replace: graph {graph.name} has no node {name}")
            if name in gone:
                raise UserError(f"replace: node {name} is replaced twice")
            gone[name] = number
    return gone


def _check_kept_values(
    graph: Graph, gone: Mapping[str, int], replacements: Sequence[Replacement]
) -> None:
    """What is read after the replacement must be given by it."""
    for name, number in gone.items():
        for value in graph.by_name[name].outputs:
            if not value or value in replacements[number].outputs:
                continue
            reader = next(
                (f"node {u.name}" for u in graph.users[value] if gone.get(u.name) != number),
                "the graph's outputs" if value in graph.outputs else "",
            )
            if reader:
                raise UserError(
                    f"replace: value {value} is still read by {reader}",
                    where=f"node {name}",
                    fix="Give an output of the subgraph for it.",
                )


def _check_interface(
    graph: Graph, gone: Mapping[str, int], each: Replacement, retyped: bool
) -> None:
    number = gone[each.nodes[0]]
    for inner in each.subgraph.inputs:
        outer = each.inputs.get(inner)
        if outer is None or outer not in graph.types:
            got = "none" if outer is None else outer
            raise UserError(f"replace: subgraph input {inner} needs a value of the graph", got=got)
        maker = graph.producers.get(outer)
        if maker is not None and gone.get(maker.name) == number:
            raise UserError(f"replace: subgraph input {inner} reads {outer}, which is replaced")
        _check_type(graph.types[outer], outer, each.subgraph.types[inner], inner)
    for outer, inner in each.outputs.items():
        maker = graph.producers.get(outer)
        if maker is None or gone.get(maker.name) != number:
            raise UserError(f"replace: value {outer} is not computed by the replaced nodes")
        if inner not in each.subgraph.types:
            raise UserError(f"replace: the subgraph has no value {inner}", got=each.subgraph.name)
        if not retyped:
            _check_type(graph.types[outer], outer, each.subgraph.types[inner], inner)


def _check_type(outer: TensorType, outer_name: str, inner: TensorType, inner_name: str) -> None:
    if outer != inner:
        raise UserError(
            "replace: both sides of a value must have one type",
            got=f"{outer_name}: {outer} in the graph, {inner_name}: {inner} in the subgraph",
            fix="Cast in the subgraph."
            if outer.shape == inner.shape
            else "Give a subgraph for that shape, or replace what reads the value, too.",
        )


def _surviving_types(
    graph: Graph, gone: Mapping[str, int], replacements: Sequence[Replacement]
) -> dict[str, TensorType]:
    kept = {value for each in replacements for value in each.outputs}
    lost = {
        value
        for name in gone
        for value in graph.by_name[name].outputs
        if value and value not in kept
    }
    return {value: type for value, type in graph.types.items() if value not in lost}


def _instantiate(work: _Work, each: Replacement) -> list[Node]:
    """The subgraph's nodes under the names that they have in the graph."""
    names: dict[str, str] = {inner: each.inputs[inner] for inner in each.subgraph.inputs}
    for inner, array in each.subgraph.constants.items():
        names[inner] = _place_constant(work, inner, array, each.subgraph.types[inner])
    for outer, inner in each.outputs.items():
        if inner in names:
            work.aliases[outer] = names[inner]
            del work.types[outer]
        else:
            names[inner] = outer
            work.types[outer] = each.subgraph.types[inner]
    for node in each.subgraph.nodes:
        for value in node.outputs:
            if value and value not in names:
                names[value] = work.fresh_value(value)
                work.types[names[value]] = each.subgraph.types[value]
    origin = _origin(work.graph, each.nodes)
    return [
        Node(
            work.fresh_node(node.name),
            node.op,
            tuple(names[value] if value else "" for value in node.inputs),
            tuple(names[value] if value else "" for value in node.outputs),
            node.attributes,
            node.origin if node.origin.sources else origin.merge(node.origin),
        )
        for node in each.subgraph.nodes
    ]


def _place_constant(work: _Work, name: str, array: np.ndarray, type: TensorType) -> str:
    # The same array under the same name is the graph's own constant, met again.
    if work.constants.get(name) is array:
        return name
    fresh = work.fresh_value(name)
    work.constants[fresh] = array
    work.types[fresh] = type
    return fresh


def _origin(graph: Graph, names: Sequence[str]) -> Origin:
    origin = Origin()
    for name in names:
        origin = origin.merge(graph.by_name[name].origin)
    return origin


def _assemble(
    work: _Work, replacements: Sequence[Replacement], come: Sequence[list[Node]]
) -> Graph:
    graph = work.graph
    position = {node.name: index for index, node in enumerate(graph.nodes)}
    last = {
        max(each.nodes, key=position.__getitem__): nodes
        for each, nodes in zip(replacements, come, strict=True)
    }
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.extend(last.get(node.name, ()))
        if node.name not in work.gone:
            nodes.append(node)
    if work.aliases:
        renames = _output_renames(work, nodes)
        nodes = [_resolved(work, renames, node) for node in nodes]
    return changed(graph, nodes=topological(nodes), types=work.types, constants=work.constants)


def _output_renames(work: _Work, nodes: Sequence[Node]) -> dict[str, str]:
    """New names of values that take over the names of replaced graph outputs."""
    made = {value for node in nodes for value in node.outputs if value}
    renames: dict[str, str] = {}
    for output in dict.fromkeys(work.graph.outputs):
        if output not in work.aliases:
            continue
        root = work.resolve(output)
        if root not in made or root in work.graph.outputs or root in renames:
            raise UserError(
                f"replace: graph output {output} would become an alias of {root}",
                fix="Keep an Identity for it.",
            )
        renames[root] = output
        work.types[output] = work.types.pop(root)
    return renames


def _resolved(work: _Work, renames: Mapping[str, str], node: Node) -> Node:
    inputs = tuple(work.resolve(value) for value in node.inputs)
    inputs = tuple(renames.get(value, value) for value in inputs)
    outputs = tuple(renames.get(value, value) for value in node.outputs)
    if inputs == node.inputs and outputs == node.outputs:
        return node
    return changed(node, inputs=inputs, outputs=outputs)
