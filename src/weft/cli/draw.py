"""``weft draw``: a picture of the graph after any pass."""

from __future__ import annotations

from pathlib import Path
from typing import cast, get_args

import click

from weft.atomic import write_text
from weft.cli.common import Model, State, json_option, model_options, working, write_json
from weft.cli.show import GRAPHS, IMPORTED, graphs
from weft.errors import UserError
from weft.pictures.picture import Format
from weft.pictures.picture import draw as draw_graph


def format_of(path: Path) -> Format:
    """What a file's name says of the picture in it."""
    found = path.suffix[1:].lower()
    if found not in get_args(Format):
        endings = ", ".join(f".{each}" for each in get_args(Format))
        raise UserError(f"a picture is written as {endings}", got=path.name)
    return cast(Format, found)


@click.command(short_help="A picture of the graph after any pass.")
@model_options
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file: .svg, .html (folds, searches, shows all details), or .dot for Graphviz.",
)
@click.option(
    "--after",
    type=click.Choice(GRAPHS),
    default=IMPORTED,
    show_default=True,
    help="The pass after which to look, as for `weft show`.",
)
@json_option
@click.pass_obj
def draw(state: State, model: Model, output: Path, after: str) -> None:
    """Draws MODEL: nodes by kind of op, shapes beside the wires."""
    format = format_of(output)
    with working("drawing"):
        graph = dict(graphs(model.net.graph))[after] if after != IMPORTED else model.net.graph
        write_text(output, draw_graph(graph, format=format))
    if state.json:
        write_json({"file": output, "pass": after, "nodes": len(graph.nodes)})
    else:
        click.echo(f"{output}: {len(graph.nodes)} nodes after {after}")
