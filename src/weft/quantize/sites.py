"""Which values of a graph are quantized, which share a scale, and what stays in floating point."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field

from weft.cached import cached_property
from weft.dtypes import DType
from weft.ir.graph import Graph, Node
from weft.ops.quantizable import (
    SATURATIONS,
    bias_of,
    function_range,
    input_axis,
    output_axis,
    scales_of,
    takes_weight,
    weight_of,
)
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class QuantizedLayer:
    """A layer with a constant weight.

    Attributes:
        node: that multiplies by it.
        weight: the constant.
        axis: of the weight along which its outputs lie; nothing where they share one scale.
        summed: the axis of the weight that is summed over.
        bias: the constant that is added, if there is one.
        data: the value that it reads.
        end: the value that is quantized: behind the bias and the activation.
    """

    node: Node
    weight: str
    axis: int | None
    summed: int
    bias: str | None
    data: str
    end: str


@dataclass(frozen=True)
class QuantizationSites:
    """What is quantized in a graph.

    Attributes:
        layers: with weights, in graph order.
        values: to quantize, in graph order: inputs, computed values and constants.
        groups: for each of them the one that stands for all those with its scale.
        fixed: the ranges that are known without data, at 8 bits.
        integer: names of the nodes between quantized values.
        ends: for each of them but those that are part of another, the value that is quantized.
        floats: by name of the other nodes, why they compute in floating point.
    """

    layers: tuple[QuantizedLayer, ...]
    values: tuple[str, ...]
    groups: Mapping[str, str]
    fixed: Mapping[str, tuple[float, float]]
    integer: frozenset[str]
    ends: Mapping[str, str]
    floats: Mapping[str, str]

    @cached_property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """The values with one scale, by the one that stands for them."""
        found: dict[str, list[str]] = {}
        for value in self.values:
            found.setdefault(self.groups[value], []).append(value)
        return {name: tuple(values) for name, values in found.items()}


def find_sites(
    graph: Graph, keep_float: Collection[str] = (), *, bits: int = 8, integer_io: bool = False
) -> QuantizationSites:
    """Where a graph is quantized.

    Layers with weights are, and arithmetic, pools and what moves elements between them; an
    activation is part of what it follows. Functions such as Softmax are where their output is
    read by quantized nodes.

    Args:
        graph: simplified.
        keep_float: names of nodes that stay in floating point.
        bits: of activations, for the ranges of functions.
        integer_io: whether functions that compute outputs of the network are quantized, too.
    """
    return _Search(graph, frozenset(keep_float), bits, integer_io).sites()


@dataclass
class _Search:
    graph: Graph
    keep_float: frozenset[str]
    bits: int
    integer_io: bool
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    chosen: dict[str, Node] = field(default_factory=dict[str, Node])
    ends: dict[str, str] = field(default_factory=dict[str, str])
    fused: dict[str, str] = field(default_factory=dict[str, str])
    parents: dict[str, str] = field(default_factory=dict[str, str])

    def sites(self) -> QuantizationSites:
        integers = self._forward()
        self._backward(integers)
        layers = tuple(self._layers())
        fixed = {
            self.ends[name]: found
            for name, node in self.chosen.items()
            if (found := function_range(node.op, self.bits)) is not None
        }
        wanted = dict.fromkeys(
            value for node in self.chosen.values() for value in self._touched(node)
        )
        for node in self.chosen.values():
            if self._kind(node) == "shared":
                first, *rest = self._touched(node)
                for value in rest:
                    self._tie(first, value)
        values = tuple(value for value in self.graph.types if value in wanted)
        return QuantizationSites(
            layers,
            values,
            {value: self._root(value) for value in values},
            fixed,
            frozenset((*self.chosen, *self.fused)),
            self.ends,
            {name: why for name, why in self.reasons.items() if name not in self.fused},
        )

    # --- which nodes ------------------------------------------------------------------------

    def _kind(self, node: Node) -> str | None:
        if node.op in SATURATIONS:
            return "shared"
        return scales_of(self.graph, node)

    def _forward(self) -> set[str]:
        """Chooses nodes from the inputs on; the values that integers stand for."""
        found: set[str] = set()
        for node in self.graph.nodes:
            if node.name in self.fused:
                continue
            why = self._problem(node, found)
            if why is None:
                self._choose(node)
                found.update(self._made(node))
            else:
                self.reasons[node.name] = why
        return found

    def _problem(self, node: Node, integers: Collection[str]) -> str | None:
        """Why a node computes in floating point."""
        kind = self._kind(node)
        if node.name in self.keep_float:
            return "kept in floating point on request"
        if kind is None:
            return _no_form(node)
        if any(self.graph.types[value].dtype is not DType.F32 for value in self._touches(node)):
            return "its values are not f32"
        if kind == "weights":
            return _layer_problem(self.graph, node)
        if not any(value in integers for value in self._data(node)):
            return "what it reads is not quantized"
        outputs = not self.integer_io and any(v in self.graph.outputs for v in node.outputs)
        if kind == "function" and outputs:
            return "it computes an output of the network"
        return None

    def _backward(self, integers: set[str]) -> None:
        """Chooses what only moves elements for nodes that were chosen."""
        needed = {value for node in self.chosen.values() for value in self._data(node)}
        for node in reversed(self.graph.nodes):
            # An activation of floats bounds them before they are quantized.
            moves = self._kind(node) == "shared" and node.op not in SATURATIONS
            moves = moves and node.name not in self.keep_float
            if node.name in self.chosen or node.name in self.fused or not moves:
                continue
            types = (self.graph.types[value].dtype for value in self._touches(node))
            if needed.issuperset(self._outputs(node)) and all(t is DType.F32 for t in types):
                self._choose(node)
                del self.reasons[node.name]
                needed.update(self._data(node))

    def _choose(self, node: Node) -> None:
        self.chosen[node.name] = node
        end = node.outputs[0]
        if self._kind(node) == "weights":
            bias = bias_of(self.graph, node)
            if bias is not None and bias.node is not node:
                self.fused[bias.node.name] = node.name
                end = bias.node.outputs[0]
        if self._kind(node) in ("weights", "own"):
            end = self._saturated(node, end)
        self.ends[node.name] = end

    def _saturated(self, node: Node, end: str) -> str:
        users = self.graph.users[end]
        alone = len(users) == 1 and end not in self.graph.outputs
        if not alone or users[0].op not in SATURATIONS or users[0].name in self.keep_float:
            return end
        self.fused[users[0].name] = node.name
        return users[0].outputs[0]

    # --- which values -----------------------------------------------------------------------

    def _data(self, node: Node) -> tuple[str, ...]:
        """What a node reads that is quantized."""
        several = self._kind(node) == "own" or node.op == "Concat"
        return node.reads if several else node.inputs[:1]

    def _outputs(self, node: Node) -> tuple[str, ...]:
        return tuple(filter(None, node.outputs))

    def _touches(self, node: Node) -> tuple[str, ...]:
        return (*self._data(node), *self._outputs(node))

    def _made(self, node: Node) -> tuple[str, ...]:
        """The values of a chosen node that integers stand for."""
        return (self.ends[node.name], *self._outputs(node)[1:])

    def _touched(self, node: Node) -> tuple[str, ...]:
        return (*self._data(node), *self._made(node))

    def _layers(self) -> Iterator[QuantizedLayer]:
        for node in self.chosen.values():
            weight = weight_of(self.graph, node)
            if weight is None or self._kind(node) != "weights":
                continue
            rank = len(self.graph.types[weight].shape)
            bias = bias_of(self.graph, node)
            yield QuantizedLayer(
                node,
                weight,
                output_axis(node, rank),
                input_axis(node, rank),
                bias.value if bias else None,
                node.inputs[0],
                self.ends[node.name],
            )

    # --- which share a scale ----------------------------------------------------------------

    def _root(self, value: str) -> str:
        while (above := self.parents.get(value, value)) != value:
            value = above
        return value

    def _tie(self, one: str, other: str) -> None:
        first, second = self._root(one), self._root(other)
        if first != second:
            self.parents[second] = first


def _no_form(node: Node) -> str:
    if takes_weight(node.op):
        return "its weight is no constant in floating point"
    return f"{node.op} has no form of integers"


def _layer_problem(graph: Graph, node: Node) -> str | None:
    """Why a layer with a constant weight is not one of integers."""
    if node.op != "Gemm":
        return None
    given = node.attributes
    if given.transA or given.alpha != 1:
        return "the product is scaled or transposed"
    third = node.inputs[2] if len(node.inputs) > 2 else ""
    if third and (given.beta != 1 or bias_of(graph, node) is None):
        return "what is added is not one constant for each output"
    return None
