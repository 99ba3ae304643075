"""Coupling of everything else, read off definitions (``weft.ops.axis_relations``)."""

from __future__ import annotations

from dataclasses import replace as changed

import numpy as np

from weft.compress.coupling import FITTED, CoupledAt, Labelling
from weft.compress.coupling_layers import RULES
from weft.compress.slots import Axes, Labels
from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.ops.axis_relations import (
    Groups,
    Site,
    along,
    carried,
    groups,
    is_layer,
    moves,
    origins,
    sums,
)
from weft.ops.definitions import closed
from weft.ops.evaluate import call_of
from weft.ops.table import OPS


def coupled(at: CoupledAt) -> tuple[Axes, ...] | None:
    """The labels of a node's outputs."""
    rule = RULES.get(at.node.op)
    if rule is not None:
        return rule(at)
    if any(type is not None and 0 in type.shape for type in at.call.inputs):
        return None
    # Sizes that are asked for are those of axes that stay as they are, or of none.
    if moves(at.call, at.arrays.keys()) and not hasattr(at.node.attributes, "sizes"):
        return _moved(at)
    return None if len(at.node.outputs) > 1 else (_computed(at),)


# --- computed ---------------------------------------------------------------------------------


def _computed(at: CoupledAt) -> Axes:
    made, settled = at.dead(at.made()), set[Site]()
    grouped = groups(at.call)
    for summed in sums(at.call):
        if summed.leaves and not (grouped and set(summed.sites) & set(grouped.inside)):
            (first, *others) = summed.sites
            labels = at.cut(*first)
            for site in others:
                at.join(*site, labels)
            settled.update(summed.sites)
    if grouped is not None:
        made[grouped.output] = _whole_or_inside(at, grouped)
        settled |= {*grouped.sites, *grouped.inside, *grouped.outside}
    for axis, labels in enumerate(made):
        if (
            labels is not None
            and at.may_carry(len(labels))
            and not (grouped and axis == grouped.output)
        ):
            sites = list(carried(at.call, axis).items())
            if sites:
                made[axis] = _through(at, sites)
                settled.update(sites)
    for site in _sites(at):
        if site not in settled:
            at.pin(at.labels(*site), "combines what is along it")
    # Open sizes are handed on without labels.
    return made


def _sites(at: CoupledAt) -> list[Site]:
    given = (place for place, value in enumerate(at.node.inputs) if value)
    return [(place, axis) for place in given for axis in range(len(at.type(place).shape))]


def _through(at: CoupledAt, sites: list[Site]) -> Labels:
    """The labels of an axis that several inputs have; weights of layers bear new ones."""
    # Constants without labels take those of a computed value rather than the other way round.
    order = sorted(sites, key=lambda site: at.is_constant(site[0]))
    weights = [site for site in order if at.is_constant(site[0])] if is_layer(at.call) else []
    weights = [site for site in weights if len(at.type(site[0]).shape) > 1]
    labels = at.born(*weights[0]) if weights else at.axis(*order[0])
    for site in order:
        at.join(*site, labels)
    return labels


def _whole_or_inside(at: CoupledAt, grouped: Groups) -> Labels:
    """Groups go as a whole, or, where each is larger than they are many, the same of all."""
    (first, *others), count = grouped.sites, grouped.count
    weight = [site for site in grouped.outside if len(at.type(site[0]).shape) > 1]
    channels = at.axis(*first)
    if weight and grouped.inside and count < len(channels) // count:
        at.cut(*first)
        for site in grouped.inside:
            at.join(*site, at.slots.tie_rows(channels.reshape(count, -1).T))
        made = at.born(*weight[0])
        at.slots.tie_rows(made.reshape(count, -1).T)
    else:
        whole = at.slots.tie_rows(channels.reshape(count, -1))
        for site in [*others, *weight]:
            at.slots.tie(at.slots.tie_rows(at.axis(*site).reshape(count, -1)), whole)
        for site in grouped.inside:
            at.pin(at.axis(*site), "has as many channels in every group")
        dim = at.made()[grouped.output]
        assert isinstance(dim, int)
        made = at.born(*weight[0]) if weight else np.repeat(whole, dim // count)
    for site in grouped.outside:
        at.join(*site, made)
    return made


# --- moved ------------------------------------------------------------------------------------


def _moved(at: CoupledAt) -> tuple[Axes, ...]:
    """Positions of outputs are those that are moved there; one axis of several keeps its own."""
    made = [at.dead(at.made(place)) for place in range(len(at.node.outputs))]
    taken: dict[Site, np.ndarray] = {}
    free = [site for site in _sites(at) if site[0] not in at.arrays]
    free.sort(key=lambda site: at.is_constant(site[0]))
    for site in free:
        labels = at.labels(*site)
        if labels is None:
            continue
        if len(labels) < 2 or not at.slots.is_free(labels):
            at.pin(labels, "sees it as part of another axis")
            continue
        for place, origin in enumerate(origins(at.call, site, at.arrays)[: len(made)]):
            if (origin < 0).all():
                continue
            found = _axis_from(at, place, origin, labels)
            if found is None or (here := made[place][found[0]]) is None:
                at.pin(labels, "mixes it with other axes")
                continue
            axis, own = found
            known = taken.setdefault((place, axis), np.zeros(len(here), bool))
            at.slots.tie(here[known & (own >= 0)], labels[own[known & (own >= 0)]])
            made[place][axis] = np.where(~known & (own >= 0), labels[own], here)
            taken[place, axis] = known | (own >= 0)
    if not at.arrays and at.node.op not in FITTED:
        _pin_what_would_move(at, made)
    return tuple(made)


def _axis_from(
    at: CoupledAt, place: int, origin: np.ndarray, labels: Labels
) -> tuple[int, np.ndarray] | None:
    """The axis of an output that has positions of an input's, and which."""
    wide = [axis for axis, size in enumerate(origin.shape) if size > 1]
    for axis in wide:
        own = along(origin, axis)
        if own is not None and len(np.unique(own)) > 1:
            return axis, own
    # Split between axes: one of them stays free, with all that is at each of its places.
    rows = {axis: np.moveaxis(origin, axis, 0).reshape(origin.shape[axis], -1) for axis in wide}
    apart = [axis for axis in wide if len(np.unique(rows[axis])) == _distinct(rows[axis])]
    if not apart:
        return None
    heads = [axis for axis in apart if (at.node.outputs[place], axis) in at.labelling.heads]
    # The longest one, for then fewest positions must go together.
    chosen = heads[0] if heads else max(apart, key=lambda axis: origin.shape[axis])
    for row in rows[chosen]:
        at.slots.tie_rows(labels[np.unique(row)][None])
    if heads:
        at.slots.heads.append(labels[rows[chosen][:, 0]])
    return chosen, rows[chosen][:, 0]


def _distinct(rows: np.ndarray) -> int:
    """How many positions there are in all rows, those in two counted twice."""
    return sum(len(np.unique(row)) for row in rows)


def _pin_what_would_move(at: CoupledAt, made: list[Axes]) -> None:
    """Pins positions without which the op, its attributes as they are, would move others."""
    tried: set[int] = set()
    ends = (0, len(at.node.inputs) - 1)
    # Of many inputs (a concatenation's) those between are treated like the first and the last.
    for site in (each for each in _sites(at) if each[0] in ends):
        labels = at.labels(*site)
        if labels is None or not at.slots.is_free(labels):
            continue
        for end in (0, -1):
            gone = at.slots.find(int(labels[end]))
            if gone not in tried and not _moves_as_before(at, made, gone):
                at.pin(labels, "would move it elsewhere")
            tried.add(gone)


def _moves_as_before(at: CoupledAt, made: list[Axes], gone: int) -> bool:
    """Whether the op moves what is left to the same places without the positions of a slot."""
    call = closed(at.call)
    sites = {
        site: _kept(at, at.labels(*site), call.type(site[0]).dims[site[1]], gone)
        for site in _sites(at)
    }
    if not all(keep.any() for keep in sites.values()):
        return True
    inputs = [
        type
        and TensorType(type.dtype, tuple(int(sites[n, a].sum()) for a in range(len(type.dims))))
        for n, type in enumerate(call.inputs)
    ]
    small = changed(call, inputs=tuple(inputs))
    try:
        shapes = [type.dims for type in OPS[call.op].infer(small)][: len(made)]
    except UserError:
        return False
    wholes = [type.dims for type in OPS[call.op].infer(call)][: len(made)]
    left = [
        [_kept(at, labels, dim, gone) for labels, dim in zip(axes, dims, strict=True)]
        for axes, dims in zip(made, wholes, strict=True)
    ]
    if shapes != [tuple(int(keep.sum()) for keep in each) for each in left]:
        return False
    for site in (site for site, keep in sites.items() if not keep.all()):
        number = np.append(np.cumsum(sites[site]) - 1, -1)
        pairs = zip(origins(call, site, {}), origins(small, site, {}), left, strict=False)
        if not all((number[_compressed(one, keeps)] == two).all() for one, two, keeps in pairs):
            return False
    return True


def _kept(at: CoupledAt, labels: Labels | None, dim: int, gone: int) -> np.ndarray:
    """Which positions of an axis stay without a slot."""
    if labels is None:
        return np.ones(dim, bool)
    return np.array([at.slots.find(label) != gone for label in labels.tolist()], bool)


def _compressed(origin: np.ndarray, keeps: list[np.ndarray]) -> np.ndarray:
    for axis, keep in enumerate(keeps):
        if origin.shape[axis] > 1:
            origin = np.compress(keep, origin, axis)
    return origin


# --- heads ------------------------------------------------------------------------------------


def head_axes(graph: Graph) -> frozenset[tuple[str, int]]:
    """Axes over which products of two computed matrices are repeated, and where they come from."""
    found: set[tuple[str, int]] = set()
    for node in reversed(graph.nodes):
        call = call_of(node, graph.types)
        computed = not graph.constants.keys() & set(node.inputs)
        if computed and is_layer(call) and not any(node.outputs[1:]):
            rank = len(graph.types[node.outputs[0]].shape)
            for axis in range(rank):
                sites = carried(call, axis)
                if len(sites) > 1:
                    found.update((node.inputs[place], each) for place, each in sites.items())
        else:
            found.update(_behind(graph, node, found))
    return frozenset(found)


def _behind(graph: Graph, node: Node, found: set[tuple[str, int]]) -> list[tuple[str, int]]:
    """The axes of a node's inputs that axes of its outputs are."""
    at = CoupledAt(Labelling(graph), node)
    made: list[tuple[str, int]] = []
    moving = moves(at.call, at.arrays.keys())
    for place, value in enumerate(node.outputs):
        dims = graph.types[value].shape if value else ()
        for axis in (each for each, dim in enumerate(dims) if dim != 1 and (value, each) in found):
            if moving:
                sites = [each for each in _sites(at) if _is_moved_to(at, each, place, axis)]
            else:
                sites = list(carried(at.call, axis).items())
            made += [(node.inputs[position], each) for position, each in sites]
    return made


def _is_moved_to(at: CoupledAt, site: Site, place: int, axis: int) -> bool:
    """Whether an axis of an output has positions of an axis of an input."""
    if site[0] in at.arrays or at.type(site[0]).shape[site[1]] == 1:
        return False
    origin = origins(at.call, site, at.arrays)[place]
    return origin.shape[axis] > 1 and along(origin, axis) is not None
