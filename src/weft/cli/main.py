"""The group of all commands, and what happens to errors."""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from weft.cli.output import CommandState, Exit, show_bug, show_error, show_usage
from weft.errors import InternalError, UserError
from weft.interrupts import end_interrupted

COMMANDS = {
    "show": ("show.show", "Print the graph after any pass, the kernels, or the C."),
    "draw": ("draw.draw", "Draw the graph after any pass, or the plan."),
    "query": ("query.query", "Find matches of a query in the graph."),
    "apply": ("recipes.apply_command", "Apply recipes to the graph and write it."),
    "quantize": (
        "quantize.quantize",
        "Quantize a float model with samples, and report on each layer.",
    ),
    "precision": ("precision.precision", "Report what bfloat16 or float16 does to each layer."),
    "stats": ("figures.stats", "List operations, parameters and bytes of every layer."),
    "plan": ("plan.plan", "Plan steps, kernels and memory for a target."),
    "impls": (
        "impls.impls",
        "List alternative kernels for an op or a layer, and why others do not apply.",
    ),
    "export": ("export.export", "Write C with Makefile, self-test, memory map and report."),
    "deploy": ("deploy.deploy", "Write a C library with CMake package, weights and examples."),
    "run": ("run.run", "Run a model on arrays or images."),
    "verify": ("verify.verify", "Compare every step with the model's framework or the reference."),
    "bench": ("bench.bench", "Measure the latency of one run."),
    "tune": ("tune.tune", "Measure the fastest kernels for each layer."),
    "compare": (
        "compare.compare",
        "Compare variants of a network by size, memory, time and accuracy.",
    ),
    "campaign": (
        "campaign.campaign",
        "Measure how often predictions change over many variants of the weights.",
    ),
    "cache": ("cache.cache", "List or prune cached builds."),
    "ops": ("tables.ops", "List the ops."),
    "rules": ("tables.rules", "List the rewrite rules."),
    "recipes": ("recipes.recipes", "List the recipes for `weft apply`."),
    "targets": ("tables.targets", "List the supported target machines."),
    "exports": ("tables.exports", "List the additional exports of `weft export`."),
    "datasets": ("tables.datasets", "List the data sets."),
    "plugin": ("plugin.plugin", "List plugins, or create one."),
}
"""Of each command, in the order of the list: where in this package it is, and what is said of it.

A module is imported when its command runs, so that none waits for what the others need.
"""


class Commands(click.Group):
    """Lists the commands in the order of the table and turns errors into messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, from its module; nothing where there is none of the name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(".")
        return getattr(import_module(f"weft.cli.{module}"), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of the commands; imports none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, told) in COMMANDS.items()])

    def main(self, *args: Any, **extra: Any) -> Any:
        """Runs the command line; of its help, too, some may not find room."""
        try:
            return super().main(*args, **extra)
        except OSError as error:
            if not _of_output(error):
                raise
            sys.exit(_end_output(error, CommandState()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Notes whether errors are to be JSON, which is so before the options are read."""
        ctx.meta[_JSON] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            show_error(error, ctx.obj)
            ctx.exit(Exit.USER)
        except InternalError as error:
            show_error(error, ctx.obj)
            ctx.exit(Exit.BUG)
        except BrokenPipeError:
            # Whoever read the output had enough; nothing may be written to it at exit either.
            sys.stdout = None
            ctx.exit(Exit.DONE)
        except KeyboardInterrupt:
            end_interrupted()
        except click.UsageError as error:
            if not ctx.meta[_JSON]:
                raise
            show_usage(error)
            ctx.exit(Exit.USAGE)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # noqa: BLE001 (all else is a bug, and 1 would say else)
            if isinstance(error, OSError) and _of_output(error):
                ctx.exit(_end_output(error, ctx.obj))
            show_bug(ctx.obj)
            ctx.exit(Exit.BUG)


_JSON = "weft.json"


def _of_output(error: OSError) -> bool:
    """Whether it is of the standard output: of files, Weft tells it as ``UserError``."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
    return error.filename is None and error.errno in full


def _end_output(error: OSError, state: CommandState) -> Exit:
    """Says that the output cannot be written, and has nothing more written to it."""
    sys.stdout = None
    show_error(UserError("standard output must be writable", got=error.strerror or ""), state)
    return Exit.USER


def _version() -> str:
    try:
        return version("weft")
    except PackageNotFoundError:
        return "unknown"


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=(
        "Exit codes: 0 success; 1 invalid input or request; 2 wrong usage; 3 a check "
        "failed; 70 a bug in Weft; 130 interrupted."
    ),
)
@click.version_option(_version(), prog_name="weft")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Compiles neural networks into plain, dependency-free C."""
    ctx.obj = CommandState()
