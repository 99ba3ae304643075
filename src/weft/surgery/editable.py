"""Edits as methods: what has a graph and can be made of one gets them all."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Self

import numpy as np

from weft.ir.buffers import ArrayLike
from weft.ir.compose import extract
from weft.ir.edit import set_outputs
from weft.ir.graph import Graph
from weft.ir.history import Entry
from weft.ir.naming import require_mapping
from weft.ir.types import Dim
from weft.surgery.chosen import Nodes, Values, node_names, one_value, value_names
from weft.surgery.cut import freeze, split
from weft.surgery.nodes import delete, insert, rename, replace
from weft.surgery.part import Part
from weft.surgery.resize import with_shapes
from weft.surgery.view import View, view
from weft.surgery.weights import load_weights, save_weights, swap_weights


class Editable(ABC):
    """Something with a graph, whose edits give something new of the same kind.

    Every method gives a new one or raises ``UserError`` with the reason; nothing changes.
    """

    @cached_property
    @abstractmethod
    def graph(self) -> Graph:
        """What is computed."""

    @abstractmethod
    def with_graph(self, graph: Graph) -> Self:
        """The same with another graph."""

    @property
    def history(self) -> tuple[Entry, ...]:
        """The edits, rewrites and recipes that made the graph."""
        return self.graph.history

    def view(self, nodes: Nodes) -> View:
        """Some nodes, with what goes in and comes out in a fixed order."""
        return view(self.graph, node_names(self.graph, nodes, "view"))

    def delete(self, nodes: Nodes, keep: Mapping[str, str] | None = None) -> Self:
        """Without some nodes: who read their outputs reads one of their inputs.

        Args:
            nodes: a name, a node, a match, or several.
            keep: by node, the input that takes its output's place, where several could.
        """
        if keep is not None:
            require_mapping(keep, "delete: keep gives the value that stays, by node")
        return self.with_graph(delete(self.graph, node_names(self.graph, nodes, "delete"), keep))

    def replace(
        self,
        nodes: Nodes,
        part: Part,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
    ) -> Self:
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
        names = node_names(self.graph, nodes, "replace")
        if inputs is not None:
            require_mapping(inputs, "replace: inputs gives a value, by input of the part")
        if outputs is not None:
            require_mapping(outputs, "replace: outputs gives a value of the part, by output")
        return self.with_graph(replace(self.graph, names, part, inputs, outputs))

    def insert(self, value: Values, part: Part, users: Nodes | None = None) -> Self:
        """With a graph, a net or a function of values between a value and who reads it.

        Args:
            value: the edge: a value, or the node that makes it.
            part: from one value to one of the same type.
            users: nodes that shall read what comes out; all, and the graph's output, if
                not given.
        """
        chosen = None if users is None else node_names(self.graph, users, "insert")
        return self.with_graph(insert(self.graph, one_value(value, "insert"), part, chosen))

    def rename(
        self, values: Mapping[str, str] | None = None, nodes: Mapping[str, str] | None = None
    ) -> Self:
        """With other names of values, graph inputs and outputs included, and of nodes."""
        for names in filter(None, (values, nodes)):
            require_mapping(names, "rename: new names are given by the old ones")
        return self.with_graph(rename(self.graph, values, nodes))

    def extract(self, inputs: Values, outputs: Values) -> Self:
        """The part between some values and others."""
        ends = value_names(inputs, "extract"), value_names(outputs, "extract")
        return self.with_graph(extract(self.graph, *ends))

    def split(self, at: Values) -> tuple[Self, Self]:
        """What lies before and what lies behind some values."""
        cut = split(self.graph, value_names(at, "split"))
        return self.with_graph(cut.front), self.with_graph(cut.back)

    def with_outputs(self, values: Values) -> Self:
        """With other values as its outputs."""
        return self.with_graph(set_outputs(self.graph, value_names(values, "outputs")))

    def with_shapes(self, shapes: Mapping[str, Sequence[Dim | str]]) -> Self:
        """For inputs of other shapes; a name as the leading size leaves it open.

        Refused, with the node and the reason, where weights or attributes fix the old ones.
        """
        require_mapping(shapes, "shapes: they are given by input, as {'x': (1, 3, 32, 32)}")
        return self.with_graph(with_shapes(self.graph, shapes))

    def freeze(self, arrays: Mapping[str, ArrayLike]) -> Self:
        """With constants in the place of inputs."""
        require_mapping(arrays, "freeze: arrays are given by input")
        return self.with_graph(freeze(self.graph, arrays))

    @property
    def weights(self) -> Mapping[str, np.ndarray]:
        """The constants by name, read-only."""
        return self.graph.constants

    def with_weights(
        self,
        weights: Mapping[str, ArrayLike] | str | os.PathLike[str],
        *,
        partial: bool = True,
    ) -> Self:
        """With other weights, of the same element types and shapes.

        Args:
            weights: by name, or a ``.safetensors`` or ``.npz`` file.
            partial: weights that are not given stay; else that is refused.
        """
        if not isinstance(weights, str | os.PathLike):
            require_mapping(weights, "weights are arrays by name, or the path of a file")
        arrays = weights if isinstance(weights, Mapping) else load_weights(weights)
        return self.with_graph(swap_weights(self.graph, arrays, partial=partial))

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Writes the weights by their names to a ``.safetensors`` or ``.npz`` file."""
        save_weights(self.graph, path)
