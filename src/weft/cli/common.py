"""What the commands share: options, the model, progress, tables, errors."""

from __future__ import annotations

import functools
import json
import math
import textwrap
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from click.core import ParameterSource
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

from weft import api
from weft.cli.columns import Columns
from weft.errors import InternalError, UserError, WeftError
from weft.ir.npz import read_arrays
from weft.pictures.canvas import clean
from weft.plugins import Table as PluginTable
from weft.reporting import Step
from weft.reporting import progress as listening
from weft.runtime.threads import MOST_THREADS
from weft.targets.table import SIMD

Function = TypeVar("Function", bound=Callable[..., Any])
Given = TypeVar("Given")


class Exit(IntEnum):
    """What the shell is told."""

    DONE = 0
    USER = 1
    USAGE = 2
    CHECK = 3
    BUG = 70
    INTERRUPTED = 130


@dataclass
class State:
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
    wide = context is not None and isinstance(context.obj, State) and context.obj.wide
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


def show_error(error: WeftError, state: State) -> None:
    """Says what is wrong, and what to do about it."""
    if state.json:
        click.echo(json.dumps({"error": _error_record(error)}, indent=2), err=True)
        return
    console = progress()
    if not isinstance(error, UserError):
        console.print(Text("bug: ", style="bold red") + Text(clean(str(error))))
        return
    console.print(Text("error: ", style="bold red") + Text(clean(error.rule)))
    for label, text in (("got", error.got), ("at", error.where), ("fix", error.fix)):
        if text:
            console.print(Text(f"  {label}: ", style="bold") + Text(clean(text)))


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


# --- options --------------------------------------------------------------------------------


class Number(click.ParamType[float]):
    """A finite number, of at least 0, or above it.

    Args:
        above: 0 is refused, too.
        signed: any finite number.
    """

    name = "number"

    def __init__(self, *, above: bool = False, signed: bool = False) -> None:
        self.above = above
        self.signed = signed

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number that a text is."""
        try:
            found = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number.", param, ctx)
        low = not self.signed and (found < 0 or (self.above and found == 0))
        if low or not math.isfinite(found):
            rule = "above 0" if self.above else "" if self.signed else "of at least 0"
            self.fail(f"{value} is not a finite number {rule}".rstrip() + ".", param, ctx)
        return found


SECONDS = Number(above=True)
SEED = click.IntRange(0)


def was_given(name: str) -> bool:
    """Whether an option of the running command was typed."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def _set_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.obj.json = True


def _set_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.obj.quiet = value


quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_quiet,
    help="Show no progress.",
)

json_option = click.option(
    "--json",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_json,
    help="Write results and errors as JSON.",
)


def _set_wide(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.obj.wide = True


wide_option = click.option(
    "--wide",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_wide,
    help="Write all columns and whole names, even if the terminal is too narrow.",
)

target_option = click.option(
    "--target", default="host", show_default=True, help="The machine (see `weft targets`)."
)

threads_option = click.option(
    "--threads",
    type=click.IntRange(1, MOST_THREADS),
    help="To run on [default: WEFT_THREADS, else one for each core].",
)

planned_threads_option = click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(1, MOST_THREADS),
    help="That one run can use.",
)

shapes_option = click.option(
    "--input",
    "shapes",
    multiple=True,
    metavar="NAME=SHAPE",
    help="Shape of an input, as 1x3x224x224, or an open size, as sequence=128, in all inputs.",
)

batch_option = click.option(
    "--batch",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Size of a leading dimension that a model leaves open.",
)

simd_option = click.option(
    "--simd",
    type=click.Choice(tuple(SIMD)),
    is_eager=True,  # --limits needs it
    help="Vector instructions to use [default: the widest that this machine has].",
)


tuned_option = click.option(
    "--tuned", is_flag=True, help="Use what `weft tune` found to be the fastest."
)

exact_option = click.option(
    "--exact", is_flag=True, help="Only kernels that round as the definitions do: no Winograd."
)

flavour_option = click.option(
    "--flavour", default="", help="c89, c99 or gnu [default: the target's own]."
)

libraries_option = click.option(
    "--libraries",
    multiple=True,
    metavar="NAME",
    help="Libraries whose kernels compete with Weft's: onednn. May be repeated.",
)


state_option = click.option(
    "--state",
    "states",
    multiple=True,
    metavar="INPUT=OUTPUT",
    help="Hand an output to an input of the next run, in memory of the caller's. May be repeated.",
)


def with_states(net: api.Net, texts: Sequence[str]) -> api.Net:
    """The net with the states that several ``--state`` say."""
    pairs: list[tuple[str, str]] = []
    for text in texts:
        # Names of values may have any letters, so any of the signs may be the one between them.
        places = [place for place, letter in enumerate(text) if letter == "="]
        cuts = [(text[:place], text[place + 1 :]) for place in places]
        known = [pair for pair in cuts if pair[0] in net.inputs and pair[1] in net.outputs]
        if not cuts:
            raise UserError(
                "--state must say INPUT=OUTPUT", got=text, fix="For example: --state h_in=h_out"
            )
        pairs.append((known or cuts)[0])
    return net.with_state(_each_once("--state", pairs)) if pairs else net


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``name=1x3x224x224`` or ``name=1,3,224,224``; ``name=`` is a scalar."""
    name, equals, sizes = text.rpartition("=")
    parts = [part for part in sizes.replace("x", ",").split(",") if part.strip()]
    if not name or not equals or not all(part.strip().isdecimal() for part in parts):
        raise UserError(
            "--input must say NAME=SHAPE", got=text, fix="For example: --input image=1x3x224x224"
        )
    return name, tuple(int(part) for part in parts)


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """What several ``--input`` say."""
    return _each_once("--input", [parse_shape(each) for each in texts])


def _each_once(option: str, pairs: Sequence[tuple[str, Given]]) -> dict[str, Given]:
    """What was said by name; a name that is said twice is refused."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{option} names an input once", got=f"{name} twice")
    return dict(pairs)


def parse_constant(text: str) -> tuple[str, np.ndarray]:
    """``name=[1, 2]`` in JSON, or ``name=@file.npy``."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UserError(
            "--constant must say NAME=VALUE", got=text, fix="For example: --constant k=[5]"
        )
    try:
        if value.startswith("@"):
            (array,) = read_arrays(Path(value[1:])).values()
            return name, array
        return name, np.array(json.loads(value))
    except (OSError, ValueError) as error:
        raise UserError(
            "the value of a constant must be JSON, or @FILE with an array of NumPy's",
            got=f"{text}: {error}",
        ) from None


@dataclass(frozen=True)
class Model:
    """The model that a command works on, read when it is asked for.

    Attributes:
        path: the file.
        shapes: what was said about the shapes of inputs.
        constants: inputs whose values were given.
        batch: size of an open leading dimension.
    """

    path: Path
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    batch: int = 1

    @functools.cached_property
    def source(self) -> api.Net:
        """The model as it was imported."""
        with working(f"reading {self.path.name}"):
            return api.load(self.path, self.shapes, self.constants)

    @functools.cached_property
    def net(self) -> api.Net:
        """The model with its batch known."""
        return self.source.bound(self.batch)


def model_options(function: Function) -> Function:
    """The argument MODEL and the options that say how to read it."""

    @click.argument("model", type=click.Path(exists=True, path_type=Path))
    @shapes_option
    @click.option(
        "--constant",
        "constants",
        multiple=True,
        metavar="NAME=VALUE",
        help="Value of an input that is always the same: JSON, or @FILE.npy.",
    )
    @batch_option
    @quiet_option
    @functools.wraps(function)
    def wrapped(
        model: Path, shapes: Sequence[str], constants: Sequence[str], batch: int, **rest: Any
    ) -> Any:
        chosen = Model(
            model,
            parse_shapes(shapes),
            _each_once("--constant", [parse_constant(each) for each in constants]),
            batch,
        )
        return function(model=chosen, **rest)

    return wrapped  # type: ignore[return-value]
