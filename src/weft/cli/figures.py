"""``weft stats``: figures of the graph."""

from __future__ import annotations

from collections.abc import Mapping

import click

from weft.cli.model import Model, model_options
from weft.cli.options import json_option, wide_option
from weft.cli.output import CommandState, say, table, working, write_json
from weft.ir.short_names import names_of
from weft.plan.report import size
from weft.plan.stats import LayerStats

_STATS = ("node", "op", "makes", "MACs", "other ops", "parameters", "weights", "read", "written")


# What goes first where the terminal is too narrow.
_STATS_DROP = ("other ops", "read", "written", "weights", "intensity", "live", "parameters", "op")


def _figures(layer: LayerStats, names: Mapping[str, str]) -> tuple[str, ...]:
    return (
        names[layer.name],
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


@click.command()
@model_options
@click.option("--raw", is_flag=True, help="Use the imported model, before any rewriting.")
@wide_option
@json_option
@click.pass_obj
def stats(state: CommandState, model: Model, raw: bool) -> None:
    """Counts operations, parameters, and bytes read, written and live for every layer of MODEL.

    MACs are multiply-accumulates. Intensity is arithmetic operations (two for each MAC) per byte
    read and written. Live bytes are those that must exist while a layer runs, one layer at a time;
    `weft plan` shows the memory needed after fusion.
    """
    with working("counting"):
        net = model.net if raw else model.net.simplified()
        found = net.stats()
    if state.json:
        write_json({"model": net.graph.name, **found.record()})
        return
    headings = (*_STATS, "intensity", "live")
    names = names_of(net.graph)
    rows = [_figures(layer, names) for layer in found.layers]
    table(headings, rows, range(3, len(headings)), _STATS_DROP)
    say(
        f"\n{len(found.layers)} layers; {found.macs:,} MACs and {found.operations:,} other "
        f"operations; {found.parameters:,} parameters in {found.weight_bytes:,} bytes; "
        f"at most {found.peak_bytes:,} bytes live"
    )
