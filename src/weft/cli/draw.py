"""``weft draw``: a picture of the graph after any pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast, get_args

import click

from weft.cli.layers import profiled
from weft.cli.model import Model, model_options
from weft.cli.options import NEW_FILE, Function, json_option, output_option
from weft.cli.output import CommandState, working, write_json
from weft.cli.show import IMPORTED, graph_option, graphs
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ops.table import OPS
from weft.options import Options
from weft.pictures.file import is_png, write_picture
from weft.pictures.picture import Format
from weft.pictures.picture import draw as draw_graph
from weft.runtime.profile import node_times


def format_of(path: Path) -> Format:
    """What a file's name says of the picture in it; PNG is made of SVG."""
    if is_png(path):
        return "svg"
    found = path.suffix[1:].lower()
    if found not in get_args(Format):
        endings = ", ".join(f".{each}" for each in (*get_args(Format), "png"))
        raise UserError(f"a picture is written as {endings}", got=path.name)
    return cast(Format, found)


def _measured(model: Model, graph: Graph) -> dict[str, float]:
    """Microseconds of each node on this machine, one thread."""
    return node_times(profiled(model, Options(), seconds=1.0), graph, OPS)


def _svg(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    if path is not None:
        is_png(path)  # so that nothing is measured in vain
    return path


def svg_option(help: str) -> Callable[[Function], Function]:
    """``--svg FILE``: a picture of what a command finds."""
    return click.option("--svg", type=NEW_FILE, callback=_svg, help=help)


@click.command(short_help="Draw the graph after any pass.")
@model_options
@output_option("The file: .svg, .png, .html (interactive), or .dot for Graphviz.", required=True)
@graph_option
@click.option(
    "--width",
    type=click.IntRange(1),
    help="For .png: width in pixels [default: twice the natural width].",
)
@click.option(
    "--time",
    "timed",
    is_flag=True,
    help="For .html: measure the time of each node on this machine, for colouring.",
)
@json_option
@click.pass_obj
def draw(
    state: CommandState, model: Model, output: Path, after: str, width: int | None, timed: bool
) -> None:
    """Draws MODEL: nodes coloured by kind of op, with the shapes of values.

    A page (.html) can colour nodes by operations, by bytes moved, and with --time by measured
    time, and can save the picture as PNG.
    """
    format = format_of(output)
    if timed and format != "html":
        raise UserError("--time requires an .html page", got=output.name)
    if width is not None and not is_png(output):
        raise UserError("--width is for .png", got=output.name)
    with working("drawing"):
        graph = dict(graphs(model.net.graph))[after] if after != IMPORTED else model.net.graph
    measured = _measured(model, graph) if timed else None
    with working("drawing"):
        write_picture(output, draw_graph(graph, format=format, measured=measured), width)
    if state.json:
        write_json({"file": output, "pass": after, "nodes": len(graph.nodes)})
    else:
        click.echo(f"{output}: {len(graph.nodes)} nodes after {after}")
