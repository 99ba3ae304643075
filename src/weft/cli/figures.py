"""``weft stats`` and ``weft plan``: figures of the graph and of its plan."""

from __future__ import annotations

from pathlib import Path

import click

from weft.atomic import write_text
from weft.cli.common import (
    Model,
    State,
    json_option,
    model_options,
    table,
    target_option,
    working,
    write_json,
)
from weft.pictures.memory import memory_map
from weft.plan.report import HEADINGS, cells, report, size, spans, summary
from weft.plan.stats import LayerStats

_STATS = ("node", "op", "makes", "MACs", "other ops", "parameters", "weights", "read", "written")


def _figures(layer: LayerStats) -> tuple[str, ...]:
    return (
        layer.name,
        layer.op,
        layer.output,
        f"{layer.macs:,}",
        f"{layer.operations:,}",
        f"{layer.parameters:,}",
        size(layer.weight_bytes),
        size(layer.read_bytes),
        size(layer.written_bytes),
        f"{layer.intensity:.2f}",
        size(layer.live_bytes),
    )


@click.command(short_help="Operations, parameters and bytes of every layer.")
@model_options
@click.option("--raw", is_flag=True, help="Of the model as it was imported, before any rule.")
@json_option
@click.pass_obj
def stats(state: State, model: Model, raw: bool) -> None:
    """Counts what every layer of MODEL computes, reads, writes and keeps live.

    MACs are multiply-accumulates. Intensity is arithmetic operations (two for each MAC)
    over bytes read and written. Live is what must exist while a layer runs, one layer at a
    time; `weft plan` says what is really needed once layers are fused.
    """
    with working("counting"):
        net = model.net if raw else model.net.simplified()
        found = net.stats()
    if state.json:
        write_json({"model": net.graph.name, **found.record()})
        return
    headings = (*_STATS, "intensity", "live")
    table(headings, [_figures(layer) for layer in found.layers], range(3, len(headings)))
    click.echo(
        f"\n{len(found.layers)} layers; {found.macs:,} MACs and {found.operations:,} other "
        f"operations; {found.parameters:,} parameters in {found.weight_bytes:,} bytes; "
        f"at most {found.peak_bytes:,} bytes live"
    )


@click.command(short_help="Steps, kernels and memory for a target.")
@model_options
@target_option
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the memory map to this file: steps across, addresses up.",
)
@json_option
@click.pass_obj
def plan(state: State, model: Model, target: str, svg: Path | None) -> None:
    """Prints how MODEL runs on a target.

    For every step: the ops that it does, what makes its loops, what it reads and writes and
    where that lies, and the bytes of the arena in use. The last line has the arena's size
    beside the lower bound, which no placement in this order can beat.
    """
    with working("planning"):
        made = model.net.plan(target)
        found = report(made)
    if svg is not None:
        title = f"{found.name} for {target}"
        picture = memory_map(
            title, spans(made), len(made.steps), found.arena_bytes, found.lower_bound
        )
        write_text(svg, picture)
    if state.json:
        write_json({"target": target, **found.record()})
        return
    table(HEADINGS, [cells(row) for row in found.rows], (0, len(HEADINGS) - 1))
    click.echo(f"\n{summary(found)}")
    if svg is not None:
        click.echo(f"memory map: {svg}")
