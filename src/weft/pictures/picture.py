"""Pictures of graphs: as SVG, as text for Graphviz, as a page."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias, get_args

from weft.errors import UserError
from weft.ir.graph import Graph
from weft.pictures.dot import dot
from weft.pictures.marks import marks_of
from weft.pictures.page import html
from weft.pictures.scene import placed, scene
from weft.pictures.svg import svg

Format: TypeAlias = Literal["svg", "dot", "html"]
FORMATS: tuple[str, ...] = get_args(Format)


def draw(
    graph: Graph,
    *,
    highlight: Mapping[str, Collection[str]] | None = None,
    format: Format = "svg",
    title: str = "",
    measured: Mapping[str, float] | None = None,
) -> str:
    """A picture of a graph: nodes by kind of op, shapes beside the wires.

    Args:
        graph: what is drawn.
        highlight: names of nodes to mark, by a caption for the legend: the matches of a
            query, say.
        format: ``svg``, ``dot`` for Graphviz, or ``html`` for a page that zooms, folds,
            searches and shows attributes, types, provenance and histograms of weights.
        title: stands above; the graph's name if not given.
        measured: microseconds that nodes take, by name: a page can colour them by that, beside
            what they compute and move.
    """
    if format not in FORMATS:
        raise UserError(f"a picture must be one of {', '.join(FORMATS)}", got=str(format))
    marks = marks_of(graph, highlight or {})
    heading = title or graph.name
    if format == "dot":
        return dot(scene(graph), heading, marks)
    if format == "html":
        return html(placed(scene(graph)), heading, marks, measured)
    return svg(placed(scene(graph)), heading, marks)
