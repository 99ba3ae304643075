"""The model that a command works on, and the options that say how to read it."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from weft import api
from weft.cached import cached_property
from weft.cli.options import Function, option, quiet_option
from weft.cli.output import working
from weft.errors import UserError
from weft.frontends.source import frontend_of
from weft.ir.npz import read_arrays
from weft.ops.rounding import ROUNDINGS
from weft.records import dataclass

Given = TypeVar("Given")

shapes_option = click.option(
    "--input",
    "shapes",
    multiple=True,
    metavar="NAME=SHAPE",
    help="Shape of an input, such as image=1x3x224x224, or an open size for all inputs, "
    "such as sequence=128.",
)

state_option = click.option(
    "--state",
    "states",
    multiple=True,
    metavar="INPUT=OUTPUT",
    help="Keep state: hand an output to an input of the next run, in the caller's "
    "memory. May be repeated.",
)

rounding_option = click.option(
    "--rounding",
    type=click.Choice(ROUNDINGS),
    help="How quantized layers round: `litert`, the bits of LiteRT's reference kernels; `onnx`, "
    "scales in float; `float`: they compute in float  [default: that of the file's format]",
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
                "--state must be INPUT=OUTPUT", got=text, fix="For example: --state h_in=h_out"
            )
        pairs.append((known or cuts)[0])
    return net.with_state(_each_once("--state", pairs)) if pairs else net


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``name=1x3x224x224`` or ``name=1,3,224,224``; ``name=`` is a scalar."""
    name, equals, sizes = text.rpartition("=")
    parts = [part for part in sizes.replace("x", ",").split(",") if part.strip()]
    if not name or not equals or not all(part.strip().isdecimal() for part in parts):
        raise UserError(
            "--input must be NAME=SHAPE", got=text, fix="For example: --input image=1x3x224x224"
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
            "--constant must be NAME=VALUE", got=text, fix="For example: --constant k=[5]"
        )
    try:
        if value.startswith("@"):
            (array,) = read_arrays(Path(value[1:])).values()
            return name, array
        return name, np.array(json.loads(value))
    except (OSError, ValueError) as error:
        raise UserError(
            "the value of a constant must be JSON, or @FILE with a NumPy array",
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
        signature: the function to read, if the file has several.
        float_activations: whether layers whose weights alone are integers compute in float.
        rounding: of quantized layers; that of the format if empty.
    """

    path: Path
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    batch: int = 1
    signature: str = ""
    float_activations: bool = False
    rounding: str = ""

    @cached_property
    def source(self) -> api.Net:
        """The model as it was imported."""
        with working(f"reading {self.path.name}"):
            shapes, name = self.shapes, frontend_of(self.path).batch
            if name and self.batch != 1:
                shapes = {**shapes, name: (self.batch,)}
            return api.load(
                self.path,
                shapes,
                self.constants,
                signature=self.signature,
                float_activations=self.float_activations,
                rounding=self.rounding,
            )

    @cached_property
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
        help="Value of a constant input: JSON, or @FILE.npy.",
    )
    @click.option(
        "--signature",
        default="",
        metavar="NAME",
        help="Function to read from a LiteRT file with several.",
    )
    @click.option(
        "--float-activations",
        is_flag=True,
        help="Compute layers of a LiteRT file in float whose weights alone are integers. LiteRT "
        "quantizes their inputs in each run, and so does Weft without this option.",
    )
    @rounding_option
    @option("batch")
    @quiet_option
    @functools.wraps(function)
    def wrapped(
        model: Path,
        shapes: Sequence[str],
        constants: Sequence[str],
        batch: int | None,
        signature: str,
        float_activations: bool,
        rounding: str | None,
        **rest: Any,
    ) -> Any:
        chosen = Model(
            model,
            parse_shapes(shapes),
            _each_once("--constant", [parse_constant(each) for each in constants]),
            batch or 1,
            signature,
            float_activations,
            rounding or "",
        )
        return function(model=chosen, **rest)

    return wrapped  # type: ignore[return-value]
