"""What layers multiply their weights by: mean and products of the columns, over all samples.

A layer with a constant weight is a product of matrices ``[outputs, depth] @ [depth, columns]``
in each of its groups; a convolution's columns are the windows of its input. Errors of rounded
weights follow from the mean column and from the products of columns with each other, which take the
same memory for any number of samples.
"""

from __future__ import annotations

import numpy as np

from weft.ir.graph import Graph, Node
from weft.ops.quantizable import weight_of
from weft.quantize.sites import QuantizedLayer
from weft.records import dataclass


def as_rows(layer: QuantizedLayer, weight: np.ndarray) -> np.ndarray:
    """A weight as [groups, outputs, depth].

    Args:
        layer: that has it; no transposed convolution.
        weight: of the layer's shape.
    """
    if layer.node.op.startswith("Conv"):
        groups = layer.node.attributes.groups
        return weight.reshape(groups, weight.shape[0] // groups, -1)
    rows = np.moveaxis(weight, layer.summed, -1)
    return rows.reshape(1, -1, weight.shape[layer.summed])


def from_rows(layer: QuantizedLayer, rows: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The inverse of ``as_rows``: an array of another one's shape."""
    if layer.node.op.startswith("Conv"):
        return rows.reshape(like.shape)
    moved = np.moveaxis(like, layer.summed, -1).shape
    return np.ascontiguousarray(np.moveaxis(rows.reshape(moved), -1, layer.summed))


def has_columns(layer: QuantizedLayer, graph: Graph) -> bool:
    """Whether a layer is a product with columns of its input."""
    rank = len(graph.types[layer.weight].shape)
    return not layer.node.op.startswith("ConvTranspose") and (
        layer.node.op.startswith("Conv") or rank == 2
    )


def columns(graph: Graph, layer: QuantizedLayer, x: np.ndarray) -> np.ndarray:
    """What a layer multiplies by, as [groups, depth, columns].

    Args:
        graph: of the layer, all sizes known.
        layer: with a constant weight; no transposed convolution.
        x: its input.
    """
    node = layer.node
    if not node.op.startswith("Conv"):
        return x.reshape(1, -1, x.shape[-1]).transpose(0, 2, 1)
    if node.op.endswith("ChannelsLast"):
        x = np.moveaxis(x, -1, 1)
    return _windows(graph, node, x)


def _windows(graph: Graph, node: Node, x: np.ndarray) -> np.ndarray:
    given, weight = node.attributes, weight_of(graph, node)
    assert weight is not None
    kernel = graph.types[weight].dims[2:]
    rank = len(kernel)
    strides, dilations = given.strides or (1,) * rank, given.dilations or (1,) * rank
    pads = given.pads or (0,) * (2 * rank)
    padded = np.pad(x, ((0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)))
    reach = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    axes = tuple(range(2, 2 + rank))
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axes)
    places = tuple(slice(None, None, step) for step in strides)
    within = tuple(slice(None, None, step) for step in dilations)
    seen = seen[(slice(None), slice(None), *places, *within)]
    # [batch, channels, places..., window...] to [groups, depth, columns]
    order = (1, *range(2 + rank, 2 + 2 * rank), 0, *axes)
    depth = x.shape[1] // given.groups * int(np.prod(kernel))
    return seen.transpose(order).reshape(given.groups, depth, -1)


@dataclass
class ColumnMoments:
    """Moments of the columns of one layer.

    Attributes:
        count: of the columns.
        sums: [groups, depth].
        products: of columns with each other, summed, [groups, depth, depth]; or nothing.
    """

    count: int
    sums: np.ndarray
    products: np.ndarray | None

    @staticmethod
    def empty(layer: QuantizedLayer, weight: np.ndarray, *, products: bool) -> ColumnMoments:
        """Of no columns."""
        groups, _, depth = as_rows(layer, weight).shape
        square = np.zeros((groups, depth, depth)) if products else None
        return ColumnMoments(0, np.zeros((groups, depth)), square)

    def add(self, found: np.ndarray) -> None:
        """Adds columns [groups, depth, columns]."""
        self.count += found.shape[-1]
        self.sums += found.sum(axis=-1, dtype=np.float64)
        if self.products is not None:
            self.products += found @ found.transpose(0, 2, 1)

    @property
    def mean(self) -> np.ndarray:
        """The mean column of each group, [groups, depth]."""
        return self.sums / max(self.count, 1)

    @property
    def second(self) -> np.ndarray:
        """The mean product of columns, [groups, depth, depth]."""
        assert self.products is not None
        return self.products / max(self.count, 1)
