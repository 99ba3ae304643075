"""``weft plugin``: the plugins that are installed, and skeletons of new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weft.cli.options import json_option, output_option, wide_option
from weft.cli.output import CommandState, table, write_json
from weft.datasets import DATASETS
from weft.errors import UserError
from weft.export.exports import EXPORTS
from weft.frontends.keras.custom import CUSTOM
from weft.frontends.source import FRONTENDS
from weft.kernels.generators import GENERATORS
from weft.ops.table import KERNELS, OPS
from weft.plugins import Failed, Loaded, Table
from weft.plugins.skeletons import SKELETONS, entry_name, write_skeleton
from weft.recipes import ALL as RECIPES
from weft.rewrite.recipes import PLUGINS as RULES
from weft.targets.find import ALL as TARGETS

TABLES: tuple[Table[Any], ...] = (
    OPS,
    RULES,
    RECIPES,
    TARGETS,
    KERNELS,
    GENERATORS,
    FRONTENDS,
    CUSTOM,
    EXPORTS,
    DATASETS,
)
"""What plugins can add to, one table for each kind."""


@click.group()
def plugin() -> None:
    """Manages plugins: parts of Weft in other packages; see docs/plugins.md.

    `WEFT_PLUGINS=off` disables all plugins.
    """


def _record(found: Loaded[Any] | Failed) -> dict[str, str]:
    plugin = found.plugin
    return {
        "kind": plugin.kind.value,
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "object": plugin.entry.value,
        "state": "loaded" if isinstance(found, Loaded) else "failed",
        "reason": found.reason if isinstance(found, Failed) else "",
    }


@plugin.command(name="list", short_help="List installed plugins.")
@wide_option
@json_option
@click.pass_obj
def list_plugins(state: CommandState) -> None:
    """Loads all installed plugins and reports invalid ones with the reason."""
    found = [_record(result) for each in TABLES for result in each.results]
    if state.json:
        write_json(found)
        return
    if not found:
        click.echo("no plugins are installed")
        return
    rows = [
        (
            each["kind"],
            each["name"],
            f"{each['distribution']} {each['version']}",
            each["reason"] or "loaded",
        )
        for each in found
    ]
    table(("kind", "name", "from", "state"), rows, (), prose=True)


@plugin.command(short_help="Create a working plugin with tests.")
@click.argument("name")
@click.option("--kind", required=True, type=click.Choice(tuple(SKELETONS)), help="Kind of plugin.")
@output_option("The folder, absent or empty [default: NAME].", click.Path(path_type=Path))
@json_option
@click.pass_obj
def new(state: CommandState, name: str, kind: str, output: Path | None) -> None:
    """Creates a plugin package with tests.

    NAME is the name of the distribution, words joined by hyphens: `weft plugin new my-op --kind
    op`. `kernel` is written in C++, `generator` in Python.
    """
    entry = entry_name(name, kind)
    taken = next(each for each in TABLES if each.kind is SKELETONS[kind].kind)
    if entry in taken.builtin:
        word = SKELETONS[kind].kind.word
        raise UserError(f"Weft itself has the {word} {entry}", got=name, fix="Choose another name.")
    folder = output or Path(name)
    written = write_skeleton(name, kind, folder)
    if state.json:
        write_json({"folder": folder, "files": [str(each) for each in written]})
        return
    click.echo(f"{folder}: {', '.join(map(str, written))}")
    click.echo(f"install it with: pip install -e '{folder}[test]'")
    click.echo(f"test it with: pytest {folder}")
