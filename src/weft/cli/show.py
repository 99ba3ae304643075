"""``weft show``: the graph after any pass, the kernels, the C."""

from __future__ import annotations

from collections.abc import Iterator

import click

from weft.cli.model import Model, model_options
from weft.cli.options import json_option, options, wide_option
from weft.cli.output import CommandState, watched, working, write_json, write_lines
from weft.errors import UserError
from weft.ir.diff import diff
from weft.ir.edit import prune
from weft.ir.graph import Graph
from weft.ir.short_names import names_of, shortened
from weft.ir.text import show as show_graph
from weft.ir.types import Symbol
from weft.loops.nodes import Kernel
from weft.loops.text import show as show_kernel
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.options import Options
from weft.pictures.canvas import clean
from weft.rewrite.engine import rewrite
from weft.rewrite.natives import use_natives
from weft.rewrite.recipes import PIPELINE, pipeline, tidy

IMPORTED, EXPANDED, KERNELS, SOURCE = "import", "expand", "kernels", "c"
GRAPHS = (IMPORTED, *(stage.name for stage in PIPELINE), EXPANDED)
PASSES = (*GRAPHS, KERNELS, SOURCE)


graph_option = click.option(
    "--after",
    type=click.Choice(GRAPHS),
    default=IMPORTED,
    show_default=True,
    help="The pass to use, as in `weft show`.",
)


def graphs(graph: Graph, target: str = "host") -> Iterator[tuple[str, Graph]]:
    """The graph after each pass, first to last."""
    yield IMPORTED, graph
    graph = prune(graph)
    for stage in pipeline():
        graph = stage.before(graph) if stage.before is not None else graph
        graph, _ = rewrite(graph, stage.rules)
        yield stage.name, graph
    yield EXPANDED, tidy(expand(use_natives(graph, target), OPS))


@click.command()
@model_options
@options("target", "flavour", flavour="With --after c: c89, c99 or gnu.")
@click.option(
    "--after",
    type=click.Choice(PASSES),
    default=EXPANDED,
    show_default=True,
    help="The pass to show; `kernels` are loops, `c` is the generated C.",
)
@click.option("--diff", "compare", is_flag=True, help="Print only what changed since --since.")
@click.option(
    "--since",
    type=click.Choice(GRAPHS),
    help="With --diff: the pass to compare with [default: the previous one].",
)
@wide_option
@json_option
@click.pass_obj
def show(
    state: CommandState,
    model: Model,
    options: Options,
    after: str,
    compare: bool,
    since: str | None,
) -> None:
    """Prints MODEL after a pass.

    Each line is a node: its outputs with their types, its op and its inputs. The text parses back
    (see docs/cli.md); on a terminal, long names and lines are shortened.
    """
    if options.flavour and after != SOURCE:
        raise UserError("--flavour is for --after c", got=f"--after {after}")
    if after in (KERNELS, SOURCE):
        if compare or since:
            raise UserError(f"--diff compares graphs: {', '.join(GRAPHS)}", got=f"--after {after}")
        _show_code(state, model, options, after)
        return
    with working("applying rules"):
        found = dict(graphs(model.net.graph, options.machine().name))
    place = GRAPHS.index(after)
    earlier = since or GRAPHS[max(0, place - 1)]
    before, graph = found[earlier], found[after]
    if watched() and not state.json:
        # What files hold can be read back; what people see has short names.
        names = names_of(graph, names_of(before))
        before, graph = shortened(before, names), shortened(graph, names)
    if not compare and since is None:
        _write(state, after, "".join(_open_sizes(model)) + show_graph(graph))
        return
    lines = list(diff(before, graph).lines())
    _write(state, after, "\n".join(lines or [f"no difference since {earlier}"]), lines)


def _open_sizes(model: Model) -> Iterator[str]:
    """What the file leaves open, and how to say it, as comments of the text."""
    readers: dict[str, list[str]] = {}
    for name, type in model.source.inputs.items():
        for dim in type.shape:
            if isinstance(dim, Symbol):
                readers.setdefault(dim.name, []).append(name)
    for symbol, names in readers.items():
        listed = clean(f"{symbol} is open in {', '.join(names)}; here it is {model.batch}")
        yield f"// {listed}. Say --batch SIZE, or in Python net.compile(batch=SIZE).\n"


def _show_code(state: CommandState, model: Model, options: Options, after: str) -> None:
    if after == SOURCE:
        with working("planning and generating"):
            files = model.net.source(options=options)
        pairs = [files.header, *files.private, *files.sources]
        if state.json:
            write_json({"pass": after, "files": dict(pairs)})
            return
        click.echo("\n".join(f"/* ---- {name} ---- */\n{text}" for name, text in pairs))
        return
    with working("planning"):
        functions = model.net.program(options=options).functions
    kernels = [each for each in functions if isinstance(each, Kernel)]
    _write(state, after, "\n\n".join(show_kernel(each) for each in kernels))


def _write(state: CommandState, after: str, text: str, lines: list[str] | None = None) -> None:
    if state.json:
        key = "text" if lines is None else "diff"
        write_json({"pass": after, key: text if lines is None else lines})
    else:
        write_lines(text)
