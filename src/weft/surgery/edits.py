"""Edits of whatever has a graph: functions that become its methods.

Every edit gives a new one of the same type or raises ``UserError`` with the reason; nothing
changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol, Self, TypeVar

from weft.cached import cached_property
from weft.ir.buffers import ArrayLike
from weft.ir.compose import extract as extract_graph
from weft.ir.edit import set_outputs
from weft.ir.graph import Graph
from weft.ir.naming import require_mapping
from weft.ir.types import Dim
from weft.surgery.chosen import Nodes, Values, node_names, one_value, value_names
from weft.surgery.exchange_weights import load_weights, swap_weights
from weft.surgery.exchange_weights import save_weights as write_weights
from weft.surgery.nodes import delete as delete_nodes
from weft.surgery.nodes import insert as insert_part
from weft.surgery.nodes import rename as rename_all
from weft.surgery.nodes import replace as replace_nodes
from weft.surgery.part import Part
from weft.surgery.partition import freeze as freeze_inputs
from weft.surgery.partition import split as split_graph
from weft.surgery.resize import with_shapes as resize
from weft.surgery.view import Selection
from weft.surgery.view import view as view_nodes


class HasGraph(Protocol):
    """What edits take."""

    @cached_property
    def graph(self) -> Graph:
        """What is computed."""
        ...

    def with_graph(self, graph: Graph) -> Self:
        """The same of another graph."""
        ...


N = TypeVar("N", bound=HasGraph)


def view(net: HasGraph, nodes: Nodes) -> Selection:
    """Some nodes, with what goes in and comes out in a fixed order."""
    return view_nodes(net.graph, node_names(net.graph, nodes, "view"))


def delete(net: N, nodes: Nodes, keep: Mapping[str, str] | None = None) -> N:
    """Without some nodes: who read their outputs reads one of their inputs.

    Args:
        nodes: a name, a node, a match, or several.
        keep: by node, the input that takes its output's place, where several could.
    """
    if keep is not None:
        require_mapping(keep, "delete: keep gives the value that stays, by node")
    return net.with_graph(delete_nodes(net.graph, node_names(net.graph, nodes, "delete"), keep))


def replace(
    net: N,
    nodes: Nodes,
    part: Part,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
) -> N:
    """With a graph, a net or a function of values in the place of some nodes.

    What comes may give values of other types where the types of all that follows can be
    inferred anew.

    Args:
        nodes: a name, a node, a match, or several that are replaced as one.
        part: what comes.
        inputs: value of the graph for every input of the part; those of the nodes'
            view, in order, if not given.
        outputs: value of the part for every output of the nodes that is read; those of
            the view, in order, if not given.
    """
    names = node_names(net.graph, nodes, "replace")
    if inputs is not None:
        require_mapping(inputs, "replace: inputs gives a value, by input of the part")
    if outputs is not None:
        require_mapping(outputs, "replace: outputs gives a value of the part, by output")
    return net.with_graph(replace_nodes(net.graph, names, part, inputs, outputs))


def insert(net: N, value: Values, part: Part, users: Nodes | None = None) -> N:
    """With a graph, a net or a function of values between a value and who reads it.

    Args:
        value: the edge: a value, or the node that makes it.
        part: from one value to one of the same type.
        users: nodes that shall read what comes out; all, and the graph's output, if
            not given.
    """
    chosen = None if users is None else node_names(net.graph, users, "insert")
    return net.with_graph(insert_part(net.graph, one_value(value, "insert"), part, chosen))


def rename(
    net: N, values: Mapping[str, str] | None = None, nodes: Mapping[str, str] | None = None
) -> N:
    """With other names of values, graph inputs and outputs included, and of nodes."""
    for names in filter(None, (values, nodes)):
        require_mapping(names, "rename: new names are given by the old ones")
    return net.with_graph(rename_all(net.graph, values, nodes))


def extract(net: N, inputs: Values, outputs: Values) -> N:
    """The part between some values and others."""
    ends = value_names(inputs, "extract"), value_names(outputs, "extract")
    return net.with_graph(extract_graph(net.graph, *ends))


def split(net: N, at: Values) -> tuple[N, N]:
    """What lies before and what lies behind some values."""
    cut = split_graph(net.graph, value_names(at, "split"))
    return net.with_graph(cut.front), net.with_graph(cut.back)


def with_outputs(net: N, values: Values) -> N:
    """With other values as its outputs."""
    return net.with_graph(set_outputs(net.graph, value_names(values, "outputs")))


def with_shapes(net: N, shapes: Mapping[str, Sequence[Dim | str]]) -> N:
    """For inputs of other shapes; a name as the leading size leaves it open.

    Refused, with the node and the reason, where weights or attributes fix the old ones.
    """
    require_mapping(shapes, "shapes: they are given by input, as {'x': (1, 3, 32, 32)}")
    return net.with_graph(resize(net.graph, shapes))


def freeze(net: N, arrays: Mapping[str, ArrayLike]) -> N:
    """With constants in the place of inputs."""
    require_mapping(arrays, "freeze: arrays are given by input")
    return net.with_graph(freeze_inputs(net.graph, arrays))


def with_weights(
    net: N,
    weights: Mapping[str, ArrayLike] | str | os.PathLike[str],
    *,
    partial: bool = True,
) -> N:
    """With other weights, of the same element types and shapes.

    Args:
        weights: by name, or a ``.safetensors`` or ``.npz`` file.
        partial: weights that are not given stay; else that is refused.
    """
    if not isinstance(weights, str | os.PathLike):
        require_mapping(weights, "weights are arrays by name, or the path of a file")
    arrays = weights if isinstance(weights, Mapping) else load_weights(weights)
    return net.with_graph(swap_weights(net.graph, arrays, partial=partial))


def save_weights(net: HasGraph, path: str | os.PathLike[str]) -> None:
    """Writes the weights by their names to a ``.safetensors`` or ``.npz`` file."""
    write_weights(net.graph, path)
