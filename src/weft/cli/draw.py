"""``weft draw``: a picture of the graph after any pass, or of the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast, get_args

import click

from weft.cli.layers import profiled
from weft.cli.model import Model, model_options
from weft.cli.options import NEW_FILE, Function, json_option, options, output_option
from weft.cli.output import CommandState, working, write_json
from weft.cli.show import IMPORTED, graph_option, graphs
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ops.table import OPS
from weft.options import Options
from weft.pictures.file import is_png, write_picture
from weft.pictures.picture import Format, draw_plan
from weft.pictures.picture import draw as draw_graph
from weft.pictures.planned import PLAN_LEVELS, PlanLevel
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


@click.command()
@model_options
@output_option("The file: .svg, .png, .html (interactive), or .dot for Graphviz.", required=True)
@click.option(
    "--level",
    type=click.Choice(["nodes", *PLAN_LEVELS]),
    default="nodes",
    show_default=True,
    help="Nodes of the graph; groups of nodes that one kernel of the plan computes, with the "
    "alternatives; or the loops of these kernels, too.",
)
@graph_option
@options(
    "target",
    "threads",
    "exact",
    "plain",
    "tune",
    "libraries",
    "encoding",
    "precision",
    "keep_float32",
    "max_rounding",
    "optimize",
    "plan",
)
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
    state: CommandState,
    model: Model,
    output: Path,
    level: str,
    after: str,
    options: Options,
    width: int | None,
    timed: bool,
) -> None:
    """Draws MODEL: nodes coloured by kind of op, with the shapes of values.

    With --level groups, the plan: a box for each kernel, with the alternatives and their estimated
    cycles; with --level loops, the loops of each kernel stand under it, within one another and
    coloured by how they run. The target and the other options of planning are for these levels.

    A page (.html) can colour nodes by operations, by bytes moved, and with --time by measured
    time, steps of a plan by estimated cycles, and can save the picture as PNG.
    """
    format = format_of(output)
    if width is not None and not is_png(output):
        raise UserError("--width is for .png", got=output.name)
    if level != "nodes":
        _draw_plan(state, model, output, cast(PlanLevel, level), options, width, timed, after)
        return
    if options != Options():
        raise UserError("options of planning are for --level groups and loops", got="--level nodes")
    if timed and format != "html":
        raise UserError("--time requires an .html page", got=output.name)
    with working("drawing"):
        graph = dict(graphs(model.net.graph))[after] if after != IMPORTED else model.net.graph
    measured = _measured(model, graph) if timed else None
    with working("drawing"):
        write_picture(output, draw_graph(graph, format=format, measured=measured), width)
    if state.json:
        write_json({"file": output, "pass": after, "nodes": len(graph.nodes)})
    else:
        click.echo(f"{output}: {len(graph.nodes)} nodes after {after}")


def _draw_plan(
    state: CommandState,
    model: Model,
    output: Path,
    level: PlanLevel,
    options: Options,
    width: int | None,
    timed: bool,
    after: str,
) -> None:
    if timed or after != IMPORTED:
        raise UserError("--time and --after are for --level nodes", got=f"--level {level}")
    with working("planning"):
        plan = model.net.plan(options=options)
    with working("drawing"):
        write_picture(output, draw_plan(plan, level=level, format=format_of(output)), width)
    if state.json:
        write_json({"file": output, "level": level, "steps": len(plan.steps)})
    else:
        click.echo(f"{output}: {len(plan.steps)} steps")
