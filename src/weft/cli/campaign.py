"""``weft campaign``: how often damage or compression changes what a network says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from weft import campaigns
from weft.cli.draw import svg_option
from weft.cli.model import Model, model_options
from weft.cli.options import (
    ALL_CORES,
    json_option,
    options,
    samples_option,
    seed_option,
    wide_option,
)
from weft.cli.output import CommandState, table, write_json
from weft.cli.tune import watched
from weft.errors import UserError
from weft.options import Options
from weft.pictures.file import write_picture
from weft.recipes import parse_steps


@click.command()
@model_options
@click.argument("step", nargs=-1, required=True, metavar="RECIPE [KEY=VALUE[,VALUE]...]...")
@click.option(
    "--trials",
    type=click.IntRange(1),
    help="Trials for each combination of parameters [default: 100].",
)
@seed_option("Seed of the first trial.")
@samples_option
@click.option("--per-layer", is_flag=True, help="Repeat the campaign for each tensor separately.")
@svg_option("Plot the shares of changed predictions to this file.")
@options("threads", threads=ALL_CORES)
@wide_option
@json_option
@click.pass_obj
def campaign(
    state: CommandState,
    model: Model,
    step: Sequence[str],
    trials: int | None,
    seed: int,
    data: str | None,
    per_layer: bool,
    svg: Path | None,
    options: Options,
) -> None:
    """Applies RECIPE to MODEL repeatedly with different seeds, and runs each variant.

    Comma-separated values of parameters are tried in all combinations: `weft campaign net.onnx
    fault-weights count=1,10,100 --data images.npz`. The weights are inputs of one build, so a
    trial needs no compilation. Intervals are Wilson intervals at 95 %.
    """
    steps = parse_steps(step)
    if len(steps) != 1:
        raise UserError("a campaign takes one recipe", got=", ".join(name for name, _ in steps))
    ((recipe, values),) = steps
    with watched() as report:
        found = campaigns.campaign(
            model.net,
            recipe,
            grid=campaigns.parse_grid(recipe, values),
            trials=trials,
            seed=seed,
            data=data,
            per_layer=per_layer,
            threads=options.threads,
            report=report,
        )
    if svg is not None:
        write_picture(svg, found.plot())
    if state.json:
        write_json(found.record())
        return
    headings = found.headings()
    table(headings, found.rows(), range(2 if found.layers else 1, len(headings)))
    click.echo(found.summary())
    if svg is not None:
        click.echo(f"plot: {svg}")
