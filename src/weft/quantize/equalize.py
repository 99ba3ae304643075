"""Cross-layer equalization: ranges of weights moved from one layer to the next.

Nagel et al., *Data-free quantization through weight equalization and bias correction* (ICCV 2019).
A channel may be scaled by a positive number in one layer and by its inverse in the next, if what
lies between hands scales on, as ReLU and pools do. With ``sqrt(r1 / r2)`` both layers have
the same range in that channel, and one scale for a whole weight loses little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from weft.ir.edit import set_constants
from weft.ir.graph import Graph, Node
from weft.ops.quantizable import bias_of, is_homogeneous
from weft.quantize.sites import QuantizedLayer
from weft.records import dataclass

_ROUNDS, _SETTLED = 30, 1e-3


@dataclass(frozen=True)
class LayerPair:
    """Two layers, the second of which alone reads the first.

    Attributes:
        first: its outputs are scaled.
        second: its inputs are scaled back.
    """

    first: QuantizedLayer
    second: QuantizedLayer


@dataclass(frozen=True)
class Equalized:
    """What equalization did.

    Attributes:
        graph: with other weights; it computes the same.
        pairs: names of the nodes of each pair of layers.
        largest: the largest factor that a channel was scaled by, or one over it.
    """

    graph: Graph
    pairs: tuple[tuple[str, str], ...]
    largest: float


def equalized(graph: Graph, layers: tuple[QuantizedLayer, ...]) -> Equalized:
    """Equalizes the ranges of the channels between layers.

    Args:
        graph: prepared.
        layers: of it.
    """
    pairs = tuple(layer_pairs(graph, layers))
    arrays = {name: graph.constants[name].astype(np.float64) for name in _constants(graph, pairs)}
    factors: dict[str, np.ndarray] = {}
    for _ in range(_ROUNDS):
        moved = 0.0
        for pair in pairs:
            scale = _factors(pair, arrays)
            _apply(graph, pair, scale, arrays)
            name = pair.first.node.name
            factors[name] = factors.get(name, 1.0) * scale
            moved = max(moved, float(np.abs(np.log(scale)).max()))
        if moved < _SETTLED:
            break
    largest = max((float(np.exp(np.abs(np.log(f)).max())) for f in factors.values()), default=1.0)
    names = tuple((pair.first.node.name, pair.second.node.name) for pair in pairs)
    if not pairs:
        return Equalized(graph, names, largest)
    rounded = {name: array.astype(graph.constants[name].dtype) for name, array in arrays.items()}
    return Equalized(set_constants(graph, rounded), names, largest)


def layer_pairs(graph: Graph, layers: tuple[QuantizedLayer, ...]) -> Iterator[LayerPair]:
    """The pairs of layers whose channels can be scaled."""
    by_data = {
        layer.data: layer
        for layer in layers
        if len(graph.users[layer.data]) == 1 and layer.data not in graph.outputs
    }
    for first in layers:
        if first.axis is None or _is_shared(graph, first) or "Transpose" in first.node.op:
            continue
        second = by_data.get(_handed_on(graph, first))
        if second is None or _is_shared(graph, second) or "Transpose" in second.node.op:
            continue
        if len(graph.types[second.weight].shape) == 2 or second.node.op.startswith("Conv"):
            yield LayerPair(first, second)


def _is_shared(graph: Graph, layer: QuantizedLayer) -> bool:
    """Whether another node reads a layer's weight or bias."""
    read = filter(None, (layer.weight, layer.bias))
    return any(len(graph.users[value]) > 1 for value in read)


def _handed_on(graph: Graph, layer: QuantizedLayer) -> str:
    """The last value behind a layer, along nodes that hand scales of channels on."""
    bias = bias_of(graph, layer.node)
    value = bias.node.outputs[0] if bias else layer.node.outputs[0]
    channels = graph.types[layer.weight].dims[layer.axis or 0]
    while len(graph.users[value]) == 1 and value not in graph.outputs:
        (user,) = graph.users[value]
        if not _hands_on(graph, user, value, channels):
            break
        value = user.outputs[0]
    return value


def _hands_on(graph: Graph, node: Node, value: str, channels: int) -> bool:
    if is_homogeneous(node.op):
        return True
    # An image of one pixel keeps its channels in order, however it is shaped.
    moves = node.op in ("Reshape", "Flatten", "Transpose", "Squeeze")
    sizes = (dim for dim in graph.types[value].shape[1:] if isinstance(dim, int))
    return moves and prod(sizes) == channels


def _constants(graph: Graph, pairs: tuple[LayerPair, ...]) -> Iterator[str]:
    for pair in pairs:
        for layer in (pair.first, pair.second):
            yield from filter(None, (layer.weight, layer.bias))


def _factors(pair: LayerPair, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """For each channel, what the first layer is divided by."""
    first = _ranges(np.moveaxis(arrays[pair.first.weight], pair.first.axis or 0, 0))
    second = _ranges(_by_input(pair.second, arrays[pair.second.weight]))
    usable = (first > 0) & (second > 0)
    return np.sqrt(np.where(usable, first, 1) / np.where(usable, second, 1))


def _ranges(weight: np.ndarray) -> np.ndarray:
    return np.abs(weight).reshape(len(weight), -1).max(axis=1)


def _groups(layer: QuantizedLayer) -> int:
    return layer.node.attributes.groups if layer.node.op.startswith("Conv") else 1


def _by_input(layer: QuantizedLayer, weight: np.ndarray) -> np.ndarray:
    """A weight with its input channels, of all groups, along the first axis."""
    if not layer.node.op.startswith("Conv"):
        return np.moveaxis(weight, layer.summed, 0)
    grouped = weight.reshape(_groups(layer), -1, *weight.shape[1:])
    moved = np.moveaxis(grouped, 2, 1)
    return moved.reshape(-1, *moved.shape[2:])


def _apply(graph: Graph, pair: LayerPair, scale: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    first, second = pair.first, pair.second
    weight = arrays[first.weight]
    along = [1] * weight.ndim
    along[first.axis or 0] = -1
    arrays[first.weight] = weight / scale.reshape(along)
    if first.bias:
        bias = arrays[first.bias]
        arrays[first.bias] = (bias.reshape(-1) / scale).reshape(bias.shape)
    weight = arrays[second.weight]
    if second.node.op.startswith("Conv"):
        inputs = scale.reshape(_groups(second), 1, -1, *(1,) * (weight.ndim - 2))
        grouped = weight.reshape(_groups(second), -1, *weight.shape[1:])
        arrays[second.weight] = (grouped * inputs).reshape(weight.shape)
        return
    along = [1] * weight.ndim
    along[second.summed] = -1
    arrays[second.weight] = weight * scale.reshape(along)
