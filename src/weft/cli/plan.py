"""``weft plan``: how a network runs on a target, as text that parses back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from weft.api.given import text_of
from weft.atomic import write_text
from weft.cli.common import (
    Model,
    State,
    exact_option,
    json_option,
    libraries_option,
    model_options,
    planned_threads_option,
    say,
    table,
    tuned_option,
    wide_option,
    working,
    write_json,
    write_lines,
)
from weft.cli.draw import svg_option
from weft.cli.files import parse_bytes
from weft.cli.layers import choices_for
from weft.codegen.flavours import FLAVOURS, flavour_named
from weft.ir.short_names import names_of
from weft.options import Options
from weft.pictures.file import write_picture
from weft.pictures.memory import memory_map
from weft.plan.diff import diff
from weft.plan.plan import Plan, written
from weft.plan.report import Place, Report, Row, report, size, spans, summary
from weft.targets.table import target as find_target

_PLAN_DROP = ("reads", "in place of", "scratch", "makes", "scheme")
_PLAN = ("step", "does", "scheme", "reads", "writes", "makes", "at", "in place of")
_PLAN_NUMBERS = ("step", "scratch", "live")


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
    counted = place.region in ("arena", "state")
    return f"{place.region}+{place.offset}" if counted else place.region


@click.command(short_help="Steps, kernels and memory for a target.")
@model_options
@click.option("--target", default="", help="The machine (see `weft targets`) [default: host].")
@planned_threads_option
@exact_option
@click.option("--plain", is_flag=True, help="Plain loops in the order of the definitions.")
@tuned_option
@libraries_option
@click.option("--flavour", default="", help=f"Of the C: {', '.join(FLAVOURS)}.")
@click.option("--ram", help="Limit for what exports the plan, as 256K.")
@click.option("--flash", help="Limit for what exports the plan, as 1M.")
@click.option(
    "--plan",
    "given",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Check this plan, and use it in place of a new one.",
)
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Print what changed since this plan.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the plan to this file.",
)
@click.option("--table", "tabular", is_flag=True, help="One row for each step, without reasons.")
@svg_option("Draw the memory map to this file: steps across, addresses up.")
@wide_option
@json_option
@click.pass_obj
def plan(
    state: State,
    model: Model,
    target: str,
    threads: int,
    exact: bool,
    plain: bool,
    tuned: bool,
    libraries: tuple[str, ...],
    flavour: str,
    ram: str | None,
    flash: str | None,
    given: Path | None,
    against: Path | None,
    output: Path | None,
    tabular: bool,
    svg: Path | None,
) -> None:
    """Prints how MODEL runs on a target, as text that can be edited and built.

    For every step: the kernel and the reason for it, the alternatives with estimated cycles
    and the refusals, what it takes over in place, and scratch memory; for every value, where it
    lies. The last line has the arena's size beside the lower bound, which no placement in
    this order can beat. `weft export MODEL --plan FILE` builds what -o wrote.
    """
    options = {
        "threads": threads,
        "exact": exact,
        "plain": plain,
        "libraries": libraries,
        "flavour": flavour,
        "ram": None if ram is None else parse_bytes(ram),
        "flash": None if flash is None else parse_bytes(flash),
    }
    with working("planning"):
        made = _made(model, target, given, options, tuned)
        found = report(made)
        text = None if tabular else written(made, alternatives=against is None or bool(output))
    if svg is not None:
        title = f"{found.name} for {made.target.name if made.target else target}"
        picture = memory_map(
            title, spans(made), len(made.steps), found.arena_bytes, found.lower_bound, found.rows
        )
        write_picture(svg, picture)
    if output is not None:
        write_text(output, str(text or written(made)))
    changes = None if against is None else diff(text_of(against), text or written(made)).changes
    if state.json:
        extra = {} if changes is None else {"changes": changes}
        more = {"plan": text.record()} if text and changes is None else {}
        name = made.target.name if made.target else target
        write_json({"target": name, **found.record(), **more, **extra})
    elif changes is not None:
        click.echo("\n".join(changes) or "no difference")
    elif text is None:
        _show_table(made, found)
    elif output is None:
        write_lines(str(text).rstrip("\n"))
    else:
        say(f"{output}: {summary(found)}")
    if svg is not None and not state.json:
        say(f"memory map: {svg}", err=text is not None and output is None and changes is None)


def _made(
    model: Model, target: str, given: Path | None, options: Mapping[str, Any], tuned: bool
) -> Plan:
    """A new plan, or one that is given and checked."""
    if given is None:
        machine = find_target(target or "host")
        flavour = flavour_named(options["flavour"] or machine.flavour)
        choices = choices_for(machine, flavour, tuned)
        return model.net.plan(machine, choices=choices, **options)
    threads = options["threads"] if options["threads"] > 1 else None
    text, more = text_of(given), {"threads": threads, "target": target, "tune": tuned and "cached"}
    known: dict[str, Any] = {**options, **more}
    asked = Options(**known)
    asked.of_plan(text, "flavour", "ram", "flash")
    return model.net.plan_from(text)


def _show_table(made: Plan, found: Report) -> None:
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
