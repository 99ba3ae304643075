"""Options of the commands: those of ``weft.Options``, from one table, and what else they share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from weft.cli.files import parse_bytes
from weft.codegen.flavours import FLAVOURS
from weft.errors import UserError
from weft.options import GOALS, Options
from weft.plan.choice import MAX_ROUNDING
from weft.records import dataclass
from weft.runtime.threads import MOST_THREADS
from weft.targets.find import SIMD

Function = TypeVar("Function", bound=Callable[..., Any])


# --- types ----------------------------------------------------------------------------------


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
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)


# --- options of every command ---------------------------------------------------------------


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
    help="Do not show progress.",
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
    help="Write all columns and full names, even on a narrow terminal.",
)


def output_option(
    help: str, type: click.ParamType[Any] = NEW_FILE, *, required: bool = False
) -> Callable[[Function], Function]:
    """``-o``: what a command writes."""
    return click.option("-o", "--output", required=required, type=type, help=help)


def seed_option(help: str) -> Callable[[Function], Function]:
    """``--seed``, a number of at least 0."""
    return click.option("--seed", default=0, type=SEED, show_default=True, help=help)


data_argument = click.argument("data", nargs=-1, metavar="[[NAME=]FILE]...")

samples_option = click.option(
    "--data",
    metavar="FILE|NAME",
    help="Samples: .npz with an array for each input, and `labels` for accuracy; "
    "or a data set (`weft datasets`) [default: a few random inputs].",
)


# --- options of weft.Options ----------------------------------------------------------------


@dataclass(frozen=True)
class Flag:
    """How an option of ``weft.Options`` is typed.

    Attributes:
        help: what it means, and its default.
        flag: what is typed; ``--`` and the option's name if empty.
        type: of the text.
        metavar: what stands for the value.
        on: the value of a flag without one; others take one.
        multiple: whether it may be repeated.
        convert: makes the value of the option.
        also: another spelling, of commands that write C.
    """

    help: str
    flag: str = ""
    type: click.ParamType[Any] | None = None
    metavar: str | None = None
    on: object = None
    multiple: bool = False
    convert: Callable[[Any], object] | None = None
    also: str = ""


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _regions(texts: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, mark, size = text.partition("=")
        if not mark or name in found:
            raise UserError("a region is given once, as NAME=BYTES", got=text, fix="dtcm=64K")
        found[name] = parse_bytes(size)
    return found


_DIALECTS = ", ".join(FLAVOURS)
FLAGS: MappingProxyType[str, Flag] = MappingProxyType(
    {
        "target": Flag("The target machine (see `weft targets`) [default: host]."),
        "simd": Flag(
            "Vector instructions [default: the widest available].",
            type=click.Choice(tuple(SIMD)),
        ),
        "threads": Flag("Threads of a run [default: 1].", type=click.IntRange(1, MOST_THREADS)),
        "batch": Flag(
            "Size of an open leading dimension [default: 1].",
            type=click.IntRange(1),
        ),
        "exact": Flag(
            "Use only kernels that round as the definitions do: neither Winograd convolution nor "
            "Strassen's algorithm.",
            on=True,
        ),
        "plain": Flag(
            "Write plain loops in the order of the definitions, for auditing; slow.", on=True
        ),
        "tune": Flag("Use the kernels chosen by `weft tune`.", "--tuned", on="cached"),
        "libraries": Flag(
            "Plugins' libraries with alternative kernels. May be repeated.",
            metavar="NAME",
            multiple=True,
        ),
        "encoding": Flag(
            "Store the weights of products of a matrix and one vector as int8, int4 or palette "
            "(rounded), or quantized or float28 (lossless).",
            metavar="NAME",
        ),
        "precision": Flag(
            "What values and weights are stored in: float32, bfloat16 (bf16) or float16 (fp16) "
            "[default: float32].",
            metavar="NAME",
        ),
        "keep_float32": Flag(
            "Layers that stay in float32 with another precision.",
            "--keep-float32",
            metavar="NAME,...",
            convert=_names,
        ),
        "max_rounding": Flag(
            "Largest error that a faster algorithm may add to a layer by rounding, over the "
            "standard deviation of what it gives: for larger tiles of Winograd convolution and for "
            f"rounded weights of attention in half precision [default: {MAX_ROUNDING}].",
            "--max-rounding",
            metavar="NUMBER",
            type=Number(),
        ),
        "optimize": Flag(
            "What kernels are chosen for: code size, speed, or both [default: balanced for chips "
            "with flash, else speed].",
            type=click.Choice(GOALS),
        ),
        "plan": Flag(
            "Build this plan (`weft plan MODEL -o FILE`), which fixes target and threads.",
            type=FILE,
        ),
        "flavour": Flag(f"Dialect of C: {_DIALECTS} [default: the target's].", also="--std"),
        "regions": Flag(
            "A memory for intermediate values, such as dtcm=64K; the nearest first, and a pointer "
            "each in the C. May be repeated.",
            "--region",
            metavar="NAME=BYTES",
            multiple=True,
            convert=_regions,
        ),
        "ram": Flag(
            "Limit, such as 256K, for arena, stack, state, inputs and outputs; fail above it.",
            convert=parse_bytes,
        ),
        "flash": Flag(
            "Limit, such as 1M, for code and constants; fail above it.", convert=parse_bytes
        ),
        "compiler": Flag(
            "Compiler and flags, for measuring stack and code size and for the Makefile.",
            metavar="'CC FLAGS'",
        ),
        "name": Flag("Prefix of all public names [default: the model's name]."),
        "weights": Flag(
            "Store weights as constant arrays in the source (arrays, the default), in a binary "
            "file passed by the caller (blob), or as numbers in the code where loops are written "
            "out and no vectors are used (inline).",
            type=click.Choice(["arrays", "array", "inline", "blob"]),
            convert=lambda text: "arrays" if text == "array" else text,
            also="--constants",
        ),
        "unroll": Flag(
            "Loops to write out: those of register tiles (auto, the default), those of up to N "
            "iterations, too, or all (full).",
            metavar="auto|N|full",
        ),
        "parameters": Flag(
            "Weights given at run time, all (runtime) or by name; a function prepares them.",
            metavar="runtime|NAME,...",
            convert=_names,
        ),
        "parts": Flag("Write one source file for each function.", "--split", on=0),
        "templates": Flag(
            "Folder of templates in place of Weft's own of the same file names (README.md.jinja).",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
        ),
        "count": Flag("Have QEMU count the instructions of each layer, for REPORT.html.", on=True),
        "also": Flag(
            "Also write the files of this export (`weft exports`). May be repeated.",
            metavar="NAME",
            multiple=True,
        ),
    }
)
"""By field of ``weft.Options``; an option that is not typed has the default of the record."""

ALL_CORES = "Threads to run on [default: WEFT_THREADS, else one for each core]."
"""Help of ``--threads`` of commands that run the network."""


def option(name: str, help: str = "", aliases: bool = False) -> Callable[[Function], Function]:
    """The option of a command for a field of ``weft.Options``; its value is ``None`` if not typed.

    Args:
        name: of the field.
        help: what it means to this command, if it is not as the table says.
        aliases: whether it may be spelled otherwise, too.
    """
    flag = FLAGS[name]
    return click.option(
        flag.flag or f"--{name}",
        *filter(None, [flag.also if aliases else ""]),
        name,
        type=flag.type,
        default=None,
        metavar=flag.metavar,
        multiple=flag.multiple,
        is_eager=True,  # --limits needs some
        help=help or flag.help,
        is_flag=flag.on is not None,
        flag_value=flag.on,
    )


def options(*names: str, aliases: bool = False, **helps: str) -> Callable[[Function], Function]:
    """Options of a command, which it gets as one record, ``options``.

    Args:
        names: fields of ``weft.Options``.
        aliases: whether other spellings are taken, too.
        helps: what some of them mean to this command, by field.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **rest: Any) -> Any:
            typed = {name: rest.pop(name) for name in names}
            given = {name: value for name, value in typed.items() if value not in (None, ())}
            for name, value in given.items():
                convert = FLAGS[name].convert
                given[name] = value if convert is None else convert(value)
            return function(*arguments, options=Options(**given), **rest)

        for name in reversed(names):
            wrapped = option(name, helps.get(name, ""), aliases)(wrapped)
        return wrapped  # type: ignore[return-value]

    return decorate
