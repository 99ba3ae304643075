"""Which channels of integer layers are constant, and the bounds that prove it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from weft.compress.products import IntegerLayer, integer_layers
from weft.dtypes import DType
from weft.ir.graph import Graph, Node
from weft.loops.element_bounds import ElementBounds, along_axis
from weft.ops.axis_relations import is_elementwise
from weft.ops.evaluate import call_of
from weft.ops.value_bounds import node_sum, value_bounds
from weft.records import dataclass


@dataclass(frozen=True)
class ConstantChannel:
    """A channel that has one value for every input.

    Attributes:
        channel: its number.
        low, high: bounds of its sums of products with the bias, both inclusive.
        value: what requantization and activation make of any of them.
    """

    channel: int
    low: int
    high: int
    value: int


@dataclass(frozen=True)
class ConstantChannels:
    """The constant channels of a layer.

    Attributes:
        layer: name of its node.
        count: how many channels it makes.
        channels: those that are constant.
    """

    layer: str
    count: int
    channels: tuple[ConstantChannel, ...]


def constant_channels(graph: Graph) -> tuple[ConstantChannels, ...]:
    """The constant channels of the layers that sum products of integers, in graph order.

    Args:
        graph: the graph; layers that have none are left out.
    """
    bounds = value_bounds(graph)
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for value in filter(None, node.inputs):
            readers.setdefault(value, []).append(node)
    found = (_of_layer(graph, layer, bounds, readers) for layer in integer_layers(graph))
    return tuple(each for each in found if each.channels)


def _of_layer(
    graph: Graph,
    layer: IntegerLayer,
    bounds: Mapping[str, ElementBounds],
    readers: Mapping[str, list[Node]],
) -> ConstantChannels:
    values = list(_behind(graph, layer.node, readers))
    count, axis = layer.outputs, layer.output_axis
    low, high = along_axis(bounds[values[-1]], axis, count)
    wide = [value for value in values if graph.types[value].dtype is DType.I32]
    sums = bounds[wide[-1]] if wide else node_sum(graph, layer.node, bounds)
    least, most = along_axis(sums or bounds[values[0]], axis, count)
    bias = 0 if wide else layer.bias
    least, most = least + bias, most + bias
    return ConstantChannels(
        layer.node.name,
        count,
        tuple(
            ConstantChannel(place, int(least[place]), int(most[place]), int(low[place]))
            for place in np.flatnonzero(low == high).tolist()
        ),
    )


def _behind(graph: Graph, node: Node, readers: Mapping[str, list[Node]]) -> Iterator[str]:
    """The output of a node, and what element-wise ops in integers make of it one by one."""
    value = node.outputs[0]
    while True:
        yield value
        found = readers.get(value, [])
        if len(found) != 1 or value in graph.outputs or len(found[0].outputs) != 1:
            return
        value = found[0].outputs[0]
        if not is_elementwise(call_of(found[0], graph.types)):
            return
        if not graph.types[value].dtype.is_integer:
            return


def proof(graph: Graph) -> tuple[str, ...]:
    """``constant_channels`` as lines of text."""
    lines: list[str] = []
    for each in constant_channels(graph):
        lines.append(f"{each.layer}: {len(each.channels)} of {each.count} channels are constant")
        lines += [
            f"  channel {one.channel}: sums {one.low}..{one.high}, always {one.value}"
            for one in each.channels
        ]
    return tuple(lines)
