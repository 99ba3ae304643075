"""Take out channels of integer layers that are the same for every input, exactly.

Bounds of all values (``weft.ops.value_bounds``) show channels whose sums always saturate, or
which requantization takes to one number.  What such a channel contributes to the layers that
read it is a constant, which goes into their biases, unless windows that leave the image see
padding in its place that counts for something else.  Then nothing reads the channel, and it goes
with everything that is tied to it (``weft.compress.coupling``).
"""

from __future__ import annotations

from dataclasses import replace as changed
from math import ceil

import numpy as np

from weft.compress.constant_proof import proof
from weft.compress.families import Analysis, analyse
from weft.compress.products import integer_layers
from weft.compress.shrink import Removal, leave_some, shrunk
from weft.errors import UserError
from weft.ir.edit import read_only
from weft.ir.graph import Graph
from weft.ops.value_bounds import value_bounds
from weft.records import dataclass
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.rule import Exactness


@dataclass(frozen=True)
class ConstantChannelParameters:
    """Of ``constant-channels``."""

    multiple: int = parameter(
        "channels that stay of a layer are a multiple of it, if it has as many; the "
        "processors' kernels take channels by two or four",
        4,
    )


def without_constant_channels(graph: Graph, parameters: ConstantChannelParameters) -> Graph:
    """The graph without channels that are constant or that nothing reads.

    Args:
        graph: the graph.
        parameters: of the recipe.

    Returns:
        A smaller graph with the same outputs, bit by bit; the graph itself if nothing goes.

    Raises:
        UserError: a parameter is wrong.
    """
    if parameters.multiple < 1:
        raise UserError(
            "constant-channels: multiple must be at least 1", got=str(parameters.multiple)
        )
    found = graph
    while True:
        folded = _folded(found)
        if not any(each.unread_inputs(folded).any() for each in integer_layers(folded)):
            return found
        smaller = _without_unread(folded, parameters.multiple)
        if smaller is folded:
            return found
        found = smaller


# --- constant channels go into biases -----------------------------------------------------------


def _folded(graph: Graph) -> Graph:
    """The graph whose layers do not read channels that are constant: their weights are zero."""
    layers = integer_layers(graph)
    if not layers:
        return graph
    bounds = value_bounds(graph)
    chosen = {layer.node.name: layer.constant_inputs(bounds) for layer in layers}
    for layer in layers:
        # Layers that share a weight must agree.
        for other in layers:
            if other.weight == layer.weight and other is not layer:
                chosen[layer.node.name] = chosen[layer.node.name] & chosen[other.node.name]
    readers = _readers(graph)
    found = graph
    for layer in layers:
        own = chosen[layer.node.name]
        if readers[layer.weight] == sum(each.weight == layer.weight for each in layers):
            found = layer.folded(found, own, bounds)
    return found


def _readers(graph: Graph) -> dict[str, int]:
    count: dict[str, int] = dict.fromkeys(graph.outputs, 1)
    for node in graph.nodes:
        for value in node.inputs:
            count[value] = count.get(value, 0) + 1
    return count


# --- channels that nothing reads go ---------------------------------------------------------------


def _without_unread(graph: Graph, multiple: int) -> Graph:
    """The graph without slots whose readers all multiply them by zero; itself if there are none."""
    analysis = analyse(graph)
    unread = _unread(analysis)
    gone: set[int] = set()
    for family in analysis.families:
        own = [] if family.reason else [slot for slot in family.slots.tolist() if slot in unread]
        count = len(family.slots)
        keep = min(count, ceil((count - len(own)) / multiple) * multiple)
        gone.update(own[len(own) - (count - keep) :])
    leave_some(analysis, gone, dict.fromkeys(gone, 0.0))
    if not gone:
        return graph
    kept = unread - gone
    return shrunk(Removal(_ordinary(analysis, kept, unread) if kept else analysis, frozenset(gone)))


def _unread(analysis: Analysis) -> set[int]:
    """The labels of slots that layers of integers read, all of them with weights of zero."""
    layers = {layer.node.name: layer for layer in integer_layers(analysis.graph)}
    read: set[int] = set(analysis.labelling.slots.pinned())
    summed: set[int] = set()
    for cut in analysis.labelling.slots.cuts:
        roots = analysis.roots[cut.labels]
        layer = layers.get(cut.node)
        summed.update(roots.tolist())
        if layer is None or cut.position != layer.products.data:
            read.update(roots.tolist())
        else:
            read.update(roots[~layer.unread_inputs(analysis.graph)].tolist())
    return summed - read


def _ordinary(analysis: Analysis, kept: set[int], unread: set[int]) -> Analysis:
    """Lets unread slots that stay compute what another does.

    Kernels need not provide for the biases and scales that made them constant.
    """
    graph = analysis.graph
    summed = {(layer.weight, layer.summed_axis) for layer in integer_layers(graph)}
    constants = dict(graph.constants)
    for name, axes in analysis.labelling.constants.items():
        for axis, labels in axes.items():
            roots = analysis.roots[labels].tolist()
            alive = [place for place, root in enumerate(roots) if root not in unread]
            places = [place for place, root in enumerate(roots) if root in kept]
            if alive and places and (name, axis) not in summed:
                array = np.moveaxis(constants[name].copy(), axis, 0)
                array[places] = array[alive[0]]
                array = np.ascontiguousarray(np.moveaxis(array, 0, axis))
                constants[name] = read_only(array)
    return changed(analysis, graph=changed(graph, constants=constants))


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        name="constant-channels",
        doc="Takes out channels of integer layers that have the same value for every input, as "
        "interval arithmetic over the exact integer semantics proves, and channels that nothing "
        "reads. What they contribute goes into the biases of the layers that read them; a "
        "channel that a window sees beside padding of another value stays. `weft apply --proof` "
        "prints the bounds of the sums of each constant channel.",
        exactness=Exactness.BIT_EXACT,
        apply=without_constant_channels,
        parameters=ConstantChannelParameters,
        proof=proof,
    ),
)
