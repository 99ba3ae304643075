"""Split layers into two of lower rank, by the singular values of their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from dataclasses import replace as changed
from functools import partial

import numpy as np

from weft.compress.lowrank_forms import FORMERS, LowRankForm, LowRankParameters
from weft.compress.sparsity import share_of
from weft.compress.weight_axes import weights_of
from weft.errors import UserError
from weft.ir.edit import prune
from weft.ir.graph import Graph, Node, noted
from weft.ir.naming import listed
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS
from weft.records import dataclass
from weft.rewrite.recipe import Recipe
from weft.rewrite.rule import Exactness

_RECIPE = "low-rank"


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
    wide = matrix.shape[-2] <= matrix.shape[-1]
    exact = matrix.astype(np.float64) if wide else matrix.astype(np.float64).swapaxes(-1, -2)
    squares, vectors = np.linalg.eigh(exact @ exact.swapaxes(-1, -2))
    values = np.sqrt(np.maximum(squares[..., ::-1], 0))
    basis = vectors[..., ::-1]
    tiny = values <= values[..., :1] * 1e-12
    root = np.sqrt(np.where(tiny, 1.0, values))
    left = basis * root[..., None, :]
    right = (basis.swapaxes(-1, -2) @ exact) / root[..., None]
    if not wide:
        left, right = right.swapaxes(-1, -2), left.swapaxes(-1, -2)
    return _Factored(values, left, right)


@dataclass
class Factors:
    """The factors of weights, found once for each."""

    found: dict[tuple[str, str], _Factored] = field(
        default_factory=dict[tuple[str, str], _Factored]
    )

    def of(self, weight: str, form: LowRankForm) -> _Factored:
        """The factors of a weight seen as a matrix."""
        key = (weight, form.kind)
        if key not in self.found:
            self.found[key] = _factored(form.matrix)
        return self.found[key]


def _rank(
    form: LowRankForm, parameters: LowRankParameters, factors: Callable[[], _Factored]
) -> int:
    """The rank asked for; 0 if there is none."""
    full = min(form.matrix.shape[-2:])
    if parameters.rank:
        return min(parameters.rank, full)
    if parameters.macs:
        return min(full, int(parameters.macs * form.macs / form.macs_each))
    # All groups get one rank.
    squares = np.cumsum((factors().values ** 2).reshape(-1, full).sum(0))
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


def ranks(
    graph: Graph, parameters: LowRankParameters, factors: Factors
) -> dict[str, tuple[LowRankForm, int]]:
    """The layers that are split, as products, and the rank of each."""
    _check(parameters)
    chosen = weights_of(graph, parameters.layers, _RECIPE)
    names = {node.name for weight in chosen for node in weight.layers}
    found: dict[str, tuple[LowRankForm, int]] = {}
    for node in graph.nodes:
        former = FORMERS.get(node.op)
        form = former(graph, node, parameters) if former and node.name in names else None
        if form is None:
            continue
        rank = _rank(form, parameters, partial(factors.of, node.inputs[1], form))
        if rank and (parameters.always or rank * form.macs_each < form.macs):
            found[node.name] = (form, rank)
    return found


def low_rank(graph: Graph, parameters: LowRankParameters) -> Graph:
    """Split layers where that saves MACs."""
    factors = Factors()
    chosen = ranks(graph, parameters, factors)
    if not chosen:
        return graph
    builder = GraphBuilder(OPS, graph.name, taken=[*graph.types, *graph.by_name])
    for value, type in graph.types.items():
        builder.declare(value, type)
    made: dict[tuple[str, str, int], tuple[str, str]] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name not in chosen:
            nodes.append(node)
            continue
        form, rank = chosen[node.name]
        key = (node.inputs[1], form.kind, rank)
        if key not in made:
            made[key] = _constants(builder, node, form, rank, factors)
        nodes += _pair(builder, node, form, made[key])
    hidden = {value for node in nodes for value in node.outputs if value not in graph.types}
    types = {name: builder.types[name] for name in (*hidden, *builder.constants)}
    small = changed(
        graph,
        nodes=tuple(nodes),
        types={**graph.types, **types},
        constants={**graph.constants, **builder.constants},
    )
    return prune(noted(small, "split", f"{len(chosen)} layers: {listed(chosen)}"))


def _constants(
    builder: GraphBuilder, node: Node, form: LowRankForm, rank: int, factors: Factors
) -> tuple[str, str]:
    """The weights of both layers."""
    found = factors.of(node.inputs[1], form)
    arrays = form.shapes(found.left[..., :rank], found.right[..., :rank, :])
    dtype = form.matrix.dtype
    first, second = (np.ascontiguousarray(array.astype(dtype)) for array in arrays)
    weight = node.inputs[1]
    return builder.constant(first, f"{weight}_first"), builder.constant(second, f"{weight}_second")


def _pair(
    builder: GraphBuilder, node: Node, form: LowRankForm, weights: tuple[str, str]
) -> list[Node]:
    """The two nodes; the second has the name and the output of the one that goes."""
    count = len(builder.nodes)
    builder.origin = changed(node.origin, rules=(*node.origin.rules, _RECIPE))
    form.build(builder, *weights)
    first, second = builder.nodes[count:]
    return [first, changed(second, name=node.name, outputs=node.outputs)]


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        name=_RECIPE,
        doc="Splits matrix products, convolutions and recurrent layers into two by the "
        "largest singular values of constant weights: of a given rank, so many that they have "
        "a share `energy` of the sum of squares, or so many that `macs` of the MACs are left. Only "
        "where that takes fewer MACs (or with `always=yes`); at the full rank the outputs are the "
        "same up to rounding. Convolutions become a window with few outputs and a 1x1 convolution, "
        "or (`convolution=spatial`) a column and a row, each with as many groups. Of recurrent "
        "layers the weight of what they read is split. Layers whose weight is computed stay.",
        exactness=Exactness.APPROXIMATE,
        parameters=LowRankParameters,
        apply=low_rank,
    ),
)
