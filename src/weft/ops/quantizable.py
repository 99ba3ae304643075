"""How ops take part in quantized graphs: what has weights, and whose scales are tied."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from weft.ir.graph import Graph, Node
from weft.records import dataclass

Scales: TypeAlias = Literal["weights", "own", "shared", "function"]
"""How the scale of an op's output relates to that of its inputs.

``weights``: a layer that multiplies by a constant, its output has a scale of its own;
``own``: arithmetic of quantized values, likewise; ``shared``: elements are moved, compared or
averaged, the scale stays; ``function``: each integer becomes another one, as in a table.
"""

_KINDS: Mapping[str, Scales] = MappingProxyType(
    {
        **dict.fromkeys(("Conv", "ConvChannelsLast", "ConvTranspose"), "weights"),
        **dict.fromkeys(("ConvTransposeChannelsLast", "Gemm", "MatMul"), "weights"),
        **dict.fromkeys(("Add", "Sub", "Mul"), "own"),
        **dict.fromkeys(("GlobalAveragePool", "GlobalAveragePoolChannelsLast"), "own"),
        "ReduceMean": "own",
        **dict.fromkeys(("AveragePool", "AveragePoolChannelsLast"), "shared"),
        **dict.fromkeys(("MaxPool", "MaxPoolChannelsLast", "GlobalMaxPool"), "shared"),
        **dict.fromkeys(("Concat", "Reshape", "Flatten", "Transpose", "Squeeze"), "shared"),
        **dict.fromkeys(("Unsqueeze", "Slice", "Split", "Gather", "Expand"), "shared"),
        **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), "shared"),
        **dict.fromkeys(("Softmax", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish"), "function"),
        **dict.fromkeys(("Swish", "Gelu", "Mish", "Elu", "Selu", "Celu", "LeakyRelu"), "function"),
        **dict.fromkeys(("Softplus", "Softsign", "ThresholdedRelu", "Erf"), "function"),
    }
)
SATURATIONS = ("Relu", "Clip")
"""Ops that are the saturation of the layer before them."""
_HOMOGENEOUS = frozenset(
    {
        *("Relu", "LeakyRelu"),
        *("MaxPool", "MaxPoolChannelsLast", "AveragePool", "AveragePoolChannelsLast"),
        *("GlobalMaxPool", "GlobalMaxPoolChannelsLast"),
        *("GlobalAveragePool", "GlobalAveragePoolChannelsLast"),
    }
)


def is_homogeneous(op: str) -> bool:
    """Whether an op hands a positive factor of a channel on to that channel."""
    return op in _HOMOGENEOUS


_FUNCTION_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"Softmax": (0.0, 1.0), "Sigmoid": (0.0, 1.0), "Tanh": (-1.0, 1.0)}
)


def function_range(op: str, bits: int) -> tuple[float, float] | None:
    """What a function gives at the least and at the most, in steps of a power of two, if known.

    The highest number is one step lower, so that 8 bits give LiteRT's scales: 1/256 for Softmax and
    Sigmoid, 1/128 for Tanh.
    """
    if op not in _FUNCTION_RANGES:
        return None
    low, high = _FUNCTION_RANGES[op]
    return low, high - (high - low) / (1 << bits)


def scales_of(graph: Graph, node: Node) -> Scales | None:
    """How an op's scales relate; nothing if it computes in floating point."""
    kind = _KINDS.get(node.op)
    if kind == "weights" and weight_of(graph, node) is None:
        return "own" if node.op == "MatMul" else None
    return kind


def takes_weight(op: str) -> bool:
    """Whether an op multiplies by a weight, its second input."""
    return _KINDS.get(op) == "weights"


def weight_of(graph: Graph, node: Node) -> str | None:
    """The constant that a layer multiplies by, if it does and it is of floating-point numbers."""
    if not takes_weight(node.op) or len(node.inputs) < 2:
        return None
    value = node.inputs[1]
    known = value in graph.constants and graph.types[value].dtype.is_float
    return value if known else None


@dataclass(frozen=True, slots=True)
class LayerBias:
    """What a layer adds to its products.

    Attributes:
        value: a constant with one number for each output.
        node: that reads it: the layer, or the Add behind it.
    """

    value: str
    node: Node


def bias_of(graph: Graph, node: Node) -> LayerBias | None:
    """The constant that is added for each output of a layer, if there is one."""
    if node.op == "MatMul":
        return _added(graph, node)
    value = node.inputs[2] if len(node.inputs) > 2 else ""
    return LayerBias(value, node) if _is_row(graph, value) else None


def _added(graph: Graph, node: Node) -> LayerBias | None:
    """The constant of an Add behind a product of matrices."""
    users = graph.users[node.outputs[0]]
    if len(users) != 1 or users[0].op != "Add" or node.outputs[0] in graph.outputs:
        return None
    other = next((value for value in users[0].inputs if value != node.outputs[0]), "")
    columns = graph.types[node.outputs[0]].shape[-1]
    fits = _is_row(graph, other) and graph.types[other].size == columns
    return LayerBias(other, users[0]) if fits else None


def _is_row(graph: Graph, value: str) -> bool:
    if value not in graph.constants or not graph.types[value].dtype.is_float:
        return False
    dims = graph.types[value].dims
    return len(dims) > 0 and dims[-1] == graph.types[value].size


def output_axis(node: Node, rank: int) -> int | None:
    """The axis of a layer's weight along which its outputs lie; nothing where there is none."""
    if node.op.startswith("ConvTranspose"):
        return 1 if node.attributes.groups == 1 else None
    if node.op.startswith("Conv"):
        return 0
    if node.op == "Gemm":
        return 0 if node.attributes.transB else 1
    return rank - 1 if rank == 2 else None


def input_axis(node: Node, rank: int) -> int:
    """The axis of a layer's weight that it sums over; of a convolution within a group."""
    if node.op.startswith("ConvTranspose"):
        return 0
    if node.op.startswith("Conv"):
        return 1
    if node.op == "Gemm":
        return 1 if node.attributes.transB else 0
    return max(0, rank - 2)
