"""``weft tune``: measure the alternatives of a network's layers, and remember the best."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace

import click
from rich.markup import escape
from rich.progress import BarColumn

from weft.cli.model import Model, model_options
from weft.cli.options import ALL_CORES, SECONDS, json_option, options, wide_option
from weft.cli.output import CommandState, showing, table, write_json
from weft.options import TUNE_SECONDS, Options
from weft.reporting import progress as listening
from weft.runtime.choices import Choice, Choices
from weft.runtime.timing import microseconds
from weft.runtime.tune import LayerTuning, Report, Tuning


@contextmanager
def watched() -> Generator[Report | None]:
    """A bar for whoever watches."""
    with showing("starting", BarColumn(), total=1.0) as bar:
        if bar is None:
            yield None
            return
        (task,) = bar.task_ids
        with listening(lambda step: bar.update(task, description=escape(str(step)))):
            yield lambda done, what: bar.update(task, completed=done, description=what)


def show_choices(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Lists the database, and ends the command."""
    if not wanted:
        return
    database = Choices()
    found = database.all()
    if ctx.obj.json:
        write_json({"file": str(database.path), "choices": [asdict(each) for each in found]})
        ctx.exit()
    rows = [_listed(each) for each in found]
    table(("layer", "usual", "µs", "chosen", "µs", "measured", "on"), rows, (2, 4))
    click.echo(f"{len(found)} layers in {database.path}")
    ctx.exit()


def _listed(each: Choice) -> tuple[str, ...]:
    day = time.strftime("%Y-%m-%d", time.localtime(each.made))
    return (
        each.what,
        each.usual,
        _number(each.usual_micros),
        each.alternative,
        _number(each.micros),
        day,
        each.machine,
    )


def _number(micros: float) -> str:
    return f"{micros:,.1f}" if micros else ""


def forget_choices(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Empties the database, and ends the command."""
    if not wanted:
        return
    database = Choices()
    count = database.forget()
    if ctx.obj.json:
        write_json({"file": str(database.path), "forgotten": count})
    else:
        click.echo(f"forgot {count} layers in {database.path}")
    ctx.exit()


def _cells(layer: LayerTuning) -> tuple[str, ...]:
    usual, chosen = layer.micros[layer.usual], layer.micros[layer.chosen]
    others = sorted(layer.micros.items(), key=lambda pair: pair[1])
    return (
        layer.what,
        str(layer.count),
        layer.usual,
        f"{usual:,.1f}",
        layer.chosen,
        f"{chosen / usual:.3f}",
        " ".join(f"{name} {micros / usual:.3f}" for name, micros in others),
    )


def _summary(found: Tuning) -> str:
    measured = [each for each in found.layers if each.micros]
    lines = [f"measured {len(measured)} of {len(found.layers)} layers in {found.seconds:.1f} s"]
    if not found.layers:
        lines = ["every layer was measured before; --again measures once more"]
    elif math.isclose(found.untuned, 0.0):
        lines.append("the usual alternatives are the fastest")
    else:
        lines.append(
            f"a run takes {microseconds(found.untuned)} µs untuned, "
            f"{microseconds(found.tuned)} µs tuned, timed within the run, "
            f"{found.untuned / found.tuned:.3f} times as fast"
        )
    if not found.kept:
        lines.append("the network did not get faster as a whole, so all stays as it was")
    return "\n".join(lines)


@click.command()
@model_options
@options(
    "threads",
    "simd",
    "exact",
    "libraries",
    "encoding",
    "precision",
    "keep_float32",
    "max_rounding",
    "optimize",
    threads=ALL_CORES,
)
@click.option(
    "--seconds",
    default=TUNE_SECONDS,
    type=SECONDS,
    show_default=True,
    help="Total measuring time, excluding builds.",
)
@click.option("--again", is_flag=True, help="Repeat the measurement of layers measured before.")
@click.option(
    "--list",
    is_flag=True,
    expose_value=False,
    callback=show_choices,
    help="List all measurements; needs no MODEL.",
)
@click.option(
    "--forget",
    is_flag=True,
    expose_value=False,
    callback=forget_choices,
    help="Clear all measurements; needs no MODEL.",
)
@wide_option
@json_option
@click.pass_obj
def tune(
    state: CommandState,
    model: Model,
    options: Options,
    seconds: float,
    again: bool,
) -> None:
    """Measures the best few alternatives for every layer of MODEL on this machine.

    A database in the cache folder stores the choices by processor, compiler and layer.
    Net.compile(tune="cached"), weft run --tuned and weft bench --tuned use them;
    Net.compile(tune=True) also measures missing ones.
    """
    with watched() as report:
        found = model.source.tune(
            options=replace(options, batch=model.batch),
            again=again,
            seconds=seconds,
            report=report,
        )
    if state.json:
        write_json(asdict(found))
        return
    measured = [each for each in found.layers if each.micros]
    measured.sort(key=lambda each: -each.micros[each.usual])
    headings = ("layer", "steps", "usual", "µs", "chosen", "ratio", "measured")
    if measured:
        table(headings, [_cells(each) for each in measured], (1, 3, 5))
    click.echo(_summary(found))
