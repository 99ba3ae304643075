"""``weft run``: one run on given data."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import click
import numpy as np

from weft.cli.files import Pixels, gather_inputs, random_inputs, save_arrays
from weft.cli.model import Model, model_options
from weft.cli.options import (
    ALL_CORES,
    FILE,
    Number,
    data_argument,
    json_option,
    options,
    output_option,
    seed_option,
    was_given,
)
from weft.cli.output import CommandState, working, write_json
from weft.errors import UserError
from weft.options import Options

_FEW = 10
_BEST = 5


def _numbers(text: str, what: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--{what} must be numbers with commas between", got=text) from None
    if not all(map(isfinite, found)) or (what == "std" and 0 in found):
        rule = "finite numbers other than 0" if what == "std" else "finite numbers"
        raise UserError(f"--{what} must be {rule}", got=text)
    return found


def _labels(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            "labels must be a text file with one label a line", got=f"{path}: {error}"
        ) from None


def _described(name: str, array: np.ndarray, labels: Sequence[str]) -> list[str]:
    """An output for people: all of a few elements, the largest of a vector, or a summary."""
    lines = [f"{name}  {array.dtype}{list(array.shape)}"]
    flat = array.reshape(-1)
    if flat.size == 0:
        return lines
    if flat.size <= _FEW and not labels:
        return [*lines, "  " + " ".join(f"{value:.6g}" for value in flat.tolist())]
    if flat.size == max(array.shape, default=1):
        best = np.argsort(-flat.astype(np.float64), kind="stable")[:_BEST]
        for place in best.tolist():
            label = f"  {labels[place]}" if place < len(labels) else ""
            lines.append(f"  {place:6d}  {flat[place]:.6g}{label}")
        return lines
    wide = flat.astype(np.float64)
    return [*lines, f"  least {wide.min():.6g}, mean {wide.mean():.6g}, most {wide.max():.6g}"]


@click.command()
@model_options
@data_argument
@click.option("--random", "chance", is_flag=True, help="Use random inputs instead of files.")
@seed_option("Seed for --random.")
@click.option(
    "--scale",
    default=1 / 255,
    type=Number(signed=True),
    help="Factor for pixels [default: 1/255].",
)
@click.option(
    "--mean",
    default="0",
    show_default=True,
    help="Then subtracted from pixels: R,G,B or one number.",
)
@click.option(
    "--std", default="1", show_default=True, help="Then divides pixels: R,G,B or one number."
)
@click.option(
    "--labels",
    type=FILE,
    help="Class names, one a line.",
)
@output_option("Write the outputs to this .npz (or .npy, for one output).")
@options(
    "threads",
    "simd",
    "tune",
    "plan",
    "exact",
    "flavour",
    "libraries",
    "encoding",
    "precision",
    "keep_float32",
    "max_rounding",
    "optimize",
    threads=ALL_CORES,
)
@json_option
@click.pass_obj
def run(
    state: CommandState,
    model: Model,
    data: tuple[str, ...],
    chance: bool,
    seed: int,
    scale: float,
    mean: str,
    std: str,
    labels: Path | None,
    output: Path | None,
    options: Options,
) -> None:
    """Compiles MODEL for this machine and runs it once.

    Data are NumPy files (.npy, .npz), or images for image inputs. A file belongs to the input it
    names, or else to the next one.
    """
    types = model.net.inputs
    pixels = Pixels(scale, _numbers(mean, "mean"), _numbers(std, "std"))
    if chance:
        if data:
            raise UserError("--random cannot be combined with files", got=", ".join(data))
        for name in ("scale", "mean", "std"):
            if was_given(name):
                raise UserError(f"--{name} is for images", got="--random")
        inputs = random_inputs(types, seed)
    else:
        if was_given("seed"):
            raise UserError("--seed is for --random", got="files")
        inputs = gather_inputs(data, types, pixels)
    names = _labels(labels)
    with working("compiling"):
        compiled = model.net.compile(options=options)
    results = compiled.library(*inputs.values())
    found = dict(zip(model.net.graph.outputs, results, strict=True))
    if output is not None:
        save_arrays(output, found)
    if state.json:
        write_json(
            {
                "outputs": {
                    name: {"shape": array.shape, "values": array.reshape(-1)}
                    for name, array in found.items()
                }
            }
        )
        return
    for name, array in found.items():
        click.echo("\n".join(_described(name, array, names)))
    if output is not None:
        click.echo(f"written: {output}")
