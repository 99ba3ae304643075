"""The group of all commands, and what happens to errors."""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from weft.cli import (
    bench,
    cache,
    campaign,
    compare,
    deploy,
    draw,
    export,
    figures,
    impls,
    plan,
    plugin,
    precision,
    quantize,
    query,
    recipes,
    run,
    show,
    tables,
    tune,
    verify,
)
from weft.cli.output import CommandState, Exit, show_error
from weft.errors import InternalError, UserError

COMMANDS = (
    show.show,
    draw.draw,
    query.query,
    recipes.apply_command,
    quantize.quantize,
    precision.precision,
    figures.stats,
    plan.plan,
    impls.impls,
    export.export,
    deploy.deploy,
    run.run,
    verify.verify,
    bench.bench,
    tune.tune,
    compare.compare,
    campaign.campaign,
    cache.cache,
    tables.ops,
    tables.rules,
    recipes.recipes,
    tables.targets,
    tables.exports,
    tables.datasets,
    plugin.plugin,
)


class Commands(click.Group):
    """Lists the commands in the order of the table and turns errors into messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(self.commands)

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
            # As a shell says it of what a signal ended.
            click.echo("interrupted", err=True)
            ctx.exit(Exit.INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception:  # noqa: BLE001 (whatever else comes up here is a bug, and 1 would say else)
            traceback.print_exc()
            click.echo("This is a bug in Weft; please report it.", err=True)
            ctx.exit(Exit.BUG)


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


for command in COMMANDS:
    main.add_command(command)
