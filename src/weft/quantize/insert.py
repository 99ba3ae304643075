"""Put QuantizeLinear and DequantizeLinear into a graph, where scales are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from dataclasses import replace as changed

import numpy as np

from weft.errors import UserError, nearest
from weft.ir.edit import prune
from weft.ir.graph import Graph, Node, Origin, noted
from weft.ir.naming import making, reading
from weft.ir.order import topological
from weft.ops.build import GraphBuilder
from weft.ops.quantizable import bias_of, weight_of
from weft.ops.quantization import DequantizeAttributes, QuantizeAttributes
from weft.ops.table import OPS
from weft.quantize.scheme import QuantizationParameters
from weft.records import dataclass

RULE = "quantize"
BIAS_LIMIT = (1 << 30) - 1
"""The largest integer of a bias: sums of products are added to it in 32 bits."""


def insert_qdq(
    graph: Graph,
    activations: Mapping[str, QuantizationParameters],
    weights: Mapping[str, QuantizationParameters],
    integers: Mapping[str, np.ndarray] | None = None,
) -> Graph:
    """The graph with quantized values, weights and biases, as standard ONNX writes them.

    A value is followed by QuantizeLinear and DequantizeLinear, and keeps its name behind them if
    a node computes it. Weights and biases become constants of integers before DequantizeLinear.
    A bias has 32 bits, the product of the scales of its layer's input and weight, and no zero
    point; scales of weights are made larger where it would not fit otherwise.

    Args:
        graph: in floating point.
        activations: for the values to quantize, inputs and constants included.
        weights: for the layers whose weight is quantized, by the name of the node.
        integers: for such layers, the weights as integers, where they are not simply rounded.

    Raises:
        UserError: there is no such value or layer.
    """
    _check(graph, activations, weights)
    work = _Insertion(graph, activations, GraphBuilder(OPS, taken=[*graph.types, *graph.by_name]))
    for value in activations:
        work.quantize(value)
    changes = {
        name: work.layer(graph.by_name[name], given, (integers or {}).get(name))
        for name, given in weights.items()
    }
    return noted(work.done(changes), RULE, f"{len(activations)} values, {len(weights)} layers")


def _check(
    graph: Graph,
    activations: Mapping[str, QuantizationParameters],
    weights: Mapping[str, QuantizationParameters],
) -> None:
    for value in activations:
        if value not in graph.types:
            raise UserError(
                f"quantize: there is no value {value}", fix=nearest(value, list(graph.types))
            )
    for name in weights:
        if name not in graph.by_name or weight_of(graph, graph.by_name[name]) is None:
            layers = [node.name for node in graph.nodes if weight_of(graph, node) is not None]
            raise UserError(
                f"quantize: there is no layer {name} with a constant weight",
                fix=nearest(name, layers),
            )


@dataclass
class _Insertion:
    """Nodes that are collected for one graph."""

    graph: Graph
    activations: Mapping[str, QuantizationParameters]
    builder: GraphBuilder
    before: dict[str, str] = field(default_factory=dict[str, str])
    after: dict[str, str] = field(default_factory=dict[str, str])
    behind: list[Node] = field(default_factory=list[Node])
    stored: dict[tuple[str, int, int], str] = field(default_factory=dict[tuple[str, int, int], str])

    def quantize(self, value: str) -> None:
        """Puts a pair of nodes behind a value; a constant becomes integers."""
        builder, graph, given = self.builder, self.graph, self.activations[value]
        maker = graph.producers.get(value)
        builder.origin = Origin(_sources(maker), (RULE,))
        if value in graph.constants:
            array = graph.constants[value]
            whole = builder.constant(given.quantize(array), f"{value}_quantized")
            self.after[value] = self._dequantize(whole, given, value)
            return
        exact = value if maker is None else builder.fresh(f"{value}_float")
        builder.declare(exact, graph.types[value])
        scale = builder.constant(given.scale, f"{value}_scale")
        zero = builder.constant(given.zero_point, f"{value}_zero_point")
        axis = 1 if given.scheme.axis is None else given.scheme.axis
        quantized = builder.op(
            *("QuantizeLinear", exact, scale, zero),
            attributes=QuantizeAttributes(axis),
            output=f"{value}_quantized",
        )
        made = builder.op(
            *("DequantizeLinear", quantized, scale, zero),
            attributes=DequantizeAttributes(axis),
            output=f"{value}_dequantized",
        )
        if maker is None:
            self.after[value] = made
        else:
            self.before[value] = exact
            builder.nodes[-1] = making(builder.nodes[-1], {made: value})

    def layer(
        self, node: Node, given: QuantizationParameters, whole: np.ndarray | None
    ) -> dict[str, dict[str, str]]:
        """The constants that nodes of a layer read now, by node."""
        graph, weight = self.graph, weight_of(self.graph, node)
        assert weight is not None
        self.builder.origin = Origin(_sources(node), (RULE,))
        bias = bias_of(graph, node)
        data = self.activations.get(node.inputs[0])
        if bias is not None and data is not None and whole is None:
            given = with_room(given, graph.constants[bias.value], data)
        found = {node.name: {weight: self._stored(weight, given, whole)}}
        if bias is not None and data is not None:
            made = self._bias(bias.value, graph.constants[bias.value], given, data)
            found.setdefault(bias.node.name, {})[bias.value] = made
        return found

    def _stored(self, name: str, given: QuantizationParameters, whole: np.ndarray | None) -> str:
        key = (name, id(given), id(whole))
        if key not in self.stored:
            array = given.quantize(self.graph.constants[name]) if whole is None else whole
            constant = self.builder.constant(
                array.astype(given.scheme.dtype.numpy), f"{name}_quantized"
            )
            self.stored[key] = self._dequantize(constant, given, name)
        return self.stored[key]

    def _bias(
        self,
        name: str,
        array: np.ndarray,
        given: QuantizationParameters,
        data: QuantizationParameters,
    ) -> str:
        scale = bias_scale(given, data)
        builder = self.builder
        constant = builder.constant(quantized_bias(array, scale), f"{name}_quantized")
        return builder.op(
            *("DequantizeLinear", constant, builder.constant(scale, f"{name}_scale")),
            attributes=DequantizeAttributes(axis=0),
            output=f"{name}_dequantized",
        )

    def _dequantize(self, whole: str, given: QuantizationParameters, name: str) -> str:
        builder, axis = self.builder, given.scheme.axis
        inputs = [whole, builder.constant(given.scale, f"{name}_scale")]
        if given.zero_point.any():
            inputs.append(builder.constant(given.zero_point, f"{name}_zero_point"))
        attributes = DequantizeAttributes(1 if axis is None else axis)
        return builder.op(
            "DequantizeLinear", *inputs, attributes=attributes, output=f"{name}_dequantized"
        )

    def done(self, layers: Mapping[str, Mapping[str, Mapping[str, str]]]) -> Graph:
        """The graph with all of it."""
        graph, builder = self.graph, self.builder
        constants: dict[str, dict[str, str]] = {}
        for layer in layers.values():
            for name, names in layer.items():
                constants.setdefault(name, {}).update(names)
        nodes = [
            making(reading(reading(node, constants.get(node.name, {})), self.after), self.before)
            for node in graph.nodes
        ]
        edited = changed(
            graph,
            nodes=topological([*nodes, *builder.nodes]),
            types={
                **graph.types,
                **{name: type for name, type in builder.types.items() if name not in graph.types},
            },
            constants={**graph.constants, **builder.constants},
        )
        made = {value for node in edited.nodes for value in node.outputs}
        alive = {*edited.inputs, *edited.constants, *made}
        types = {name: type for name, type in edited.types.items() if name in alive}
        return changed(prune(changed(edited, types=types)), history=graph.history)


def _sources(node: Node | None) -> tuple[str, ...]:
    return () if node is None else node.origin.sources or (node.name,)


def bias_scale(weight: QuantizationParameters, data: QuantizationParameters) -> np.ndarray:
    """The scale of a layer's bias: the product of those of its weight and its input, f32."""
    return np.asarray(weight.scale * data.scale.reshape(()), np.float32)


def quantized_bias(bias: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A layer's bias as integers, i32[outputs].

    Args:
        bias: one number for each output.
        scale: of the integers, one or as many.
    """
    whole = np.rint(bias.reshape(-1).astype(np.float64) / scale)
    return np.clip(whole, -BIAS_LIMIT, BIAS_LIMIT).astype(np.int32)


def with_room(
    weight: QuantizationParameters, bias: np.ndarray, data: QuantizationParameters
) -> QuantizationParameters:
    """The parameters of a weight with scales at which the bias fits its integers.

    Args:
        weight: of a layer.
        bias: of the layer, one number for each output.
        data: the parameters of its input.
    """
    flat = np.abs(bias.reshape(-1).astype(np.float64))
    need = flat / BIAS_LIMIT / float(data.scale.reshape(()))
    if weight.scale.ndim == 0:
        need = np.asarray(need.max(initial=0.0))
    # One step up, so that rounding to f32 never takes it below.
    need = np.nextafter(need.astype(np.float32), np.float32(np.inf))
    if (need <= weight.scale).all():
        return weight
    return changed(weight, scale=np.maximum(weight.scale, need))


def integer_interface(graph: Graph) -> Graph:
    """The graph that takes and gives integers where it begins and ends with their conversion.

    An input that is only quantized is an integer input of the same name; so is an output that is
    only dequantized. Scales and zero points are those of the conversions that are left out.
    """
    types = dict(graph.types)
    renamed: dict[str, str] = {}
    dropped: set[str] = set()
    for value in graph.inputs:
        users = graph.users[value]
        if len(users) == 1 and users[0].op == "QuantizeLinear" and value not in graph.outputs:
            made = users[0].outputs[0]
            renamed[made] = value
            types[value] = types[made]
            dropped.add(users[0].name)
    outputs: dict[str, str] = {}
    for value in graph.outputs:
        maker = graph.producers.get(value)
        if maker is None or maker.op != "DequantizeLinear" or graph.users[value]:
            continue
        if maker.inputs[0] in graph.producers:
            outputs[maker.inputs[0]] = value
            types[value] = types[maker.inputs[0]]
            dropped.add(maker.name)
    names = {**renamed, **outputs}
    nodes = [node for node in graph.nodes if node.name not in dropped]
    edited = changed(
        graph,
        nodes=tuple(making(reading(node, names), outputs) for node in nodes),
        types={name: type for name, type in types.items() if name not in names},
    )
    whole = changed(prune(edited), history=graph.history)
    return noted(whole, RULE, f"{len(names)} inputs and outputs in integers") if names else graph
