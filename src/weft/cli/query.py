"""``weft query``: where a network is as a query says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast, get_args

import click

from weft.cli.draw import format_of
from weft.cli.model import Model, model_options
from weft.cli.options import NEW_FILE, Number, json_option, wide_option
from weft.cli.output import CommandState, working, write_json, write_lines
from weft.cli.show import GRAPHS, IMPORTED, graph_option, graphs
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.printer import show_node
from weft.ir.short_names import names_of, shortened
from weft.match.query import SECONDS, Matches, Overlaps, Query
from weft.match.view import Match
from weft.pictures.canvas import clean
from weft.pictures.file import write_picture
from weft.pictures.picture import draw

_MOST_MARKS = 8


def _record(match: Match) -> dict[str, object]:
    return {
        "nodes": [node.name for node in match.nodes],
        "inputs": match.inputs,
        "outputs": match.outputs,
        "values": dict(match.values),
        "named": {name: node.name for name, node in match.named.items()},
        "lists": dict(match.lists),
    }


def _names(match: Match, names: Mapping[str, str]) -> str:
    """What the names of a query stand for, on one line."""
    found: dict[str, Sequence[str]] = {name: (node.name,) for name, node in match.named.items()}
    found |= {name: (value,) if value else () for name, value in match.values.items()}
    found |= match.lists
    told = {
        name: ", ".join(names[each] for each in all) or "nothing" for name, all in found.items()
    }
    return "; ".join(f"{name}: {told[name]}" for name in sorted(told))


@click.command()
@model_options
@click.argument("text")
@click.option(
    "--overlaps",
    type=click.Choice(get_args(Overlaps)),
    default="all",
    show_default=True,
    help="all: the longest of matches that differ only in repetitions; every: all of "
    "these, too; greedy: skip matches that share a node with an earlier one; best: "
    "disjoint matches that cover the most nodes.",
)
@click.option(
    "--seconds",
    default=SECONDS,
    type=Number(above=True),
    show_default=True,
    help="Time limit for best.",
)
@graph_option
@click.option(
    "--draw",
    "picture",
    type=NEW_FILE,
    help="Draw the graph with highlighted matches: .svg, .png, .html or .dot.",
)
@wide_option
@json_option
@click.pass_obj
def query(
    state: CommandState,
    model: Model,
    text: str,
    overlaps: str,
    seconds: float,
    after: str,
    picture: Path | None,
) -> None:
    """Prints the matches of the query TEXT in MODEL (see docs/query.md).

    Long names are shortened as in tables, except with --wide and --json.
    """
    asked = Query.read(text)
    format = None if picture is None else format_of(picture)
    with working("matching"):
        graph = model.net.graph
        if after != IMPORTED:
            graph = dict(graphs(graph))[after]
        found = asked.matches(graph, overlaps=cast(Overlaps, overlaps), seconds=seconds)
        found.elsewhere = partial(_elsewhere, asked, model.net.graph, after)
        hint = found.hint
    if picture is not None and format is not None:
        with working("drawing"):
            write_picture(picture, draw(graph, highlight=_marked(found, text), format=format))
    if state.json:
        matches = [_record(match) for match in found]
        write_json({"matches": matches, "cut": found.cut, "hint": hint})
        return
    whole = {name: name for name in (*graph.types, *(node.name for node in graph.nodes))}
    _print(found, graph, whole if state.wide else names_of(graph))
    if picture is not None:
        click.echo(f"picture: {picture}")


def _elsewhere(asked: Query, graph: Graph, after: str) -> str:
    """The first later pass after which a query matches that does not match here."""
    for name, later in graphs(graph):
        if GRAPHS.index(name) <= GRAPHS.index(after):
            continue
        try:
            count = len(asked.matches(later, overlaps="greedy"))
        except UserError:
            return ""
        if count:
            text = "1 match" if count == 1 else f"{count} matches"
            return f"{text} after the pass {name}: add --after {name}"
    return ""


def _marked(found: Matches, text: str) -> dict[str, list[str]]:
    """What a picture marks: every match by itself if there are few."""
    names = [[node.name for node in match.nodes] for match in found]
    if len(names) <= _MOST_MARKS:
        return {f"match {place}": each for place, each in enumerate(names, 1) if each}
    return {" ".join(text.split()): [name for each in names for name in each]}


def _print(found: Matches, graph: Graph, names: Mapping[str, str]) -> None:
    """Prints matches, nodes and values under the names that are given."""
    shown = shortened(graph, names)
    places = {node.name: place for place, node in enumerate(graph.nodes)}
    lines: list[str] = []
    for number, match in enumerate(found, 1):
        told = _names(match, names)
        lines.append(f"match {number}{': ' if told else ''}{told}")
        nodes = (shown.nodes[places[node.name]] for node in match.nodes)
        lines += [f"  {show_node(node, shown)}" for node in nodes]
    if lines:
        write_lines("\n".join(lines))
    lines = ["1 match" if len(found) == 1 else f"{len(found)} matches"]
    lines += [each for each in (found.cut, found.hint) if each]
    click.echo(clean("\n".join(lines)))
