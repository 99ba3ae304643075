"""``weft stats`` and ``weft plan``: figures of the graph and of its plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from weft.cli.common import (
    Model,
    State,
    json_option,
    model_options,
    say,
    table,
    target_option,
    wide_option,
    working,
    write_json,
)
from weft.cli.draw import svg_option
from weft.ir.short_names import names_of
from weft.pictures.file import write_picture
from weft.pictures.memory import memory_map
from weft.plan.report import Place, Row, report, size, spans, summary
from weft.plan.stats import LayerStats

_STATS = ("node", "op", "makes", "MACs", "other ops", "parameters", "weights", "read", "written")


# What goes first where the terminal is too narrow.
_STATS_DROP = ("other ops", "read", "written", "weights", "intensity", "live", "parameters", "op")
_PLAN_DROP = ("reads", "in place of", "scratch", "makes", "scheme")
_PLAN = ("step", "does", "scheme", "reads", "writes", "makes", "at", "in place of")
_PLAN_NUMBERS = ("step", "scratch", "live")


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


def _step(row: Row, names: Mapping[str, str]) -> tuple[str, ...]:
    return (
        str(row.step),
        " + ".join(row.ops),
        row.scheme,
        ", ".join(
            f"{names[each.value]} {_at(each)}" for each in row.reads if each.region != "weights"
        ),
        ", ".join(names[each.value] for each in row.writes),
        ", ".join(each.type for each in row.writes),
        ", ".join(_at(each) for each in row.writes),
        names[row.in_place] if row.in_place else "",
        size(row.scratch) if row.scratch else "",
        size(row.live),
    )


def _at(place: Place) -> str:
    return f"{place.region}+{place.offset}" if place.region == "arena" else place.region


@click.command(short_help="Operations, parameters and bytes of every layer.")
@model_options
@click.option("--raw", is_flag=True, help="Of the model as it was imported, before any rule.")
@wide_option
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
    names = names_of(net.graph)
    rows = [_figures(layer, names) for layer in found.layers]
    table(headings, rows, range(3, len(headings)), _STATS_DROP)
    say(
        f"\n{len(found.layers)} layers; {found.macs:,} MACs and {found.operations:,} other "
        f"operations; {found.parameters:,} parameters in {found.weight_bytes:,} bytes; "
        f"at most {found.peak_bytes:,} bytes live"
    )


@click.command(short_help="Steps, kernels and memory for a target.")
@model_options
@target_option
@svg_option("Draw the memory map to this file: steps across, addresses up.")
@wide_option
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
            title, spans(made), len(made.steps), found.arena_bytes, found.lower_bound, found.rows
        )
        write_picture(svg, picture)
    if state.json:
        write_json({"target": target, **found.record()})
        return
    names = names_of(made.graph, made.types)
    headings = (*_PLAN, "scratch", "live")
    rows = [_step(row, names) for row in found.rows]
    # What no step has is not worth a column.
    kept = [
        place
        for place, heading in enumerate(headings)
        if heading not in ("in place of", "scratch") or any(row[place] for row in rows)
    ]
    headings = tuple(headings[place] for place in kept)
    numbers = [place for place, heading in enumerate(headings) if heading in _PLAN_NUMBERS]
    table(headings, [[row[place] for place in kept] for row in rows], numbers, _PLAN_DROP)
    say(f"\n{summary(found)}")
    if svg is not None:
        say(f"memory map: {svg}")
