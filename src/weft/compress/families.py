"""Sets of positions that go together, and what each is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as changed

import numpy as np

from weft.compress.coupling import Labelling, label
from weft.compress.coupling_layers import RULES
from weft.compress.coupling_relations import coupled, head_axes
from weft.compress.slots import Birth
from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.naming import fresh
from weft.ops.axis_relations import is_layer
from weft.ops.evaluate import call_of, evaluate_node
from weft.ops.table import OPS
from weft.records import dataclass


@dataclass(frozen=True)
class CoupledChannels:
    """Slots that are made by the same layers: one axis, together with all that it is tied to.

    Attributes:
        births: the layers, and what their slices make.
        slots: the label that stands for each slot, in the order of the first birth.
        is_heads: whether they are heads of attention rather than channels.
        reason: why none of them can go; empty if they can.
    """

    births: tuple[Birth, ...]
    slots: np.ndarray
    is_heads: bool
    reason: str

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers."""
        return tuple(dict.fromkeys(birth.node for birth in self.births))


@dataclass(frozen=True)
class Analysis:
    """What a graph's positions are tied to.

    Attributes:
        graph: the graph, in which small constants are read by one node each.
        copies: those constants, with the name that each had.
        labelling: the labels of all axes.
        roots: for every label the one that stands for its slot.
        families: all slots that layers make.
    """

    graph: Graph
    copies: Mapping[str, str]
    labelling: Labelling
    roots: np.ndarray
    families: tuple[CoupledChannels, ...]


def analyse(graph: Graph) -> Analysis:
    """Find out which positions of a graph's values go together."""
    graph, copies = _unshared(graph)
    labelling = label(graph, coupled, head_axes(graph))
    roots = labelling.slots.roots()
    return Analysis(graph, copies, labelling, roots, tuple(_families(labelling, roots)))


def _unshared(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """Let every node have its own of constants that are no weights of layers.

    Equal vectors (zeros, ones) are often one constant; that ties no channels.
    """
    names = dict.fromkeys(graph.types)
    copies: dict[str, str] = {}
    seen: set[str] = set()
    nodes = list(graph.nodes)
    for place, node in enumerate(nodes):
        inputs = list(node.inputs)
        for position, value in enumerate(inputs):
            if value not in graph.constants or _is_weight(graph, node, value):
                continue
            if value in seen:
                inputs[position] = fresh(value, names)
                names[inputs[position]] = None
                copies[inputs[position]] = value
            seen.add(value)
        nodes[place] = changed(node, inputs=tuple(inputs))
    added = {copy: graph.constants[name] for copy, name in copies.items()}
    types = {copy: graph.types[name] for copy, name in copies.items()}
    unshared = changed(
        graph,
        nodes=tuple(nodes),
        constants={**graph.constants, **added},
        types={**graph.types, **types},
    )
    return unshared, copies


def _is_weight(graph: Graph, node: Node, value: str) -> bool:
    """Whether a constant is a matrix (or more) of a layer, or a table that rows are picked from."""
    layer = node.op in RULES or node.op == "Gather" or is_layer(call_of(node, graph.types))
    return layer and len(graph.types[value].shape) > 1


def _families(labelling: Labelling, roots: np.ndarray) -> list[CoupledChannels]:
    slots = labelling.slots
    makers: dict[int, list[int]] = {}
    for number, birth in enumerate(slots.births):
        for root in dict.fromkeys(roots[birth.labels].tolist()):
            makers.setdefault(root, []).append(number)
    sets: dict[tuple[int, ...], list[int]] = {}
    for root, births in makers.items():
        sets.setdefault(tuple(births), []).append(root)
    pinned = slots.pinned()
    heads = {int(roots[label]) for labels in slots.heads for label in labels.tolist()}
    found: list[CoupledChannels] = []
    for births, members in sets.items():
        reasons = [pinned[root] for root in members if root in pinned]
        found.append(
            CoupledChannels(
                tuple(slots.births[number] for number in births),
                np.array(members),
                any(root in heads for root in members),
                reasons[0] if reasons else "",
            )
        )
    return found


# --- importance -----------------------------------------------------------------------------


def importance(
    analysis: Analysis,
    family: CoupledChannels,
    criterion: str,
    seed: int,
    scores: Mapping[str, np.ndarray],
) -> np.ndarray:
    """What each slot of a family is worth: the mean over all slices that make it.

    The slices of each layer are taken relative to their mean, so that layers compare.

    Args:
        analysis: of the graph.
        family: the slots.
        criterion: ``l1`` and ``l2`` norms of slices per element, or ``random``.
        seed: of ``random``.
        scores: for weights, by name, numbers for their slices, in place of the criterion.
    """
    place = {root: at for at, root in enumerate(family.slots.tolist())}
    total, count = np.zeros(len(place)), np.zeros(len(place))
    for birth in family.births:
        worth = _worth(analysis, birth, criterion, seed, scores)
        for root, one in zip(analysis.roots[birth.labels].tolist(), worth.tolist(), strict=True):
            if root in place:
                total[place[root]] += one
                count[place[root]] += 1
    return total / count


def _worth(
    analysis: Analysis, birth: Birth, criterion: str, seed: int, scores: Mapping[str, np.ndarray]
) -> np.ndarray:
    count = len(birth.labels)
    if birth.weight in scores:
        given = np.asarray(scores[birth.weight], np.float64)
        if given.shape != (count,):
            raise UserError(
                f"prune: scores of {birth.weight} must be {count} numbers, one for each slice "
                f"along axis {birth.axis}",
                got=str(list(given.shape)),
            )
        return given
    if criterion == "random":
        return np.random.default_rng([seed, count, int(birth.labels[0])]).random(count)
    weight = np.moveaxis(_array(analysis.graph, birth.weight).astype(np.float64), birth.axis, 0)
    rows = np.abs(weight.reshape(count, -1))
    norms = rows.mean(axis=1) if criterion == "l1" else np.sqrt((rows**2).mean(axis=1))
    mean = float(norms.mean())
    return norms / mean if mean else norms


def _array(graph: Graph, value: str) -> np.ndarray:
    """A constant, or what is computed from constants."""
    if value in graph.constants:
        return graph.constants[value]
    node = graph.producers[value]
    inputs = {each: _array(graph, each) for each in node.inputs if each}
    return evaluate_node(node, OPS[node.op], graph.types, inputs)[value]
