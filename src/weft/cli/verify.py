"""``weft verify``: the compiled code against another implementation, step by step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from weft.api import Net, Oracle
from weft.api.repeated import Repeated, repeated, sanitized
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
from weft.frontends.source import Framework, frontend_of
from weft.ir.short_names import short_names
from weft.options import Options
from weft.runtime.compare import Difference

FRAMEWORK, REFERENCE = "framework", "reference"


def _framework(model: Model, against: str) -> Framework | None:
    """What runs the model's file to compare with; nothing for the reference."""
    found = frontend_of(model.path).framework
    if against == REFERENCE or (against == "auto" and (found is None or not found.installed())):
        return None
    if found is None:
        raise UserError(
            f"no framework runs {model.path.suffix} files",
            got=model.path.name,
            fix="Compare with the reference: --against reference",
        )
    return found


def _run_by(framework: Framework, model: Model) -> Oracle:
    def oracle(
        inputs: Mapping[str, np.ndarray], values: Collection[str]
    ) -> Mapping[str, np.ndarray]:
        run = framework.opened(model.path, frozenset(values), model.signature)
        found = run({**model.constants, **inputs})
        return {name: found[name] for name in values if name in found}

    return oracle


def _every_layer(
    model: Model, framework: Framework, inputs: Mapping[str, np.ndarray]
) -> tuple[Net, Oracle]:
    """The network with everything as an output that the framework has, too, and what it gives."""
    graph = model.net.graph
    run = framework.opened(model.path, frozenset(graph.producers), model.signature)
    expected = run({**model.constants, **inputs})
    names = [*graph.outputs, *(name for name in expected if name in graph.producers)]

    def oracle(
        inputs: Mapping[str, np.ndarray], values: Collection[str]
    ) -> Mapping[str, np.ndarray]:
        return {name: expected[name] for name in values if name in expected}

    return model.net.with_outputs(list(dict.fromkeys(names))), oracle


def _cells(difference: Difference, name: str, tolerance: float) -> tuple[str, ...]:
    return (
        "ok" if difference.relative <= tolerance else "DIFFERS",
        name,
        difference.type,
        f"{difference.largest:.3g}",
        f"{difference.relative:.3g}",
        f"{difference.elements:,} of {difference.size:,}",
    )


def _report(
    state: CommandState,
    against: str,
    tolerance: float,
    found: list[Difference],
    again: Repeated | None,
    faults: str | None,
) -> None:
    worst = max((each.relative for each in found), default=0.0)
    if state.json:
        more = {} if again is None else {"repeated": asdict(again)}
        sanitized = {} if faults is None else {"sanitizers": faults or "clean"}
        write_json(
            {
                "against": against,
                "tolerance": tolerance,
                "passed": _passed(found, tolerance, again, faults),
                "worst": worst,
                "layers": [each.record() for each in found],
                **more,
                **sanitized,
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
    if again is not None:
        bits = f"{again.differing:,} differ" if again.differing else "the bits of the first in all"
        say(f"{again.runs:,} more runs, half of them from {again.callers} threads at once: {bits}")
    if faults is not None:
        say(faults or "address and undefined-behaviour sanitizers: clean")


def _passed(
    found: list[Difference], tolerance: float, again: Repeated | None, faults: str | None
) -> bool:
    # Comparisons with NaN are false, so this is not written with `>`.
    agrees = all(each.relative <= tolerance for each in found)
    return agrees and not (again and again.differing) and not faults


@click.command(short_help="Compare every step with the model's framework or the reference.")
@model_options
@data_argument
@seed_option("Seed of random inputs for inputs without data.")
@click.option(
    "--against",
    type=click.Choice(["auto", FRAMEWORK, REFERENCE]),
    default="auto",
    show_default=True,
    help="What runs the file's format, such as onnxruntime, or the NumPy reference; `auto` is the "
    "first if installed.",
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
@click.option(
    "--runs",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="Run the compiled network so often again on the same input, and as often from several "
    "threads at once: all results must have the bits of the first.",
)
@click.option(
    "--callers",
    default=4,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Threads that call at once.",
)
@click.option(
    "--sanitize",
    is_flag=True,
    help="Also export the network and run its self-test under the address and undefined-behaviour "
    "sanitizers.",
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
    runs: int,
    callers: int,
    sanitize: bool,
    options: Options,
) -> None:
    """Runs MODEL's compiled code and compares the result of every step.

    The steps are those of the compiled network; their results are copied after each step. Layers
    of Keras are outputs instead, each of them. Then the
    network as `weft run` compiles it runs again and again, also from several threads at once. Exits
    with 3 if a difference exceeds the tolerance, if a run gives other bits than the first one, or
    if a sanitizer finds a fault.
    """
    types = model.net.inputs
    inputs = gather_inputs(data, types) if data else random_inputs(types, seed)
    # The framework's variables begin as zeros.
    inputs |= {name: np.zeros_like(inputs[name]) for name, _ in model.net.states if not data}
    net, oracle = model.net, None
    if expect is not None:
        chosen, oracle = expect.name, _recorded(model, expect)
    else:
        framework = _framework(model, against)
        chosen = framework.name if framework else REFERENCE
        if framework is not None and framework.layers and options.plan is None:
            with working(f"running {chosen}"):
                net, oracle = _every_layer(model, framework, inputs)
        elif framework is not None:
            oracle = _run_by(framework, model)
    with working(f"compiling, and running {chosen}"):
        found = net.verify(*inputs.values(), oracle=oracle, options=options)
    again = None
    if runs:
        with working("running it again"):
            library = model.net.compile(options=options).library
            again = repeated(library, model.net, inputs, runs=runs, callers=callers)
    faults = None
    if sanitize:
        with working("running it under sanitizers"):
            faults = sanitized(model.net, inputs, options)
    _report(ctx.obj, chosen, tolerance, found, again, faults)
    if not _passed(found, tolerance, again, faults):
        ctx.exit(Exit.CHECK)


def _recorded(model: Model, path: Path) -> Oracle:
    expected = gather_inputs([str(path)], model.net.outputs)
    return lambda inputs, values: expected
