"""Which part of a network runs image by image where it is given several at once.

With one layer after the other for the whole batch, what one hands to the next is written far
away and read from there; image by image it stays in a core's own caches, and all layers are cut
as they are for one image.  What that costs is weights, which every image reads again.  They come
in one stream that is fetched ahead, so a layer may have several times as many as it moves of
activations.  Behind the first layers that have more, the batch runs as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    places = dict(members_in(graph))
    while True:
        inside = _inside(graph, places)
        values = _handed_out(graph, inside)
        behind = [value for value in values if places[value] != FRONT]
        if not behind:
            break
        for value in behind:  # a loop puts members in front
            del places[value]
    layers = [
        _moved(graph, node)
        for node in graph.nodes
        if inside.issuperset(node.outputs) and _weights(graph, node)
    ]
    if max(layers, default=0) <= target.caches[-1]:
        return ()
    handed = sum(graph.types[value].bytes for value in values)
    return values if HANDED * handed <= sum(layers) else ()


def image_loop(graph: Graph, values: tuple[str, ...]) -> Graph:
    """The graph with a loop over the images that hands out some values.

    Without values, and where it has not all of them, it stays as it is.
    """
    if not values or not graph.producers.keys() >= set(values):
        return graph
    images = images_of(graph)
    wide = {value for value in values if len(graph.types[value].shape) > 2}
    return looped(graph, values, (wide & images) - {*graph.outputs})


def _inside(graph: Graph, places: Mapping[str, MemberPlace]) -> set[str]:
    """What is made of images alone by layers of few weights."""
    batch = batch_size(graph)
    found = set(graph.inputs)
    for node in graph.nodes:
        made = [value for value in node.outputs if value]
        kept = all(value in places for value in made)
        read = [value for value in node.inputs if value in places]
        if not (made and read and kept and found.issuperset(read)):
            continue
        if batch * _weights(graph, node) <= STREAMED * _moved(graph, node):
            found.update(made)
    return found


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
