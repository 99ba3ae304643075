"""``weft plan``: how a network runs on a target, as text that parses back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from weft.api.exported import plan_in_ram
from weft.api.given import text_of
from weft.atomic import write_text
from weft.cli.draw import svg_option
from weft.cli.model import Model, model_options, state_option, with_states
from weft.cli.options import FILE, json_option, options, output_option, wide_option
from weft.cli.output import CommandState, say, table, working, write_json, write_lines
from weft.ir.short_names import names_of
from weft.options import Options
from weft.pictures.file import write_picture
from weft.pictures.memory import memory_map
from weft.plan.diff import diff
from weft.plan.plan import Plan, written
from weft.plan.report import Report, Row, report, size, spans, summary
from weft.plan.text import PlanText

_PLAN_DROP = ("reads", "in place of", "scratch", "makes", "scheme")
_PLAN = ("step", "does", "scheme", "reads", "writes", "makes", "at", "in place of")
_PLAN_NUMBERS = ("step", "scratch", "live")


def _step(row: Row, names: Mapping[str, str]) -> tuple[str, ...]:
    return (
        str(row.step),
        " + ".join(row.ops),
        "; ".join([row.scheme, *map(str, row.encodings)]),
        ", ".join(
            f"{names[each.value]} {each.at()}" for each in row.reads if each.region != "weights"
        ),
        ", ".join(names[each.value] for each in row.writes),
        ", ".join(each.type for each in row.writes),
        ", ".join(each.at() for each in row.writes),
        names[row.in_place] if row.in_place else "",
        size(row.scratch) if row.scratch else "",
        size(row.live),
    )


@click.command()
@model_options
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
    "flavour",
    "regions",
    "ram",
    "flash",
    "plan",
    ram="RAM limit, such as 256K: where the plan does not fit, layers are computed by strips of "
    "rows, as `weft export` does.",
    flash="Flash limit for exports of the plan, such as 1M.",
    plan="Check this plan and use it instead of a new one.",
)
@click.option(
    "--against",
    type=FILE,
    help="Print the differences from this plan.",
)
@output_option("Write the plan to this file.")
@click.option(
    "--table", "tabular", is_flag=True, help="Print one row for each step, without reasons."
)
@state_option
@svg_option("Draw the memory map to this file: steps across, addresses up.")
@wide_option
@json_option
@click.pass_obj
def plan(
    state: CommandState,
    model: Model,
    options: Options,
    against: Path | None,
    output: Path | None,
    tabular: bool,
    states: tuple[str, ...],
    svg: Path | None,
) -> None:
    """Prints the plan of MODEL for a target, as text that can be edited and built.

    For every step: the kernel and the reason for its choice, the alternatives with estimated
    cycles, the refusals, the operand overwritten in place, and scratch memory; for every value:
    its address. The last line compares the arena with its lower bound for this order of steps.
    `weft export MODEL --plan FILE` builds the file written by -o.
    """
    with working("planning"):
        if options.plan is not None:
            options = options.of_plan(text_of(options.plan), "flavour", "ram", "flash")
        fitted = plan_in_ram(with_states(model.net, states), options)
        made = fitted.plan
        found = report(made)
        text = None if tabular else written(made, alternatives=against is None or bool(output))
    target = made.target.name if made.target else ""
    if svg is not None:
        title = f"{found.name} for {target}"
        picture = memory_map(
            title,
            spans(made),
            len(made.steps),
            found.arena_bytes,
            found.lower_bound,
            found.rows,
            found.arenas,
        )
        write_picture(svg, picture)
    if output is not None:
        write_text(output, str(text or written(made)))
    changes = None if against is None else diff(text_of(against), text or written(made)).changes
    if state.json:
        extra = {} if changes is None else {"changes": changes}
        more = {"plan": text.record()} if text and changes is None else {}
        told = {"in_ram": list(fitted.lines)} if fitted.lines else {}
        write_json({"target": target, **found.record(), **more, **extra, **told})
        return
    apart = text is not None and output is None and changes is None
    _show(made, found, text, output, changes)
    for line in (*fitted.lines, *([f"memory map: {svg}"] if svg is not None else [])):
        say(line, err=apart)


def _show(
    made: Plan,
    found: Report,
    text: PlanText | None,
    output: Path | None,
    changes: Sequence[str] | None,
) -> None:
    """Prints what differs, a table, the text, or a summary where the text is in a file."""
    if changes is not None:
        click.echo("\n".join(changes) or "no difference")
    elif text is None:
        _show_table(made, found)
    elif output is None:
        write_lines(str(text).rstrip("\n"))
    else:
        say(f"{output}: {summary(found)}")


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
