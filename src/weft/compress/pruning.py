"""Prune channels and heads of attention: a smaller network, not one with zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, gcd
from types import MappingProxyType
from typing import Literal

import numpy as np

from weft.compress.families import Analysis, CoupledChannels, analyse, importance
from weft.compress.shrink import Removal, leave_some, masked, shrunk
from weft.compress.sparsity import share_of
from weft.compress.weight_axes import chosen_names
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.records import dataclass
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.rule import Exactness

NO_SCORES: Mapping[str, np.ndarray] = MappingProxyType({})


@dataclass(frozen=True)
class PruneParameters:
    """Of ``prune``."""

    ratio: float = parameter("the share of channels and heads that goes", 0.25)
    criterion: Literal["l1", "l2", "random"] = parameter(
        "what goes first: what has the smallest norm, or anything", "l1"
    )
    scope: Literal["layer", "global"] = parameter(
        "whether the share holds for every layer, or for all of them together", "layer"
    )
    kind: Literal["all", "channels", "heads"] = parameter("what may go", "all")
    multiple: int = parameter("what stays of a layer is a multiple of it, if it can be", 1)
    layers: tuple[str, ...] = parameter("layers or weights that are pruned; or all", ())
    protect: tuple[str, ...] = parameter("layers or weights that are not, nor what they tie", ())
    seed: int = parameter("of `criterion=random`", 0)
    masked: bool = parameter(
        "keep the size and multiply by zero instead: the same outputs up to rounding", False
    )


@dataclass(frozen=True)
class Pruned:
    """What pruning does to layers whose outputs go together.

    Attributes:
        layers: their names.
        count: how many channels (sets of them that go together) or heads there are.
        gone: how many of them go.
        is_heads: whether they are heads.
        reason: why none can go; empty if they can.
    """

    layers: tuple[str, ...]
    count: int
    gone: int
    is_heads: bool
    reason: str


def pruning(
    graph: Graph,
    parameters: PruneParameters,
    scores: Mapping[str, np.ndarray] = NO_SCORES,
) -> tuple[Removal, tuple[Pruned, ...]]:
    """What ``prune`` takes out, and what happens to each set of layers.

    Args:
        graph: the graph.
        parameters: of the recipe.
        scores: for weights, by name, what each slice along their output axis is worth, in
            place of the criterion.
    """
    share_of("prune", "ratio", parameters.ratio, effective=True)
    if parameters.multiple < 1:
        raise UserError("prune: multiple must be at least 1", got=str(parameters.multiple))
    if parameters.seed and parameters.criterion != "random":
        raise UserError(
            f"prune: seed has no effect on criterion={parameters.criterion}",
            got=f"seed={parameters.seed}",
        )
    if parameters.seed < 0:
        raise UserError("prune: seed must not be negative", got=str(parameters.seed))
    analysis = analyse(graph)
    chosen = _chosen(analysis, parameters)
    worths = [
        importance(analysis, family, parameters.criterion, parameters.seed, scores)
        for family in chosen
    ]
    counts = _counts(worths, parameters)
    worth: dict[int, float] = {}
    gone: set[int] = set()
    for family, own, count in zip(chosen, worths, counts, strict=True):
        worth.update(zip(family.slots.tolist(), own.tolist(), strict=True))
        keep = _rounded(family, len(own) - count, parameters.multiple)
        order = np.argsort(own, kind="stable")
        gone.update(family.slots[order[: len(own) - keep]].tolist())
    leave_some(analysis, gone, worth)
    return Removal(analysis, frozenset(gone)), tuple(
        Pruned(
            family.layers,
            len(family.slots),
            sum(slot in gone for slot in family.slots.tolist()),
            family.is_heads,
            family.reason,
        )
        for family in analysis.families
    )


def _chosen(analysis: Analysis, parameters: PruneParameters) -> list[CoupledChannels]:
    names = [_names(family) for family in analysis.families]
    known = [name for own in names for name in own]
    wanted = chosen_names(parameters.layers, known, "prune")
    kept = chosen_names(parameters.protect, known, "prune") if parameters.protect else set[str]()
    asked = [
        family
        for family, own in zip(analysis.families, names, strict=True)
        if not wanted.isdisjoint(own)
        and kept.isdisjoint(own)
        and parameters.kind in ("all", "heads" if family.is_heads else "channels")
    ]
    found = [family for family in asked if not family.reason]
    if not found:
        reasons = [f"{', '.join(each.layers[:2])}: {each.reason}" for each in asked[:4]]
        what = "channels or heads" if parameters.kind == "all" else parameters.kind
        raise UserError(f"prune: there are no {what} that can go", got="; ".join(reasons) or "none")
    return found


def _names(family: CoupledChannels) -> list[str]:
    return [*family.layers, *(birth.weight for birth in family.births)]


def _counts(worths: Sequence[np.ndarray], parameters: PruneParameters) -> list[int]:
    """How many slots of each family go, before rounding; one always stays."""
    if parameters.scope == "layer":
        return [min(len(own) - 1, round(parameters.ratio * len(own))) for own in worths]
    flat = np.concatenate(worths)
    owner = np.repeat(np.arange(len(worths)), [len(own) for own in worths])
    left = [len(own) for own in worths]
    wanted = round(parameters.ratio * len(flat))
    for place in np.argsort(flat, kind="stable").tolist():
        if not wanted:
            break
        if left[owner[place]] > 1:
            left[owner[place]] -= 1
            wanted -= 1
    return [len(own) - kept for own, kept in zip(worths, left, strict=True)]


def _rounded(family: CoupledChannels, keep: int, multiple: int) -> int:
    """How many slots stay, so that what the first layer makes is a multiple."""
    birth = family.births[0]
    unit = max(1, len(birth.labels) // max(1, len(family.slots)))
    step = multiple // gcd(multiple, unit)
    return min(len(family.slots), ceil(keep / step) * step)


def prune(
    graph: Graph,
    parameters: PruneParameters,
    scores: Mapping[str, np.ndarray] = NO_SCORES,
) -> Graph:
    """Prune; see ``pruning`` for the arguments."""
    removal, _ = pruning(graph, parameters, scores)
    if not removal.gone:
        return graph
    return masked(removal) if parameters.masked else shrunk(removal)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        name="prune",
        doc="Takes channels and heads of attention out of the network, those with the smallest "
        "norms first, with everything that is tied to them: the same channels of layers that are "
        "added, of normalizations, of depthwise convolutions, of parts that are concatenated, "
        "sliced, shuffled or flattened, and the rows of the weights that read them. What is left "
        "is a smaller network of the same ops. Channels that a graph output, a layer "
        "normalization or an op that is not known needs all of stay. With `masked=yes` the size "
        "stays and the layers that read the channels multiply them by zero, which gives the "
        "same outputs up to rounding.",
        exactness=Exactness.APPROXIMATE,
        parameters=PruneParameters,
        apply=prune,
    ),
)
