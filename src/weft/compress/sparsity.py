"""Zeros in weights: the smallest ones, or all but N of every M."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Literal

import numpy as np

from weft.compress.weight_axes import Weight, weights_of
from weft.errors import UserError
from weft.ir.edit import set_constants
from weft.ir.graph import Graph
from weft.records import dataclass
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.rule import Exactness


@dataclass(frozen=True)
class SparseParameters:
    """Of ``sparsify``."""

    ratio: float = parameter("the share of the weights that becomes 0", 0.5)
    scope: Literal["layer", "global"] = parameter(
        "whether the share holds for every weight, or for all of them together", "layer"
    )
    layers: tuple[str, ...] = parameter("layers or weights; all if none are named", ())


@dataclass(frozen=True)
class StructuredParameters:
    """Of ``sparsify-n-m``."""

    n: int = parameter("how many of each group stay", 2)
    m: int = parameter("how many neighbours along the summed axis are a group", 4)
    layers: tuple[str, ...] = parameter("layers or weights; all if none are named", ())


def sparsify(graph: Graph, parameters: SparseParameters) -> Graph:
    """Set the weights of smallest magnitude to zero, exactly ``round(ratio * count)``."""
    ratio = share_of("sparsify", "ratio", parameters.ratio, effective=True)
    chosen = weights_of(graph, parameters.layers, "sparsify")
    groups = [chosen] if parameters.scope == "global" else [(each,) for each in chosen]
    arrays: dict[str, np.ndarray] = {}
    for group in groups:
        arrays.update(_without_smallest(graph, group, ratio))
    return set_constants(graph, arrays)


def share_of(recipe: str, name: str, value: float, *, effective: bool = False) -> float:
    """A parameter that must be a share; of an effective one 0, which does nothing, is refused."""
    if not 0 <= value <= 1 or (effective and value == 0):
        rule = "above 0 and at most 1" if effective else "within [0, 1]"
        raise UserError(f"{recipe}: {name} must be {rule}", got=f"{value:g}")
    return value


def _without_smallest(
    graph: Graph, weights: Sequence[Weight], ratio: float
) -> dict[str, np.ndarray]:
    arrays = [graph.constants[each.name] for each in weights]
    flat = np.concatenate([_magnitudes(array).reshape(-1) for array in arrays])
    # Stable, so that among equals the first go, on every machine.
    gone = np.argsort(flat, kind="stable")[: round(ratio * flat.size)]
    keep = np.ones(flat.size, np.bool_)
    keep[gone] = False
    ends = np.cumsum([array.size for array in arrays])[:-1]
    return {
        each.name: _masked(array, mask.reshape(array.shape))
        for each, array, mask in zip(weights, arrays, np.split(keep, ends), strict=True)
    }


def _magnitudes(array: np.ndarray) -> np.ndarray:
    return np.abs(array.astype(np.float64))


def _masked(array: np.ndarray, keep: np.ndarray) -> np.ndarray:
    return np.where(keep, array, np.zeros((), array.dtype))


def sparsify_n_m(graph: Graph, parameters: StructuredParameters) -> Graph:
    """Of every ``m`` weights in a row along the summed axis, keep the ``n`` largest."""
    n, m = parameters.n, parameters.m
    if not 1 <= n < m:
        raise UserError("sparsify-n-m: n must be at least 1 and less than m", got=f"n={n} m={m}")
    return set_constants(
        graph,
        {
            each.name: _largest_of_groups(
                graph.constants[each.name], each.summed("sparsify-n-m"), n, m
            )
            for each in weights_of(graph, parameters.layers, "sparsify-n-m")
        },
    )


def _largest_of_groups(array: np.ndarray, axis: int, n: int, m: int) -> np.ndarray:
    moved = np.moveaxis(array, axis, -1)
    extent = moved.shape[-1]
    groups = ceil(extent / m)
    # What fills the last group up is smaller than everything, so it never takes a place.
    padded = np.full((*moved.shape[:-1], groups * m), -1.0)
    padded[..., :extent] = _magnitudes(moved)
    rows = padded.reshape(*moved.shape[:-1], groups, m)
    order = np.argsort(-rows, axis=-1, kind="stable")
    keep = np.zeros(rows.shape, np.bool_)
    np.put_along_axis(keep, order[..., :n], True, axis=-1)
    kept = keep.reshape(padded.shape)[..., :extent]
    return np.ascontiguousarray(_masked(array, np.moveaxis(kept, -1, axis)))


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        name="sparsify",
        doc="Sets the weights of smallest magnitude to zero, by their share: exactly "
        "`round(ratio * count)` of them, the first ones among equals. The shapes stay; biases "
        "and normalizations are left alone.",
        exactness=Exactness.APPROXIMATE,
        parameters=SparseParameters,
        apply=sparsify,
    ),
    Recipe(
        name="sparsify-n-m",
        doc="Keeps the `n` largest of every `m` weights that stand in a row along the axis that "
        "the layer sums along (input channels of a convolution, rows of a matrix) and sets the "
        "others to zero, as hardware with structured sparsity wants it. A last group that is "
        "shorter keeps `n` too. A weight that two layers sum along different axes is refused.",
        exactness=Exactness.APPROXIMATE,
        parameters=StructuredParameters,
        apply=sparsify_n_m,
    ),
)
