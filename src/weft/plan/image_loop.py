"""Which part of a network runs image by image where it is given several at once.

With one layer after the other for the whole batch, what one hands to the next is written far
away and read from there; image by image it stays in a core's own caches, and all layers are cut
as they are for one image.  What that costs is weights, which every image reads again.  They come
in one stream that is fetched ahead, so a layer may have several times as many as it moves of
activations.  Behind the first layers that have more, the batch runs as a whole, unless layers
that follow move more again, as in networks from image to image: what both sorts cost decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.ir.graph import Graph, Node
from weft.plan.images import images_of
from weft.surgery.batch_loop import FRONT, batch_size, looped, members_in
from weft.surgery.members import MemberPlace
from weft.targets.target import Target

STREAMED = 8
"""Bytes of weights that cost as much as a byte of activations.

VGG-16's last convolutions at 14 by 14, of 12, are better run for the whole batch, BERT's products
of 128 rows, of 5, image by image (Zen 5).
"""
HANDED = 4
"""Of what the layers of a loop move, it may hand out one part of so many."""


def loop_values(graph: Graph, target: Target) -> tuple[str, ...]:
    """The values that a loop over the images hands out; none where there is to be no loop.

    Args:
        graph: as it is planned, of static types.
        target: the machine; without caches there is no loop.
    """
    if not target.caches or batch_size(graph) < 2:
        return ()
    places = members_in(graph)
    # A layer of a tensor without elements moves nothing.
    layers = [node for node in graph.nodes if _weights(graph, node) and _moved(graph, node)]
    ratios = {batch_size(graph) * _weights(graph, node) / _moved(graph, node) for node in layers}
    parts = [
        _part(graph, places, limit)
        for limit in (STREAMED, *sorted(ratio for ratio in ratios if ratio > STREAMED))
    ]
    inside, values = min(parts, key=lambda part: _cost(graph, layers, part[0]))
    moved = [_moved(graph, node) for node in layers if inside.issuperset(node.outputs)]
    if max(moved, default=0) <= target.caches[-1]:
        return ()
    handed = sum(graph.types[value].bytes for value in values)
    return values if HANDED * handed <= sum(moved) else ()


def image_loop(graph: Graph, values: tuple[str, ...]) -> Graph:
    """The graph with a loop over the images that hands out some values.

    Without values, and where it has not all of them, it stays as it is.
    """
    if not values or not graph.producers.keys() >= set(values):
        return graph
    images = images_of(graph)
    wide = {value for value in values if len(graph.types[value].shape) > 2}
    return looped(graph, values, (wide & images) - {*graph.outputs})


def _part(
    graph: Graph, places: Mapping[str, MemberPlace], limit: float
) -> tuple[set[str], tuple[str, ...]]:
    """What a loop makes of layers of so many weights at the most, and what it hands out."""
    places = dict(places)
    while True:
        inside = _inside(graph, places, limit)
        values = _handed_out(graph, inside)
        behind = [value for value in values if places[value] != FRONT]
        if not behind:
            return inside, values
        for value in behind:  # a loop puts members in front
            del places[value]


def _inside(graph: Graph, places: Mapping[str, MemberPlace], limit: float) -> set[str]:
    """What is made of images alone by layers of few weights.

    Args:
        graph: of a batch.
        places: where values have their members.
        limit: bytes of weights that all images read, for each byte that a layer moves.
    """
    batch = batch_size(graph)
    found = set(graph.inputs)
    for node in graph.nodes:
        made = [value for value in node.outputs if value]
        kept = all(value in places for value in made)
        read = [value for value in node.inputs if value in places]
        if not (made and read and kept and found.issuperset(read)):
            continue
        if batch * _weights(graph, node) <= limit * _moved(graph, node):
            found.update(made)
    return found


def _cost(graph: Graph, layers: Sequence[Node], inside: set[str]) -> float:
    """What is read from afar: weights by every image of a loop, activations behind it."""
    batch = batch_size(graph)
    return sum(
        batch * _weights(graph, node) / STREAMED
        if inside.issuperset(node.outputs)
        else _moved(graph, node)
        for node in layers
    )


def _handed_out(graph: Graph, inside: set[str]) -> tuple[str, ...]:
    """Of what is made inside, what is asked for outside."""
    outside = [node for node in graph.nodes if not inside.issuperset(node.outputs)]
    asked = {*graph.outputs, *(value for node in outside for value in node.inputs)}
    made = [value for node in graph.nodes for value in node.outputs]
    return tuple(value for value in made if value in asked and value in inside)


def _weights(graph: Graph, node: Node) -> int:
    """Bytes of constants that a node reads."""
    return sum(graph.types[value].bytes for value in node.inputs if value in graph.constants)


def _moved(graph: Graph, node: Node) -> int:
    """Bytes of all else that it reads and writes, for the whole batch."""
    values = [value for value in (*node.inputs, *node.outputs) if value]
    return sum(graph.types[value].bytes for value in values if value not in graph.constants)
