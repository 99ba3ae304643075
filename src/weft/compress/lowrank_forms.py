"""Layers as products of two matrices, and the two layers that such a product is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from weft.ir.graph import Graph, Node
from weft.ir.types import Dim
from weft.ops.build import GraphBuilder
from weft.ops.convolution import ConvAttributes
from weft.ops.linear import GemmAttributes
from weft.records import dataclass
from weft.rewrite.recipe import parameter


@dataclass(frozen=True)
class LowRankParameters:
    """Of ``low-rank``."""

    rank: int = parameter("of every layer", 0)
    energy: float = parameter("the share of the squared singular values that stays at least", 0.0)
    macs: float = parameter("the share of the MACs of every layer that stays at most", 0.0)
    convolution: Literal["channel", "spatial"] = parameter(
        "how convolutions are split: the window with few outputs and then 1x1, or a column and "
        "then a row",
        "channel",
    )
    always: bool = parameter("split where that takes no fewer MACs, too", False)
    layers: tuple[str, ...] = parameter("layers or weights; all if none are named", ())


@dataclass(frozen=True)
class LowRankForm:
    """A layer as a product of two matrices.

    Attributes:
        kind: how the weight is seen as a matrix; layers that share it and this share factors.
        matrix: of the weight: what comes first times what comes second; of groups, a stack.
        macs: of the layer, for one entry of the first axis; of recurrent layers, of what is split.
        macs_each: of its two parts, for each rank.
        build: adds the two nodes for two factors, given by name; the last makes the output.
        shapes: of the weights of the two, from the factors.
    """

    kind: str
    matrix: np.ndarray
    macs: int
    macs_each: int
    shapes: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    build: Callable[[GraphBuilder, str, str], None]


Former: TypeAlias = "Callable[[Graph, Node, LowRankParameters], LowRankForm | None]"
"""The layer as a product, if it is one by a constant."""


def _points(shape: Sequence[Dim]) -> int:
    """The number of positions of one sample."""
    return int(np.prod([dim for dim in shape[1:] if isinstance(dim, int)]))


# --- products of matrices -------------------------------------------------------------------


def _matmul(graph: Graph, node: Node, _: LowRankParameters) -> LowRankForm | None:
    x, w = node.inputs
    if w not in graph.constants or graph.constants[w].ndim != 2:
        return None
    matrix = graph.constants[w]
    inner, columns = matrix.shape
    rows = _points(graph.types[node.outputs[0]].shape) // columns or 1

    def build(builder: GraphBuilder, first: str, second: str) -> None:
        hidden = builder.op("MatMul", x, first, name=f"{node.name}_first")
        builder.nodes_of("MatMul", (hidden, second), outputs=node.outputs, name=node.name)

    macs, each = rows * inner * columns, rows * (inner + columns)
    return LowRankForm("matrix", matrix, macs, each, _as_they_are, build)


def _as_they_are(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return left, right


def _gemm(graph: Graph, node: Node, _: LowRankParameters) -> LowRankForm | None:
    a, w, *c = node.inputs
    if w not in graph.constants:
        return None
    flags = node.attributes
    matrix = graph.constants[w].T if flags.transB else graph.constants[w]
    inner, columns = matrix.shape

    def build(builder: GraphBuilder, first: str, second: str) -> None:
        hidden = builder.op(
            "Gemm",
            a,
            first,
            attributes=GemmAttributes(transA=flags.transA),
            name=f"{node.name}_first",
        )
        attributes = GemmAttributes(alpha=flags.alpha, beta=flags.beta)
        builder.nodes_of(
            "Gemm", (hidden, second, *c), attributes, outputs=node.outputs, name=node.name
        )

    kind = "transposed" if flags.transB else "matrix"
    return LowRankForm(kind, matrix, inner * columns, inner + columns, _as_they_are, build)


# --- convolutions -----------------------------------------------------------------------------


def _conv(graph: Graph, node: Node, parameters: LowRankParameters) -> LowRankForm | None:
    if node.inputs[1] not in graph.constants:
        return None
    if parameters.convolution == "channel":
        return _by_channels(graph, node)
    if graph.constants[node.inputs[1]].ndim != 4:
        return None
    return _by_window(graph, node)


def _by_channels(graph: Graph, node: Node) -> LowRankForm:
    x, w, *bias = node.inputs
    weight, groups = graph.constants[w], node.attributes.groups
    outputs, window = weight.shape[0], weight.shape[1:]
    spatial = len(window) - 1
    pixels = _points(graph.types[node.outputs[0]].shape) // outputs
    inner = int(np.prod(window))

    def shapes(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = left.swapaxes(1, 2).reshape(-1, *window)
        return first, right.swapaxes(1, 2).reshape(outputs, -1, *(1,) * spatial)

    def build(builder: GraphBuilder, first: str, second: str) -> None:
        hidden = builder.op("Conv", x, first, attributes=node.attributes, name=f"{node.name}_first")
        attributes = ConvAttributes(kernel=(1,) * spatial, groups=groups)
        given = (hidden, second, *bias)
        builder.nodes_of("Conv", given, attributes, outputs=node.outputs, name=node.name)

    matrix = weight.reshape(groups, outputs // groups, -1).swapaxes(1, 2)
    macs, each = pixels * inner * outputs, pixels * (groups * inner + outputs)
    return LowRankForm(f"channel {groups}", matrix, macs, each, shapes, build)


def _by_window(graph: Graph, node: Node) -> LowRankForm:
    x, w, *bias = node.inputs
    weight, a, groups = graph.constants[w], node.attributes, node.attributes.groups
    outputs, inputs, height, width = weight.shape
    strides, dilations = a.strides or (1, 1), a.dilations or (1, 1)
    pads = a.pads or (0, 0, 0, 0)
    rows, columns = _image(graph, node.outputs[0])
    before = _image(graph, x)[1]
    column = ConvAttributes(
        (height, 1), (strides[0], 1), (dilations[0], 1), (pads[0], 0, pads[2], 0), groups
    )
    row = ConvAttributes(
        (1, width), (1, strides[1]), (1, dilations[1]), (0, pads[1], 0, pads[3]), groups
    )

    def shapes(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = left.swapaxes(1, 2).reshape(-1, inputs, height, 1)
        second = right.reshape(groups, -1, outputs // groups, width).swapaxes(1, 2)
        return first, second.reshape(outputs, -1, 1, width)

    def build(builder: GraphBuilder, first: str, second: str) -> None:
        hidden = builder.op("Conv", x, first, attributes=column, name=f"{node.name}_first")
        given = (hidden, second, *bias)
        builder.nodes_of("Conv", given, row, outputs=node.outputs, name=node.name)

    parted = weight.reshape(groups, outputs // groups, inputs, height, width)
    matrix = parted.transpose(0, 2, 3, 1, 4).reshape(groups, inputs * height, -1)
    macs = rows * columns * weight.size
    each = rows * before * groups * inputs * height + rows * columns * outputs * width
    return LowRankForm(f"spatial {groups}", matrix, macs, each, shapes, build)


def _image(graph: Graph, value: str) -> tuple[int, int]:
    height, width = graph.types[value].shape[2:]
    assert isinstance(height, int)
    assert isinstance(width, int)
    return height, width


# --- recurrent layers -------------------------------------------------------------------------


def _recurrent(graph: Graph, node: Node, _: LowRankParameters) -> LowRankForm | None:
    """What is read at each step is multiplied before the layer; the state's weight stays."""
    x, w, *rest = node.inputs
    if w not in graph.constants:
        return None
    directions, gates, inputs = graph.constants[w].shape
    steps = _points(graph.types[x].shape) // inputs

    def shapes(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return left, right.T.reshape(directions, gates, -1)

    def build(builder: GraphBuilder, first: str, second: str) -> None:
        hidden = builder.op("MatMul", x, first, name=f"{node.name}_first")
        given = (hidden, second, *rest)
        builder.nodes_of(node.op, given, node.attributes, outputs=node.outputs, name=node.name)

    matrix = graph.constants[w].reshape(-1, inputs).T
    macs, each = steps * matrix.size, steps * sum(matrix.shape)
    return LowRankForm("recurrent", matrix, macs, each, shapes, build)


FORMERS: Mapping[str, Former] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
}
"""The ops that are split."""
