"""``weft export``: a Software Toolkit."""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.common import (
    Model,
    State,
    exact_option,
    json_option,
    model_options,
    state_option,
    with_states,
    working,
    write_json,
)
from weft.cli.files import gather_inputs, parse_bytes
from weft.codegen.flavours import FLAVOURS
from weft.export import Toolkit
from weft.plan.report import size
from weft.runtime.threads import MOST_THREADS


@click.command(short_help="Write C with build file, tests, memory map and report.")
@model_options
@click.option(
    "--target",
    default="",
    help="The machine (see `weft targets`) [default: generic, which is portable C99].",
)
@click.option(
    "--compiler",
    default="",
    metavar="'CC FLAGS'",
    help="What builds it: measures stack, code and constants, and goes into the Makefile.",
)
@click.argument("data", nargs=-1, metavar="[[NAME=]FILE]...")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder: absent, empty, or an earlier toolkit, which is replaced.",
)
@click.option("--name", default="", help="Prefix of everything public [default: the model's name].")
@click.option("--flavour", default="", help=f"{', '.join(FLAVOURS)} [default: the target's].")
@click.option(
    "--weights",
    type=click.Choice(["arrays", "blob"]),
    default="arrays",
    show_default=True,
    help="Constants in the source, or a binary file that the caller passes.",
)
@click.option("--split", is_flag=True, help="One source for each function.")
@click.option(
    "--threads",
    type=click.IntRange(1, MOST_THREADS),
    default=1,
    show_default=True,
    help="Threads that a run can use at the most; a pool of them is written too.",
)
@click.option(
    "--ram", help="Refuse what needs more, as 256K: arena, stack, state, inputs and outputs."
)
@click.option("--flash", help="Refuse what needs more, as 1M: code and constants.")
@state_option
@click.option(
    "--also",
    multiple=True,
    metavar="NAME",
    help="Write the files of this export, too (`weft exports`); may be given for several.",
)
@click.option(
    "--plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Build this plan (`weft plan MODEL -o FILE`); it has the target, threads and limits.",
)
@exact_option
@click.option(
    "--plain",
    is_flag=True,
    help="Plain loops in the order of the definitions, to read and audit; slow.",
)
@json_option
@click.pass_obj
def export(
    state: State,
    model: Model,
    target: str,
    compiler: str,
    data: tuple[str, ...],
    output: Path,
    name: str,
    flavour: str,
    weights: str,
    split: bool,
    threads: int,
    ram: str | None,
    flash: str | None,
    states: tuple[str, ...],
    also: tuple[str, ...],
    plan: Path | None,
    exact: bool,
    plain: bool,
) -> None:
    """Writes MODEL as a Software Toolkit: plain C and what it takes to build and check it.

    The self-test runs on the data given (files as for `weft run`), else on seeded random
    numbers, and compares with what the NumPy references say.
    """
    net = with_states(model.net, states)
    free = {name: net.inputs[name] for name in net.free_inputs}
    inputs = list(gather_inputs(data, free).values()) if data else None
    with working("planning, generating and making golden data"):
        made = net.export(
            output,
            target or "generic",
            ram=None if ram is None else parse_bytes(ram),
            flash=None if flash is None else parse_bytes(flash),
            name=name,
            flavour=flavour,
            weights=weights,
            parts=0 if split else 1,
            threads=threads,
            exact=exact,
            plain=plain,
            inputs=inputs,
            model=model.path.name,
            also=also,
            compiler=compiler,
            plan=plan,
        )
    names = sorted(each.name for each in output.iterdir())
    figures = {
        "arena_bytes": made.report.arena_bytes,
        "lower_bound": made.report.lower_bound,
        "weight_bytes": made.report.weight_bytes,
        "state_bytes": made.report.state_bytes,
        "stack_bytes": made.files.stack_bytes,
        "stack_measured": made.files.stack.compiler,
        "flash_bytes": made.flash_bytes,
        "flash_measured": made.build.measured if made.build.flash is not None else "",
    }
    if state.json:
        write_json({"folder": output, "target": made.target, "files": names, **figures})
        return
    click.echo(f"{output}: {', '.join(names)}")
    if not target and plan is None:
        click.echo(
            f"target generic, as none was named: {made.files.flavour.name.upper()} for any machine "
            "(--target NAME; `weft targets` lists them)"
        )
    click.echo(
        f"arena {size(made.report.arena_bytes)} (at least {size(made.report.lower_bound)}), "
        f"weights {size(made.report.weight_bytes)}"
        + (f", state {size(made.report.state_bytes)}" if made.report.state_bytes else "")
    )
    for line in room(made):
        click.echo(line)
    click.echo(f"check it with: make -C {output} test")


def room(made: Toolkit) -> list[str]:
    """What it takes of stack and flash, and who says so."""
    stack, flash = made.files.stack, made.flash_bytes
    measured = made.build.measured if made.build.flash is not None else ""
    if stack.compiler and measured:
        return [
            f"stack {size(stack.bytes)}, code and constants {size(flash)}, measured: {measured}"
        ]
    if not stack.compiler and not measured:
        return [
            f"stack about {size(stack.bytes)}, code and constants about {size(flash)}: estimates "
            "(--compiler 'CC FLAGS' measures them)"
        ]
    return [
        f"stack {_figure(stack.bytes, stack.compiler)}",
        f"code and constants {_figure(flash, measured)}",
    ]


def _figure(bytes: int, compiler: str) -> str:
    return (
        f"{size(bytes)}, measured: {compiler}" if compiler else f"about {size(bytes)}, an estimate"
    )
