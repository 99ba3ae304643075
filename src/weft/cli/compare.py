"""``weft compare``: variants of a network side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import click

from weft import api, variants
from weft.cli.draw import svg_option
from weft.cli.model import parse_shapes, rounding_option, shapes_option
from weft.cli.options import (
    SECONDS,
    json_option,
    options,
    quiet_option,
    samples_option,
    was_given,
    wide_option,
)
from weft.cli.output import CommandState, say, table, working, write_json
from weft.errors import UserError
from weft.explore.comparison import COSTS, Comparison, Cost
from weft.options import Options
from weft.pictures.file import write_picture


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@shapes_option
@rounding_option
@samples_option
@options("batch", "target", "threads", "exact")
@click.option("--no-run", is_flag=True, help="Do not build or run: no latency, no accuracy.")
@click.option(
    "--seconds", default=2.0, type=SECONDS, show_default=True, help="Total seconds of measurement."
)
@svg_option("Plot accuracy (or the difference from the first model) against --cost to this file.")
@click.option("--cost", type=click.Choice(COSTS), help="For --svg [default: latency].")
@quiet_option
@wide_option
@json_option
@click.pass_obj
def compare(
    state: CommandState,
    models: Sequence[Path],
    shapes: Sequence[str],
    rounding: str | None,
    data: str | None,
    options: Options,
    no_run: bool,
    seconds: float,
    svg: Path | None,
    cost: str | None,
) -> None:
    """Compares MODELS with the first of them.

    Peak is the maximum of activation bytes live at once, layer by layer; arena and flash are those
    of the plan for --target. Latency is the median of one run on this machine, called from C in
    rounds in which the models alternate. Difference is the largest deviation from the first
    model's outputs relative to their range, on --data or on random inputs.
    """
    given = parse_shapes(shapes)
    if cost is not None and svg is None:
        raise UserError("--cost requires --svg", fix="Add --svg FILE.")
    if no_run and was_given("seconds"):
        raise UserError("--seconds has no effect with --no-run", got="--no-run")
    with working("comparing"):
        found = variants.compare(
            [api.load(path, given, rounding=rounding or "") for path in models],
            names=[path.stem for path in models],
            data=data,
            options=options,
            run=not no_run,
            seconds=seconds,
        )
    if svg is not None:
        write_picture(svg, found.plot(cast(Cost | None, cost)))
    if state.json:
        write_json(found.record())
        return
    _write(found)
    if svg is not None:
        say(f"plot: {svg}")


# What goes first where the terminal is too narrow.
_DROP = ("nodes", "parameters", "peak", "MACs", "difference", "arena")


def _write(found: Comparison) -> None:
    headings = found.headings()
    table(headings, list(found.rows()), range(1, len(headings)), _DROP)
    click.echo()
    if any(each.timing for each in found.variants):
        say("latency: the median of one run, called from C in a loop\n")
    names = [each.name for each in found.variants]
    table(("op", *names), list(found.topology()), range(1, len(names) + 1))
    click.echo()
    for each in found.variants[1:]:
        say(f"{each.name} against {names[0]}: {each.changes}")
