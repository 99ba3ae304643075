"""``weft deploy``: a C library."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from weft.cli.files import gather_inputs
from weft.cli.model import Model, model_options, state_option, with_states
from weft.cli.options import data_argument, json_option, options, output_option
from weft.cli.output import CommandState, working, write_json
from weft.export.package import WeightsPlace
from weft.options import Options


@click.command()
@model_options
@options(
    "target",
    "compiler",
    "plan",
    "name",
    "flavour",
    "encoding",
    "precision",
    "keep_float32",
    "max_rounding",
    "optimize",
    "parameters",
    "threads",
    "exact",
    "plain",
    target="The machine (see `weft targets`) [default: this one].",
    threads="Threads that a call can use [default: 1].",
)
@data_argument
@output_option(
    "The folder: absent, empty, or an earlier library, which is replaced.",
    click.Path(file_okay=False, path_type=Path),
    required=True,
)
@click.option(
    "--weights",
    type=click.Choice(["file", "inside"]),
    default="file",
    show_default=True,
    help="In a file that the library reads, or inside the library.",
)
@click.option(
    "--library-version",
    metavar="A.B.C",
    default="1.0.0",
    show_default=True,
    help="Version of the library; A is that of its ABI.",
)
@state_option
@json_option
@click.pass_obj
def deploy(
    state: CommandState,
    model: Model,
    options: Options,
    data: tuple[str, ...],
    output: Path,
    weights: WeightsPlace,
    library_version: str,
    states: tuple[str, ...],
) -> None:
    """Writes MODEL as a C library: sources, header, CMake package, weights and examples.

    For this machine it is built, too. The examples have the given data (files as for `weft run`)
    or seeded random numbers, and what the library gives for them.
    """
    net = with_states(model.net, states)
    free = {name: net.inputs[name] for name in net.free_inputs}
    inputs = list(gather_inputs(data, free).values()) if data else None
    with working("planning, generating and building"):
        made = net.deploy(
            output,
            weights=weights,
            version=library_version,
            options=replace(options, inputs=inputs, model=model.path.name),
        )
    names = sorted(str(each.relative_to(output)) for each in output.rglob("*") if each.is_file())
    if state.json:
        write_json({"folder": output, "name": made.name, "target": made.target, "files": names})
        return
    click.echo(f"{output}: {', '.join(names)}")
    built = f"built by {made.compiler}" if made.compiler else "not built"
    click.echo(f"{made.name} {made.version} for {made.target}, {built}")
    click.echo(f"build and install it with: cmake -S {output} -B build && cmake --build build")
