"""How people look at a network: queries, pictures, figures, and a check of every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Unpack

from weft import pictures
from weft.api.matched import highlighted, replace_matches
from weft.api.network import N, Network, bound
from weft.api.planned import made_plan
from weft.errors import UserError
from weft.match.conditions import Predicate
from weft.match.query import SECONDS, Matches, Overlaps, Weight
from weft.match.query import query as ask
from weft.ops.table import OPS
from weft.options import Options, PlanKeywords, chosen
from weft.plan.stats import GraphStats
from weft.plan.stats import stats as stats_of
from weft.rewrite.float_layers import FloatLayer
from weft.rewrite.float_layers import float_layers as layers_in_float
from weft.surgery.chosen import Nodes
from weft.surgery.part import Part
from weft.targets.target import Target

MOST_SHOWN = 300
"""A notebook shows the picture of a net of at most so many nodes by itself."""


def float_layers(net: Network) -> tuple[FloatLayer, ...]:
    """What a quantized net computes in float, and why; nothing where nothing is quantized."""
    return layers_in_float(net.graph)


def query(
    net: Network,
    text: str,
    *,
    overlaps: Overlaps = "all",
    predicates: Mapping[str, Predicate] | None = None,
    seconds: float = SECONDS,
    weight: Weight | None = None,
) -> Matches:
    """Finds matches of a query in the graph.

    Args:
        text: the query, in the language of ``docs/query.md``.
        overlaps: ``all``, ``every``, ``greedy`` or ``best``: which matches are wanted where
            they overlap.
        predicates: conditions in Python, ``predicate(subject, *arguments)``, by the names
            that the query calls them.
        seconds: for how long ``best`` looks for the best set.
        weight: of a match for ``best``; by default the number of its nodes.

    Returns:
        The matches, in the order of the graph.
    """
    found = ask(
        net.graph,
        text,
        overlaps=overlaps,
        predicates=predicates,
        seconds=seconds,
        weight=weight,
    )
    found.elsewhere = lambda: _elsewhere(net, text, predicates)
    return found


def _elsewhere(net: Network, text: str, predicates: Mapping[str, Predicate] | None) -> str:
    """Whether a query that does not match here does after simplification."""
    graph = net.simplification[0]
    try:
        found = ask(graph, text, overlaps="greedy", predicates=predicates)
    except UserError:
        return ""
    count = len(found)
    text = "1 match" if count == 1 else f"{count} matches"
    return f"{text} after simplification: ask net.simplified()" if count else ""


def replace_all(
    net: N,
    query: str | Matches,
    function: Part,
    *,
    overlaps: Overlaps = "greedy",
    predicates: Mapping[str, Predicate] | None = None,
) -> N:
    """With something else wherever a query matches, all in one pass.

    Args:
        query: in the language of ``docs/query.md``, or matches that share no nodes.
        function: what comes, as for ``replace``: a graph, a net, or a function of the
            values that the nodes of a match read (``match.inputs``, in order), which
            gives what they give (``match.outputs``).  Where its first parameter is called
            ``match``, it gets the match first.
        overlaps: ``greedy`` or ``best``: which matches are taken where they overlap.
        predicates: as for ``query``.

    Raises:
        UserError: a match cannot be replaced; nothing is replaced then.
    """
    found = query
    if isinstance(found, str):
        found = ask(net.graph, found, overlaps=overlaps, predicates=predicates)
    return net.with_graph(replace_matches(net.graph, found, function))


def draw(
    net: Network,
    *,
    highlight: Mapping[str, Nodes] | Nodes | None = None,
    format: pictures.Format = "svg",
    title: str = "",
    level: Literal["nodes"] | pictures.PlanLevel = "nodes",
    target: str | Target = "",
    options: Options | None = None,
    **keywords: Unpack[PlanKeywords],
) -> str:
    """A picture of the graph, or of its plan.

    Args:
        highlight: nodes to mark, by caption or without: names, nodes, or matches.
        format: ``svg``, ``dot`` for Graphviz, or ``html`` for a page that zooms, folds,
            searches and shows all details.
        title: stands above; the graph's name if not given.
        level: ``nodes`` of the graph; ``groups`` of nodes that one kernel computes, with the
            alternatives; ``loops`` of these kernels, too.
        target: of the plan; this machine if not given.
        options: of the plan; see ``weft.Options``.
        keywords: options.

    Raises:
        UserError: nodes are to be marked in a plan, or options were given without one.
    """
    if level != "nodes":
        if highlight is not None:
            raise UserError("nodes are highlighted at level nodes", got=f"level {level}")
        given = chosen(PlanKeywords, options, keywords, target=target)
        return pictures.draw_plan(made_plan(net, given), level=level, format=format, title=title)
    if target or options is not None or keywords:
        raise UserError(
            "target and options are of plans", got="level nodes", fix="Draw level groups or loops."
        )
    marked = highlighted(net.graph, highlight)
    return pictures.draw(net.graph, highlight=marked, format=format, title=title)


def notebook_picture(net: Network) -> str | None:
    """What a notebook shows, unless there is too much of it."""
    return draw(net) if len(net.graph.nodes) <= MOST_SHOWN else None


def stats(net: Network) -> GraphStats:
    """What every node computes, reads, writes and keeps live."""
    return stats_of(bound(net).graph, OPS)
