"""Layers that sum products of integers with constant weights, and what their inputs contribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as changed

import numpy as np

from weft.ir.edit import read_only
from weft.ir.graph import Graph, Node
from weft.ir.naming import fresh, type_of
from weft.loops.element_bounds import ElementBounds, along_axis
from weft.ops.integer import PRODUCTS, IntegerProducts
from weft.ops.table import OPS
from weft.ops.value_bounds import node_sum
from weft.records import dataclass

Known = Mapping[str, ElementBounds]


@dataclass(frozen=True)
class IntegerLayer:
    """A node of ``weft.ops.integer.PRODUCTS`` whose weights and zero points are constants.

    Attributes:
        graph: its graph.
        node: the node.
        products: which of its inputs are what.
        channels: the axis of the data that is summed over.
        groups: of channels.
    """

    graph: Graph
    node: Node
    products: IntegerProducts
    channels: int
    groups: int

    @property
    def data(self) -> str:
        """The value that is multiplied by the weight."""
        return self.node.inputs[self.products.data]

    @property
    def weight(self) -> str:
        """The constant that it is multiplied by."""
        return self.node.inputs[self.products.weight]

    @property
    def summed_axis(self) -> int:
        """The axis of the weight that is summed over."""
        return 1 - self.products.outputs

    @property
    def count(self) -> int:
        """How many channels the data has."""
        return self.graph.types[self.data].dims[self.channels]

    @property
    def outputs(self) -> int:
        """How many channels the output has."""
        return self.graph.types[self.weight].dims[self.products.outputs]

    @property
    def output_axis(self) -> int:
        """The axis of the output's channels."""
        last = self.channels == len(self.graph.types[self.data].shape) - 1
        return len(self.graph.types[self.node.outputs[0]].shape) - 1 if last else 1

    @property
    def bias(self) -> np.ndarray | int:
        """What the node adds to its sums, by output."""
        found = _constant(self.graph, self.node, self.products.bias)
        return 0 if found is None else found.astype(np.int64)

    def centred(self, graph: Graph) -> np.ndarray:
        """Weights less their zero points: ``[channels, outputs of its group, window...]``."""
        weight = graph.constants[self.weight].astype(np.int32)
        weight = np.moveaxis(weight, self.products.outputs, 0)
        zero = _constant(graph, self.node, self.products.weight_zero)
        if zero is not None:
            weight = weight - zero.reshape((-1,) + (1,) * (weight.ndim - 1))
        grouped = weight.reshape(self.groups, -1, *weight.shape[1:])
        swapped = np.swapaxes(grouped, 1, 2)
        return swapped.reshape(self.count, *swapped.shape[2:])

    def unread_inputs(self, graph: Graph) -> np.ndarray:
        """Which channels have weights of zero, that is of the zero point, only."""
        weight = self.centred(graph)
        return np.logical_not(weight.reshape(len(weight), -1).any(axis=1))

    def constant_inputs(self, bounds: Known) -> np.ndarray:
        """Which channels contribute the same to every output, whatever the data are."""
        constant, values = _constants_along(bounds[self.data], self.channels, self.count)
        if not constant.any():
            return constant
        nothing = constant & (values == self._data_zero())
        others = constant & ~nothing
        if not others.any() or self.contribution(others, bounds) is not None:
            return constant
        for place in np.flatnonzero(others):
            alone = np.arange(self.count) == place
            if self.contribution(alone, bounds) is None:
                constant[place] = False
        return constant

    def contribution(self, chosen: np.ndarray, bounds: Known) -> np.ndarray | None:
        """What constant channels add to the sums, by output; ``None`` if not the same everywhere.

        The sum of the layer, where other channels are the zero point.
        """
        _, values = _constants_along(bounds[self.data], self.channels, self.count)
        rank = len(self.graph.types[self.data].shape)
        only = np.where(chosen, values, self._data_zero())
        shape = tuple(-1 if axis == self.channels else 1 for axis in range(rank))
        exact = only.astype(np.int64).reshape(shape)
        found = node_sum(self.graph, self.node, {**bounds, self.data: ElementBounds(exact, exact)})
        if found is None or not found.exact.all() or found.low.size not in (1, self.outputs):
            return None
        made = np.broadcast_to(found.low.reshape(-1), (self.outputs,))
        return None if made.any() and not self._takes_bias() else made

    def folded(self, graph: Graph, chosen: np.ndarray, bounds: Known) -> Graph:
        """A graph in which what channels contribute is part of the bias.

        Args:
            graph: the graph, in which other layers may have been changed.
            chosen: constant channels, of ``constant_inputs``.
            bounds: of the values.
        """
        chosen = chosen & ~self.unread_inputs(self.graph)
        if not chosen.any():
            return graph
        made = self.contribution(chosen, bounds)
        assert made is not None
        return self._with_bias(self._without_weights(graph, chosen), made)

    def _data_zero(self) -> int:
        zero = _constant(self.graph, self.node, self.products.data_zero)
        return 0 if zero is None else int(zero.reshape(()))

    def _takes_bias(self) -> bool:
        place = self.products.bias
        given = self.node.inputs[place] if 0 <= place < len(self.node.inputs) else ""
        return self.products.is_sum or (place >= 0 and (not given or given in self.graph.constants))

    def _without_weights(self, graph: Graph, chosen: np.ndarray) -> Graph:
        weight = graph.constants[self.weight]
        zero = _constant(graph, self.node, self.products.weight_zero)
        rows = np.moveaxis(weight.copy(), self.products.outputs, 0)
        nothing = np.zeros((), rows.dtype) if zero is None else zero
        nothing = np.broadcast_to(nothing.reshape(-1), (len(rows),))
        size = self.count // self.groups
        outputs = len(rows) // self.groups
        for place in np.flatnonzero(chosen):
            group, column = divmod(int(place), size)
            own = slice(group * outputs, (group + 1) * outputs)
            rows[own, column] = nothing[own].reshape((-1,) + (1,) * (rows.ndim - 2))
        made = np.ascontiguousarray(np.moveaxis(rows, 0, self.products.outputs))
        return changed(graph, constants={**graph.constants, self.weight: read_only(made)})

    def _with_bias(self, graph: Graph, made: np.ndarray) -> Graph:
        if not made.any():
            return graph
        if self.products.is_sum:
            return self._with_sum(graph, made)
        place = self.products.bias
        inputs = [*self.node.inputs, *[""] * (place + 1 - len(self.node.inputs))]
        given = graph.constants.get(inputs[place])
        total = made if given is None else made + given
        return _reading(graph, changed(self.node, inputs=tuple(inputs)), place, total)

    def _with_sum(self, graph: Graph, made: np.ndarray) -> Graph:
        """Adds to the output of the node, in the sum with a constant behind it or in a new one."""
        output = self.node.outputs[0]
        behind = len(graph.types[output].shape) - 1 - self.output_axis
        added = read_only(made.astype(np.int32).reshape((-1,) + (1,) * behind))
        users = [each for each in graph.nodes if output in each.inputs]
        if len(users) == 1 and users[0].op == "Add" and output not in graph.outputs:
            place = 1 - users[0].inputs.index(output)
            given = graph.constants.get(users[0].inputs[place])
            if given is not None and np.broadcast(given, added).size == added.size:
                return _reading(graph, users[0], place, given + added)
        name = fresh(f"{output}_bias", graph.types)
        inner = fresh(f"{output}_products", graph.types)
        add = Node(
            fresh(f"{self.node.name}_bias", {each.name: None for each in graph.nodes}),
            "Add",
            (inner, name),
            (output,),
            origin=self.node.origin,
        )
        nodes: list[Node] = []
        for each in graph.nodes:
            if each.name == self.node.name:
                nodes += [changed(each, outputs=(inner,)), add]
            else:
                nodes.append(each)
        return changed(
            graph,
            nodes=tuple(nodes),
            constants={**graph.constants, name: added},
            types={
                **graph.types,
                inner: graph.types[output],
                name: type_of(added, name),
            },
        )


def _reading(graph: Graph, node: Node, place: int, array: np.ndarray) -> Graph:
    """The graph with a node that reads other numbers of ``i32`` at a place."""
    inputs = list(node.inputs)
    inputs[place] = name = fresh(inputs[place] or f"{node.name}_bias", graph.types)
    whole = read_only(array.astype(np.int32))
    new = changed(node, inputs=tuple(inputs))
    return changed(
        graph,
        nodes=tuple(new if each.name == node.name else each for each in graph.nodes),
        constants={**graph.constants, name: whole},
        types={**graph.types, name: type_of(whole, name)},
    )


def _constant(graph: Graph, node: Node, position: int) -> np.ndarray | None:
    given = node.inputs[position] if 0 <= position < len(node.inputs) else ""
    return graph.constants.get(given)


def _constants_along(bounds: ElementBounds, axis: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which positions along an axis have one value, and it."""
    low, high = along_axis(bounds, axis, count)
    return low == high, low


def integer_layers(graph: Graph) -> list[IntegerLayer]:
    """The layers of a graph that sum products of integers with constant weights."""
    found: list[IntegerLayer] = []
    for node in graph.nodes:
        name = OPS[node.op].onnx_name or node.op
        products = PRODUCTS.get(name)
        if products is None or not _is_constant(graph, node, products):
            continue
        rank = len(graph.types[node.inputs[products.data]].shape)
        last = products.outputs == 1 or name != node.op
        groups = getattr(node.attributes, "groups", 1)
        found.append(IntegerLayer(graph, node, products, rank - 1 if last else 1, groups))
    return found


def _is_constant(graph: Graph, node: Node, products: IntegerProducts) -> bool:
    places = (products.data_zero, products.weight, products.weight_zero)
    given = [node.inputs[place] for place in places if 0 <= place < len(node.inputs)]
    if not all(value in graph.constants for value in given if value):
        return False
    zero = _constant(graph, node, products.data_zero)
    matrix = graph.types[node.inputs[products.weight]]
    static = graph.types[node.inputs[products.data]].is_static
    single = zero is None or zero.size == 1
    return static and single and (products.outputs == 0 or len(matrix.shape) == 2)
