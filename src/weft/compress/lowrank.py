"""Split layers into two of lower rank, by the singular values of their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from typing import Literal, TypeAlias

import numpy as np

from weft.compress.sparsity import share_of
from weft.compress.weights import weights_of
from weft.errors import UserError
from weft.ir.edit import prune
from weft.ir.graph import Graph, Node
from weft.ir.history import noted
from weft.ir.naming import listed
from weft.ir.types import Dim
from weft.ops.build import GraphBuilder
from weft.ops.convolution import ConvAttributes
from weft.ops.linear import GemmAttributes
from weft.ops.table import OPS
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.rule import Exactness

_RECIPE = "low-rank"


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
class Split:
    """What becomes of a layer.

    Attributes:
        layer: its name.
        rank: of the two layers that it becomes; 0 if it stays.
        full: the largest rank there is.
        macs: before, for one entry of the first axis (one sample, as a rule).
        macs_after: of the two layers.
        reason: why it stays.
    """

    layer: str
    rank: int
    full: int
    macs: int
    macs_after: int
    reason: str = ""


@dataclass(frozen=True)
class Form:
    """A layer as a product of two matrices.

    Attributes:
        kind: how the weight is seen as a matrix; layers that share it and this share factors.
        matrix: of the weight: what comes first times what comes second.
        macs: of the layer, for one entry of the first axis.
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


Former: TypeAlias = "Callable[[Graph, Node, LowRankParameters], Form | str]"
"""The layer as a product, or why it has none."""


def _points(shape: Sequence[Dim]) -> int:
    """The number of positions of one sample."""
    return int(np.prod([dim for dim in shape[1:] if isinstance(dim, int)]))


# --- products of matrices -------------------------------------------------------------------


def _matmul(graph: Graph, node: Node, _: LowRankParameters) -> Form | str:
    x, w = node.inputs
    if w not in graph.constants or graph.constants[w].ndim != 2:
        return "only a constant matrix as its second factor can be split"
    matrix = graph.constants[w]
    inner, columns = matrix.shape
    rows = _points(graph.types[node.outputs[0]].shape) // columns or 1

    def build(builder: GraphBuilder, first: str, second: str) -> None:
        hidden = builder.op("MatMul", x, first, name=f"{node.name}_first")
        builder.nodes_of("MatMul", (hidden, second), outputs=node.outputs, name=node.name)

    macs, each = rows * inner * columns, rows * (inner + columns)
    return Form("matrix", matrix, macs, each, _as_they_are, build)


def _as_they_are(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return left, right


def _gemm(graph: Graph, node: Node, _: LowRankParameters) -> Form | str:
    a, w, *c = node.inputs
    if w not in graph.constants:
        return "only a constant matrix as its second factor can be split"
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
    return Form(kind, matrix, inner * columns, inner + columns, _as_they_are, build)


# --- convolutions -----------------------------------------------------------------------------


def _conv(graph: Graph, node: Node, parameters: LowRankParameters) -> Form | str:
    if node.inputs[1] not in graph.constants:
        return "its weight is computed"
    if node.attributes.groups != 1:
        return "it has groups"
    if parameters.convolution == "channel":
        return _by_channels(graph, node)
    if graph.constants[node.inputs[1]].ndim != 4:
        return "only windows of two axes can be split into a column and a row"
    return _by_window(graph, node)


def _by_channels(graph: Graph, node: Node) -> Form:
    x, w, *bias = node.inputs
    weight = graph.constants[w]
    outputs, window = weight.shape[0], weight.shape[1:]
    spatial = len(window) - 1
    pixels = _points(graph.types[node.outputs[0]].shape) // outputs
    inner = int(np.prod(window))

    def shapes(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return left.T.reshape(-1, *window), right.T.reshape(outputs, -1, *(1,) * spatial)

    def build(builder: GraphBuilder, first: str, second: str) -> None:
        hidden = builder.op("Conv", x, first, attributes=node.attributes, name=f"{node.name}_first")
        attributes = ConvAttributes(kernel=(1,) * spatial)
        given = (hidden, second, *bias)
        builder.nodes_of("Conv", given, attributes, outputs=node.outputs, name=node.name)

    matrix = weight.reshape(outputs, -1).T
    macs, each = pixels * inner * outputs, pixels * (inner + outputs)
    return Form("channel", matrix, macs, each, shapes, build)


def _by_window(graph: Graph, node: Node) -> Form:
    x, w, *bias = node.inputs
    weight, a = graph.constants[w], node.attributes
    outputs, inputs, height, width = weight.shape
    strides, dilations = a.strides or (1, 1), a.dilations or (1, 1)
    pads = a.pads or (0, 0, 0, 0)
    rows, columns = _image(graph, node.outputs[0])
    before = _image(graph, x)[1]
    column = ConvAttributes(
        (height, 1), (strides[0], 1), (dilations[0], 1), (pads[0], 0, pads[2], 0)
    )
    row = ConvAttributes((1, width), (1, strides[1]), (1, dilations[1]), (0, pads[1], 0, pads[3]))

    def shapes(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = left.T.reshape(-1, inputs, height, 1)
        return first, right.reshape(-1, outputs, 1, width).transpose(1, 0, 2, 3)

    def build(builder: GraphBuilder, first: str, second: str) -> None:
        hidden = builder.op("Conv", x, first, attributes=column, name=f"{node.name}_first")
        given = (hidden, second, *bias)
        builder.nodes_of("Conv", given, row, outputs=node.outputs, name=node.name)

    matrix = weight.transpose(1, 2, 0, 3).reshape(inputs * height, outputs * width)
    macs = rows * columns * weight.size
    each = rows * before * inputs * height + rows * columns * outputs * width
    return Form("spatial", matrix, macs, each, shapes, build)


def _image(graph: Graph, value: str) -> tuple[int, int]:
    height, width = graph.types[value].shape[2:]
    assert isinstance(height, int)
    assert isinstance(width, int)
    return height, width


_FORMERS: Mapping[str, Former] = {"MatMul": _matmul, "Gemm": _gemm, "Conv": _conv}


# --- choosing the rank ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Factored:
    """A matrix as a product of two, of which each column and row stands for a singular value."""

    values: np.ndarray
    left: np.ndarray
    right: np.ndarray


def _factored(matrix: np.ndarray) -> _Factored:
    """The factors, by the eigenvectors of the smaller of the two products with the transpose.

    Their product is the matrix to rounding however near to zero values are, for one factor
    is the matrix itself in the basis of the other; and it takes far less time than the
    singular value decomposition.  Each factor has the root of every value.
    """
    wide = matrix.shape[0] <= matrix.shape[1]
    exact = matrix.astype(np.float64) if wide else matrix.astype(np.float64).T
    squares, vectors = np.linalg.eigh(exact @ exact.T)
    values = np.sqrt(np.maximum(squares[::-1], 0))
    basis = vectors[:, ::-1]
    tiny = values <= values[0] * 1e-12
    root = np.sqrt(np.where(tiny, 1.0, values))
    left, right = basis * root, (basis.T @ exact) / root[:, None]
    return _Factored(values, left, right) if wide else _Factored(values, right.T, left.T)


@dataclass
class _Factors:
    """The factors of weights, found once for each."""

    found: dict[tuple[str, str], _Factored] = field(
        default_factory=dict[tuple[str, str], _Factored]
    )

    def of(self, weight: str, form: Form) -> _Factored:
        """The factors of a weight seen as a matrix."""
        key = (weight, form.kind)
        if key not in self.found:
            self.found[key] = _factored(form.matrix)
        return self.found[key]


def _rank(form: Form, parameters: LowRankParameters, factors: Callable[[], np.ndarray]) -> int:
    """The rank asked for; 0 if there is none."""
    full = min(form.matrix.shape)
    if parameters.rank:
        return min(parameters.rank, full)
    if parameters.macs:
        return min(full, int(parameters.macs * form.macs / form.macs_each))
    squares = np.cumsum(factors() ** 2)
    # A weight of zeros has rank 1 rather than none.
    wanted = parameters.energy * squares[-1] * (1 - 1e-12)
    return 1 + int(np.count_nonzero(squares < wanted))


def _check(parameters: LowRankParameters) -> None:
    given = [bool(parameters.rank), bool(parameters.energy), bool(parameters.macs)]
    if sum(given) != 1:
        got = f"rank={parameters.rank} energy={parameters.energy:g} macs={parameters.macs:g}"
        raise UserError(f"{_RECIPE}: exactly one of rank, energy and macs must be given", got=got)
    if parameters.rank < 0:
        raise UserError(f"{_RECIPE}: rank must not be negative", got=str(parameters.rank))
    share_of(_RECIPE, "energy", parameters.energy)
    share_of(_RECIPE, "macs", parameters.macs)


def splits(graph: Graph, parameters: LowRankParameters) -> tuple[Split, ...]:
    """What ``low-rank`` does to each layer, and why it leaves some."""
    return tuple(split for split, _ in _planned(graph, parameters, _Factors()).values())


def _planned(
    graph: Graph, parameters: LowRankParameters, factors: _Factors
) -> dict[str, tuple[Split, Form | None]]:
    _check(parameters)
    chosen = weights_of(graph, parameters.layers, _RECIPE)
    names = {node.name for weight in chosen for node in weight.layers}
    found: dict[str, tuple[Split, Form | None]] = {}
    for node in graph.nodes:
        former = _FORMERS.get(node.op)
        if node.name not in names:
            continue
        form = f"{node.op} is not split" if former is None else former(graph, node, parameters)
        if isinstance(form, str):
            found[node.name] = (Split(node.name, 0, 0, 0, 0, form), None)
            continue
        found[node.name] = (_split(node, form, parameters, factors), form)
    return found


def _split(node: Node, form: Form, parameters: LowRankParameters, factors: _Factors) -> Split:
    full = min(form.matrix.shape)
    rank = _rank(form, parameters, lambda: factors.of(node.inputs[1], form).values)
    after = rank * form.macs_each
    if not rank:
        reason = "even rank 1 takes more MACs than asked for"
    elif after >= form.macs and not parameters.always:
        reason = f"rank {rank} would take {after} MACs, it takes {form.macs}"
    else:
        return Split(node.name, rank, full, form.macs, after)
    return Split(node.name, 0, full, form.macs, form.macs, reason)


def low_rank(graph: Graph, parameters: LowRankParameters) -> Graph:
    """Split layers where that saves MACs."""
    factors = _Factors()
    planned = _planned(graph, parameters, factors)
    builder = GraphBuilder(OPS, graph.name, taken=[*graph.types, *graph.by_name])
    for value, type in graph.types.items():
        builder.declare(value, type)
    made: dict[tuple[str, str, int], tuple[str, str]] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        split, form = planned.get(node.name, (None, None))
        if split is None or form is None or not split.rank:
            nodes.append(node)
            continue
        key = (node.inputs[1], form.kind, split.rank)
        if key not in made:
            made[key] = _constants(builder, node, form, split.rank, factors)
        nodes += _pair(builder, node, form, made[key])
    done = [name for name, (split, _) in planned.items() if split.rank]
    if not done:
        return graph
    hidden = {value for node in nodes for value in node.outputs if value not in graph.types}
    types = {name: builder.types[name] for name in (*hidden, *builder.constants)}
    small = changed(
        graph,
        nodes=tuple(nodes),
        types={**graph.types, **types},
        constants={**graph.constants, **builder.constants},
    )
    return prune(noted(small, "split", f"{len(done)} layers: {listed(done)}"))


def _constants(
    builder: GraphBuilder, node: Node, form: Form, rank: int, factors: _Factors
) -> tuple[str, str]:
    """The weights of both layers."""
    found = factors.of(node.inputs[1], form)
    arrays = form.shapes(found.left[:, :rank], found.right[:rank])
    dtype = form.matrix.dtype
    first, second = (np.ascontiguousarray(array.astype(dtype)) for array in arrays)
    weight = node.inputs[1]
    return builder.constant(first, f"{weight}_first"), builder.constant(second, f"{weight}_second")


def _pair(builder: GraphBuilder, node: Node, form: Form, weights: tuple[str, str]) -> list[Node]:
    """The two nodes; the second has the name and the output of the one that goes."""
    count = len(builder.nodes)
    builder.origin = changed(node.origin, rules=(*node.origin.rules, _RECIPE))
    form.build(builder, *weights)
    first, second = builder.nodes[count:]
    return [first, changed(second, name=node.name, outputs=node.outputs)]


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        name=_RECIPE,
        doc="Splits matrix products and convolutions with constant weights into two layers by the "
        "largest singular values of the weight: of a given rank, so many that they have a share "
        "`energy` of the sum of squares, or so many that `macs` of the MACs are left. Only where "
        "that takes fewer MACs (or with `always=yes`); at the full rank the outputs are the same "
        "up to rounding. Convolutions become a window with few outputs and a 1x1 convolution, or "
        "(`convolution=spatial`) a column and a row. Convolutions with groups and layers whose "
        "weight is computed stay.",
        exactness=Exactness.APPROXIMATE,
        parameters=LowRankParameters,
        apply=low_rank,
    ),
)
