"""Pictures of graphs and plans: as SVG, as text for Graphviz, as a page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from weft.errors import UserError
from weft.ir.graph import Graph
from weft.pictures.dot import dot
from weft.pictures.marks import Mark, marks_of
from weft.pictures.page import html
from weft.pictures.planned import PLAN_LEVELS, PlanLevel, planned_scene
from weft.pictures.scene import Scene, placed, scene
from weft.pictures.svg import svg
from weft.plan.plan import Plan

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
    marks = marks_of(graph, highlight or {})
    return _drawn(scene(graph), format, title or graph.name, marks, measured)


def draw_plan(
    plan: Plan, *, level: PlanLevel = "groups", format: Format = "svg", title: str = ""
) -> str:
    """A picture of a plan: a box for each kernel, with the nodes that it fuses.

    Args:
        plan: what is drawn.
        level: ``groups`` shows the alternatives with their estimates, the chosen one first;
            ``loops`` also the loops of the kernels, within one another.
        format: ``svg``, ``dot`` for Graphviz, or ``html`` for a page.
        title: stands above; the graph's name if not given.
    """
    if level not in PLAN_LEVELS:
        raise UserError(f"a plan is drawn at level {' or '.join(PLAN_LEVELS)}", got=str(level))
    return _drawn(planned_scene(plan, level), format, title or plan.graph.name)


def _drawn(
    what: Scene,
    format: Format,
    heading: str,
    marks: Sequence[Mark] = (),
    measured: Mapping[str, float] | None = None,
) -> str:
    if format not in FORMATS:
        raise UserError(f"a picture must be one of {', '.join(FORMATS)}", got=str(format))
    if format == "dot":
        return dot(what, heading, marks)
    if format == "html":
        return html(placed(what), heading, marks, measured)
    return svg(placed(what), heading, marks)
