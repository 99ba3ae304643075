"""What commands write: results, tables, progress, errors."""

from __future__ import annotations

import json
import textwrap
import traceback
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from weft.cli.columns import Columns
from weft.errors import InternalError, UserError, WeftError
from weft.pictures.canvas import clean
from weft.plugins import Table as PluginTable
from weft.records import dataclass
from weft.reporting import Step
from weft.reporting import progress as listening


class Exit(IntEnum):
    """What the shell is told."""

    DONE = 0
    USER = 1
    USAGE = 2
    CHECK = 3
    BUG = 70
    INTERRUPTED = 130


@dataclass
class CommandState:
    """What one run of the command line knows.

    Attributes:
        json: results and errors are written as JSON.
        quiet: progress is not shown.
        wide: tables are written whole, whatever the terminal's width.
    """

    json: bool = False
    quiet: bool = False
    wide: bool = False


UNLIMITED = 10_000
"""As wide as a table may be where nobody watches."""


def output() -> Console:
    """Where results go; as wide as it takes unless a person is watching."""
    console = Console(highlight=False, markup=False, soft_wrap=False)
    return (
        console
        if console.is_terminal
        else Console(highlight=False, markup=False, width=UNLIMITED, no_color=True)
    )


def progress() -> Console:
    """Where progress and errors go."""
    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def working(what: str) -> Generator[None]:
    """Says what takes so long, and for how long, while it does and if a person is watching."""
    with showing(what) as bar:
        if bar is None:
            yield
            return
        (task,) = bar.task_ids

        def show(step: Step) -> None:
            bar.update(task, description=escape(f"{what}: {step}"))

        with listening(show):
            yield


@contextmanager
def showing(
    what: str, *columns: ProgressColumn, total: float | None = None
) -> Generator[Progress | None]:
    """A line of progress on the terminal; nothing if nobody watches or all is to be quiet."""
    console, context = progress(), click.get_current_context(silent=True)
    if not console.is_terminal or (context is not None and context.obj.quiet):
        yield None
        return
    shown = (SpinnerColumn(), TextColumn("{task.description}"), *columns, TimeElapsedColumn())
    with Progress(*shown, console=console, transient=True) as bar:
        bar.add_task(escape(what), total=total)
        yield bar


def write_json(data: object) -> None:
    """A result for scripts."""
    click.echo(json.dumps(data, indent=2, default=_plain))


def _plain(value: Any) -> object:
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise InternalError(f"{type(value).__name__} is no JSON")


def width() -> int:
    """How wide what is written may be: what the terminal has, unless all was asked for."""
    context = click.get_current_context(silent=True)
    wide = context is not None and isinstance(context.obj, CommandState) and context.obj.wide
    return UNLIMITED if wide else output().width


def watched() -> bool:
    """Whether what is written is for a person at a terminal, who did not ask for all of it."""
    return width() < UNLIMITED


def write_lines(text: str) -> None:
    """Writes text line by line, without the ends of lines that the terminal has no room for."""
    room = width()
    for line in clean(text).split("\n"):
        click.echo(line if cell_len(line) <= room else f"{set_cell_size(line, room - 1)}…")


def say(text: str, *, err: bool = False) -> None:
    """Writes a paragraph, broken between words where the terminal ends."""
    for line in text.split("\n"):
        parts = textwrap.wrap(line, width(), break_on_hyphens=False) or [""]
        click.echo("\n".join(parts), err=err)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Collection[int],
    drop: Sequence[str] = (),
    *,
    prose: bool = False,
) -> None:
    """Writes a table, a line for each row.

    Args:
        headings: of the columns.
        rows: of cells.
        numbers: places of the columns that are flush right.
        drop: headings of columns that are left out where the terminal is too narrow, first first.
        prose: the last column is text to read: it is broken between words.
    """
    cleaned = [[clean(cell) for cell in row] for row in rows]
    columns = Columns(headings, cleaned, numbers, drop, prose)
    (head, *lines), gone = columns.fitted(width())
    click.secho(head, bold=True)
    for line in lines:
        click.echo(line)
    if gone:
        say(f"(not shown: {', '.join(gone)}; --wide shows all)")


def warn_failed(parts: PluginTable[Any]) -> None:
    """Says which plugins of a kind cannot be used, and why."""
    for each in parts.failed:
        progress().print(Text("warning: ", style="bold yellow") + Text(clean(str(each))))


def show_error(error: WeftError, state: CommandState) -> None:
    """Says what is wrong, and what to do about it."""
    if state.json:
        _show_record(_error_record(error))
        return
    console = progress()
    if not isinstance(error, UserError):
        console.print(Text("bug: ", style="bold red") + Text(clean(str(error))))
        return
    console.print(Text("error: ", style="bold red") + Text(clean(error.rule)))
    for label, text in (("got", error.got), ("at", error.where), ("fix", error.fix)):
        if text:
            console.print(Text(f"  {label}: ", style="bold") + Text(clean(text)))


def show_usage(error: click.UsageError) -> None:
    """Says as JSON how a command is used wrongly."""
    command = error.ctx.command_path if error.ctx else "weft"
    _show_record(
        {
            "kind": "usage",
            "rule": error.format_message(),
            "got": "",
            "where": command,
            "fix": f"Try '{command} --help' for help.",
        }
    )


def show_bug(state: CommandState) -> None:
    """Says where the exception that is handled came up."""
    if state.json:
        _show_record({"kind": "bug", "message": traceback.format_exc()})
        return
    traceback.print_exc()
    click.echo("This is a bug in Weft; please report it.", err=True)


def _show_record(record: dict[str, str]) -> None:
    click.echo(json.dumps({"error": record}, indent=2), err=True)


def _error_record(error: WeftError) -> dict[str, str]:
    if isinstance(error, UserError):
        return {
            "kind": "user",
            "rule": error.rule,
            "got": error.got,
            "where": error.where,
            "fix": error.fix,
        }
    return {"kind": "bug", "message": str(error)}
