"""What was recorded of arrays without elements, as a graph from parameters to the arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ir.unknown import Array, Recorded, Unknown
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS


def graph_of(wanted: Mapping[str, Array], name: str) -> Graph:
    """The graph that computes arrays of parameters, every op once.

    Args:
        wanted: arrays by name.
        name: of the graph.

    Returns:
        The graph: inputs are named as the parameters, outputs are in the order of the arrays.
    """
    found = _Recording(name)
    return found.builder.graph([found.value(array, each) for each, array in wanted.items()])


class _Recording:
    def __init__(self, name: str) -> None:
        self.builder = GraphBuilder(OPS, name)
        self.values: dict[tuple[str, int], str] = {}
        self.known: dict[int, str] = {}

    def value(self, array: Array, wish: str) -> str:
        """The name of an array in the graph."""
        if not isinstance(array, Unknown):
            return self.constant(array)
        if isinstance(array.origin, str):
            key = (array.origin, -1)
            if key not in self.values:
                type = TensorType(DType.of(array.dtype), array.shape)
                self.values[key] = self.builder.input(array.origin, type)
            return self.values[key]
        key = (array.origin.digest, array.place)
        if key not in self.values:
            self.node(array.origin, wish)
        return self.values[key]

    def constant(self, array: np.ndarray) -> str:
        if id(array) not in self.known:
            self.known[id(array)] = self.builder.constant(array)
        return self.known[id(array)]

    def node(self, made: Recorded, wish: str) -> None:
        inputs = ["" if each is None else self.value(each, wish) for each in made.operands]
        attributes = made.attributes
        if isinstance(attributes, Mapping):
            attributes = OPS[made.op].attributes(**attributes)
        name = f"{wish}_{made.op.lower()}"
        outputs = self.builder.nodes_of(
            made.op, inputs, attributes, outputs=made.outputs, name=name
        )
        self.values |= {(made.digest, place): value for place, value in enumerate(outputs)}
