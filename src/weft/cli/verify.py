"""``weft verify``: the compiled code against another implementation, step by step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

import click
import numpy as np

from weft.api import Net, Oracle
from weft.api.repeated import repeated, sanitized
from weft.api.rounded import Rounded, compare_rounded, rounds
from weft.cli.boards import serial_options, verify_board
from weft.cli.emulated import verify_emulated
from weft.cli.files import gather_inputs, random_inputs
from weft.cli.model import Model, model_options
from weft.cli.options import (
    ALL_CORES,
    FILE,
    Number,
    data_argument,
    json_option,
    options,
    seed_option,
    wide_option,
)
from weft.cli.output import Exit, working
from weft.cli.verified import ACCUMULATED, OWN, Allowed, Compared, report
from weft.errors import UserError
from weft.export.golden import STORED
from weft.frontends.source import Framework, frontend_of
from weft.options import Options

FRAMEWORK, REFERENCE = "framework", "reference"
TOLERANCE = 1e-4


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


def _one_by_one(
    model: Model, framework: Framework, inputs: Mapping[str, np.ndarray], options: Options
) -> Rounded:
    """Each operator computed from the framework's values."""
    graph = model.net.graph
    run = framework.opened(model.path, frozenset(graph.producers), model.signature)
    expected = run({**model.constants, **inputs})
    return compare_rounded(model.net, inputs, expected, options)


@click.command()
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
    type=Number(),
    help=f"Largest allowed difference, relative to the value's range; {TOLERANCE:g} if not given, "
    + ", ".join(f"{each:g} with --precision {name}" for name, each in STORED.items())
    + ".",
)
@click.option(
    "--error",
    type=click.Choice([ACCUMULATED, OWN]),
    default=ACCUMULATED,
    show_default=True,
    help="Which error --tolerance holds for: the difference that has accumulated from the inputs "
    "on, or each step's own, from the reference given the values that the step read.",
)
@click.option(
    "--steps",
    type=click.IntRange(0),
    help="Where values are rounded to integers, each operator is given the framework's values, and "
    "its integers may be so many steps from the framework's [default: 1], unless --tolerance is "
    "given, which then holds from the inputs to the outputs. Outputs of a run elsewhere may be so "
    "many steps from what is expected, in place of the tolerance.",
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
    help="Also export the network for the target, with --threads, and run its self-test under the "
    "address and undefined-behaviour sanitizers; that of several threads under the thread "
    "sanitizer, too.",
)
@options(
    "target",
    "simd",
    "threads",
    "tune",
    "exact",
    "flavour",
    "libraries",
    "encoding",
    "precision",
    "keep_float32",
    "max_rounding",
    "optimize",
    "plan",
    target="A target that QEMU emulates, such as cortex-m4: run there, and compare the outputs "
    "with --expect or the reference [default: host].",
    plan="Verify this plan (`weft plan MODEL -o FILE`).",
    threads=ALL_CORES,
)
@serial_options
@wide_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    model: Model,
    data: tuple[str, ...],
    seed: int,
    against: str,
    tolerance: float | None,
    error: str,
    steps: int | None,
    expect: Path | None,
    runs: int,
    callers: int,
    sanitize: bool,
    options: Options,
    serial: str | None,
    baud: int,
) -> None:
    """Runs MODEL's compiled code and compares the result of every step.

    The steps are those of the compiled network; their results are copied after each step. Layers
    of Keras are outputs instead, each of them, and so are the operators of LiteRT files that round
    values to integers, where each is given what LiteRT makes of the one before. Each step's own
    error is the difference from what the NumPy reference makes of the values that the step read:
    a step that introduces an error has a large one, a step that inherits it has not. Then the
    network as `weft run` compiles it runs again and again, also from several threads at once. Exits
    with 3 if a difference exceeds the tolerance, if a run gives other bits than the first one, or
    if a sanitizer finds a fault.
    """
    inputs = _given(model.net, data, seed)
    usual = STORED.get(options.precision, TOLERANCE)
    allowed = Allowed(usual if tolerance is None else tolerance)
    elsewhere = _elsewhere(options, (serial, baud) if serial else None, error, sanitize)
    if elsewhere is not None:
        if steps is not None and tolerance is None and rounds(model.net):
            allowed = Allowed(allowed.relative, steps)
        if not elsewhere(ctx.obj, model.net, inputs, expect, allowed):
            ctx.exit(Exit.CHECK)
        return
    framework = _framework(model, against) if expect is None else None
    chosen = expect.name if expect is not None else framework.name if framework else REFERENCE
    compared = Compared(chosen, allowed, error)
    rounding = framework is not None and framework.rounds and rounds(model.net)
    if framework is not None and rounding and tolerance is None and error == ACCUMULATED:
        compared.allowed = Allowed(allowed.relative, 1 if steps is None else steps)
        with working(f"compiling, and running {chosen}"):
            compared.rounded = _one_by_one(model, framework, inputs, options)
        compared.layers = compared.rounded.operators
    else:
        _compare_steps(compared, model, framework, expect, inputs, options)
    if runs:
        with working("running it again"):
            library = model.net.compile(options=options).library
            compared.again = repeated(library, model.net, inputs, runs=runs, callers=callers)
    if sanitize:
        with working("running it under sanitizers"):
            compared.sanitized = sanitized(model.net, inputs, options)
    report(ctx.obj, compared)
    if not compared.passed:
        ctx.exit(Exit.CHECK)


def _compare_steps(
    compared: Compared,
    model: Model,
    framework: Framework | None,
    expect: Path | None,
    inputs: Mapping[str, np.ndarray],
    options: Options,
) -> None:
    """Compares the steps of the whole network, and each by itself."""
    net, oracle = model.net, None
    if expect is not None:
        oracle = _recorded(model, expect)
    elif framework is not None and framework.layers and options.plan is None:
        with working(f"running {compared.against}"):
            net, oracle = _every_layer(model, framework, inputs)
    elif framework is not None:
        oracle = _run_by(framework, model)
    with working(f"compiling, and running {compared.against}"):
        run = net.run_steps(*inputs.values(), oracle=oracle, options=options)
    compared.layers = run.accumulated()
    with working("computing each step by itself"):
        compared.own = run.own()
    if compared.only_accumulates:
        with working("computing in double precision"):
            compared.double = run.from_double()


def _given(net: Net, data: tuple[str, ...], seed: int) -> dict[str, np.ndarray]:
    """The inputs by name: of files, or random ones."""
    types = net.inputs
    if data:
        return gather_inputs(data, types)
    inputs = random_inputs(types, seed, quantized=rounds(net))
    # The framework's variables begin as zeros.
    return inputs | {name: np.zeros_like(inputs[name]) for name, _ in net.states}


def _elsewhere(
    options: Options, line: tuple[str, int] | None, error: str, sanitize: bool
) -> Callable[..., bool] | None:
    """What compares a run that is not on this machine, if one is asked for."""
    if line is None and options.target in ("", "host"):
        return None
    if error == OWN:
        raise UserError(
            "errors of single steps are measured on this machine",
            got=f"--error {OWN}",
            fix="Leave out --target and --serial, or --error.",
        )
    if line is None:
        return partial(verify_emulated, options=options, sanitize=sanitize)
    if sanitize:
        raise UserError(
            "sanitizers run on this machine",
            got="--serial and --sanitize",
            fix="Leave one out; with --target they check the C that is written for it.",
        )
    return partial(verify_board, line=line)


def _recorded(model: Model, path: Path) -> Oracle:
    expected = gather_inputs([str(path)], model.net.outputs)
    return lambda inputs, values: expected
