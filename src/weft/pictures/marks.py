"""Nodes that a picture marks, under captions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from weft.errors import UserError, nearest
from weft.ir.graph import Graph
from weft.pictures.canvas import MARKS
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """Nodes that belong together.

    Attributes:
        caption: what they are.
        nodes: their names, in the graph's order.
        colour: of their frames.
    """

    caption: str
    nodes: tuple[str, ...]
    colour: str


def marks_of(graph: Graph, highlight: Mapping[str, Collection[str]]) -> tuple[Mark, ...]:
    """The marks of a picture.

    Args:
        graph: what is drawn.
        highlight: names of nodes by caption.
    """
    found: list[Mark] = []
    for place, (caption, names) in enumerate(highlight.items()):
        for name in names:
            if name not in graph.by_name:
                raise UserError(
                    "what is highlighted must be nodes of the graph",
                    got=name,
                    fix=nearest(name, graph.by_name, 1),
                )
        wanted = set(names)
        nodes = tuple(node.name for node in graph.nodes if node.name in wanted)
        found.append(Mark(caption, nodes, MARKS[place % len(MARKS)]))
    return tuple(found)
