"""``weft verify``: the compiled code against another implementation, step by step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import click
import numpy as np

from weft.api import Oracle
from weft.cli.files import gather_inputs, random_inputs
from weft.cli.model import Model, model_options
from weft.cli.options import (
    FILE,
    Number,
    data_argument,
    json_option,
    options,
    seed_option,
    wide_option,
)
from weft.cli.output import CommandState, Exit, say, table, working, write_json
from weft.errors import UserError
from weft.frontends.onnx.session import Session, has_onnxruntime
from weft.ir.short_names import short_names
from weft.options import Options
from weft.runtime.compare import Difference

ORT, REFERENCE = "onnxruntime", "reference"


def _chosen(model: Model, against: str) -> str:
    """What to compare with."""
    is_onnx = model.path.suffix == ".onnx"
    if against == "auto":
        return ORT if is_onnx and has_onnxruntime() else REFERENCE
    if against == ORT and not is_onnx:
        raise UserError("onnxruntime runs ONNX files", got=model.path.name)
    return against


def _onnxruntime(model: Model) -> Oracle:
    def oracle(
        inputs: Mapping[str, np.ndarray], values: Collection[str]
    ) -> Mapping[str, np.ndarray]:
        session = Session(model.path, frozenset(values))
        found = session({**model.constants, **inputs})
        return {name: found[name] for name in values if name in found}

    return oracle


def _cells(difference: Difference, name: str, tolerance: float) -> tuple[str, ...]:
    return (
        "ok" if difference.relative <= tolerance else "DIFFERS",
        name,
        difference.type,
        f"{difference.largest:.3g}",
        f"{difference.relative:.3g}",
        f"{difference.elements:,} of {difference.size:,}",
    )


def _report(state: CommandState, against: str, tolerance: float, found: list[Difference]) -> None:
    worst = max((each.relative for each in found), default=0.0)
    if state.json:
        write_json(
            {
                "against": against,
                "tolerance": tolerance,
                "passed": worst <= tolerance,
                "worst": worst,
                "layers": [each.record() for each in found],
            }
        )
        return
    headings = ("", "value", "type", "largest", "relative", "elements")
    names = short_names(each.value for each in found)
    rows = [_cells(each, names[each.value], tolerance) for each in found]
    table(headings, rows, (3, 4, 5), ("elements", "type"))
    verdict = "agrees with" if worst <= tolerance else "differs from"
    say(
        f"\n{verdict} {against}: {len(found)} values, largest difference over range "
        f"{worst:.3g}, allowed {tolerance:g}"
    )


@click.command(short_help="Compare every step with onnxruntime or the reference.")
@model_options
@data_argument
@seed_option("Seed of random inputs for inputs without data.")
@click.option(
    "--against",
    type=click.Choice(["auto", ORT, REFERENCE]),
    default="auto",
    show_default=True,
    help="`auto` is onnxruntime if installed, else the NumPy reference.",
)
@click.option(
    "--tolerance",
    default=1e-4,
    type=Number(),
    show_default=True,
    help="Largest allowed difference, relative to the value's range.",
)
@click.option(
    "--expect",
    type=FILE,
    help="Compare the outputs with the arrays of the same names in this .npz instead.",
)
@options("flavour", "plan", plan="Verify this plan (`weft plan MODEL -o FILE`).")
@wide_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    model: Model,
    data: tuple[str, ...],
    seed: int,
    against: str,
    tolerance: float,
    expect: Path | None,
    options: Options,
) -> None:
    """Runs MODEL's compiled code and compares the result of every step.

    The steps are those of the compiled network; their results are copied after each step. Exits
    with 3 if a difference exceeds the tolerance.
    """
    types = model.net.inputs
    inputs = gather_inputs(data, types) if data else random_inputs(types, seed)
    oracle: Oracle | None = None
    if expect is not None:
        chosen, oracle = expect.name, _recorded(model, expect)
    else:
        chosen = _chosen(model, against)
        oracle = _onnxruntime(model) if chosen == ORT else None
    with working(f"compiling, and running {chosen}"):
        found = model.net.verify(*inputs.values(), oracle=oracle, options=options)
    _report(ctx.obj, chosen, tolerance, found)
    # Comparisons with NaN are false, so this is not written as `>`.
    if not all(each.relative <= tolerance for each in found):
        ctx.exit(Exit.CHECK)


def _recorded(model: Model, path: Path) -> Oracle:
    expected = gather_inputs([str(path)], model.net.outputs)
    return lambda inputs, values: expected
