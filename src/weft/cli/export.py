"""``weft export``: a Software Toolkit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from weft.api.net import Net
from weft.cli.files import gather_inputs
from weft.cli.model import Model, model_options, state_option, with_states
from weft.cli.options import data_argument, json_option, options, output_option
from weft.cli.output import CommandState, working, write_json
from weft.errors import UserError
from weft.export import Toolkit
from weft.export.exports import LAYOUTS
from weft.options import Options
from weft.plan.report import size
from weft.targets.boards import board as find_board
from weft.targets.boards import flash_bytes, ram_bytes


@click.command()
@model_options
@click.option(
    "--style",
    type=click.Choice(["toolkit", "single"]),
    default="toolkit",
    show_default=True,
    help="A folder with C, Makefile, self-test and report, or one C file that is all of it.",
)
@click.option("--header", is_flag=True, help="With --style single: write a header, too.")
@options(
    "target",
    "simd",
    "compiler",
    "plan",
    "name",
    "flavour",
    "weights",
    "unroll",
    "encoding",
    "precision",
    "keep_float32",
    "max_rounding",
    "optimize",
    "parameters",
    "parts",
    "threads",
    "regions",
    "ram",
    "flash",
    "also",
    "templates",
    "count",
    "exact",
    "plain",
    aliases=True,
    target="The machine (see `weft targets`) [default: generic, which is portable C99].",
    simd="Vector instructions of any machine that has them, in place of --target.",
    threads="Threads that a run can use [default: 1]; a pool of them is written too.",
)
@click.option(
    "--board",
    metavar="NAME",
    default="",
    help="A target with memories of known sizes, such as stm32l4r5, in place of --target: --ram "
    "and --flash are what it has unless given.",
)
@click.option(
    "--layout",
    "layouts",
    type=click.Choice(["make", *LAYOUTS, "all"]),
    multiple=True,
    help="Beside Makefile and CMakeLists.txt, which are always written: a CMSIS-Pack, a Zephyr "
    "module, an Arduino library, or all of them. May be repeated.",
)
@data_argument
@output_option(
    "The folder: absent, empty, or an earlier toolkit, which is replaced; with --style single "
    "the C file.",
    click.Path(path_type=Path),
    required=True,
)
@state_option
@json_option
@click.pass_obj
def export(
    state: CommandState,
    model: Model,
    options: Options,
    data: tuple[str, ...],
    output: Path,
    states: tuple[str, ...],
    style: str,
    header: bool,
    board: str,
    layouts: tuple[str, ...],
) -> None:
    """Writes MODEL as a Software Toolkit: plain C with a Makefile, a self-test and a report.

    The self-test runs on the given data (files as for `weft run`) or on seeded random numbers, and
    compares the outputs with the NumPy references.
    """
    net = with_states(model.net, states)
    options = _on_board(options, board) if board else options
    packages = [name for name in LAYOUTS if name in layouts or "all" in layouts]
    options = replace(options, also=(*packages, *options.also))
    if style == "single":
        _single(state, net, replace(options, model=model.path.name), output, data, header)
        return
    if header:
        raise UserError("--header is for --style single", got="--style toolkit")
    free = {name: net.inputs[name] for name in net.free_inputs}
    inputs = list(gather_inputs(data, free).values()) if data else None
    with working("planning, generating and making golden data"):
        made = net.export(
            output,
            options=replace(options, inputs=inputs, model=model.path.name),
        )
    names = sorted(
        each.relative_to(output).as_posix() for each in output.rglob("*") if each.is_file()
    )
    figures = {
        "arena_bytes": made.report.arena_bytes,
        "lower_bound": made.report.lower_bound,
        "weight_bytes": made.report.weight_bytes,
        "state_bytes": made.report.state_bytes,
        "stack_bytes": made.files.stack_bytes,
        "stack_measured": made.files.stack.compiler,
        "flash_bytes": made.flash_bytes,
        "streamed": list(made.streamed),
        "flash_measured": made.build.measured if made.build.flash is not None else "",
    }
    if state.json:
        write_json({"folder": output, "target": made.target, "files": names, **figures})
        return
    click.echo(f"{output}: {', '.join(names)}")
    if not options.target and options.plan is None:
        click.echo(
            f"target generic, as none was named: {made.files.flavour.name.upper()} for any machine "
            "(--target NAME; `weft targets` lists them)"
        )
    click.echo(
        f"arena {size(made.report.arena_bytes)} (at least {size(made.report.lower_bound)}), "
        f"weights {size(made.report.weight_bytes)}"
        + (f", state {size(made.report.state_bytes)}" if made.report.state_bytes else "")
    )
    for line in (*streams(made), *room(made)):
        click.echo(line)
    click.echo(f"check it with: make -C {output} test")


def _on_board(options: Options, name: str) -> Options:
    """The options with a board's processor and, where none are given, its limits."""
    if options.target or options.simd or options.plan is not None:
        rule = "--board names the target, and excludes --target, --simd and --plan"
        raise UserError(rule, got=name, fix="Leave out one of them.")
    record = find_board(name)
    ram = ram_bytes(record) if options.ram is None else options.ram
    flash = (flash_bytes(record) or None) if options.flash is None else options.flash
    return replace(options, target=name, ram=ram, flash=flash)


def _single(
    state: CommandState,
    net: Net,
    options: Options,
    output: Path,
    data: tuple[str, ...],
    header: bool,
) -> None:
    """Writes one file."""
    for name, given in (
        ("data", data),
        ("--also", options.also),
        ("--split", options.parts != 1),
    ):
        if given:
            rule = "a single file has no golden data and no files beside it"
            raise UserError(rule, got=name, fix="Leave it out, or use --style toolkit.")
    with working("planning and generating"):
        made = net.single_file(output, header=header, options=options)
    report, files = made.toolkit.report, made.toolkit.files
    figures = {
        "arena_bytes": report.arena_bytes,
        "weight_bytes": report.weight_bytes,
        "stack_bytes": files.stack_bytes,
        "stack_measured": files.stack.compiler,
        "flash_bytes": made.toolkit.flash_bytes,
    }
    if state.json:
        write_json({"file": output, "target": made.toolkit.target, **figures})
        return
    flags = " ".join((f"-std={files.flavour.standard}", "-O3", *made.toolkit.flags))
    click.echo(
        f"{output}: {made.text.count(chr(10)):,} lines of {files.flavour.name.upper()} for "
        f"{made.toolkit.target}, arena {size(report.arena_bytes)}, "
        f"weights {size(report.weight_bytes)}"
    )
    if not files.flavour.vectors and options.machine("generic").flavour == "gnu":
        click.echo(
            f"{files.flavour.name.upper()} has no vector types: compilers make vectors of its "
            "loops (--std gnu writes vectors itself)"
        )
    for line in room(made.toolkit):
        click.echo(line)
    click.echo(f"try it with: cc {flags} -DWEFT_TEST {output} -o {files.name} -lm")


def streams(made: Toolkit) -> list[str]:
    """The layers that are computed by strips so that it fits."""
    return [f"streamed, to fit into RAM: {each}" for each in made.streamed]


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
