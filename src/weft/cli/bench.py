"""``weft bench``: how long one run takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from weft.cli.boards import bench_board, serial_options
from weft.cli.draw import svg_option
from weft.cli.emulated import bench_emulated, is_emulated
from weft.cli.files import random_inputs
from weft.cli.layers import built_as, runnable, show_layers, show_limits
from weft.cli.model import Model, model_options
from weft.cli.options import SECONDS, json_option, options, seed_option, wide_option
from weft.cli.output import CommandState, say, table, working, write_json
from weft.errors import UserError
from weft.frontends.onnx.session import Session
from weft.options import Options
from weft.plan.to_program import lower
from weft.runtime.build import build
from weft.runtime.compiler import find_compiler
from weft.runtime.library import Library
from weft.runtime.timing import Timing, from_c, from_python, measure, microseconds
from weft.targets.find import runs_here

_CALLS_SHARE = 0.25
"""Of the time to measure C, for calls from Python."""


def _built(model: Model, options: Options, flavour: str) -> Library:
    plan = model.net.plan(options=options)
    dialect, flags = built_as(plan, flavour)
    return build(lower(plan), dialect, flags=flags)


def _cells(what: str, timing: Timing, macs: int) -> tuple[str, ...]:
    rate = 2 * macs / timing.median / 1000 if timing.median else 0.0
    return (
        f"{what}, called from {timing.called_from}",
        microseconds(timing.least),
        microseconds(timing.median),
        microseconds(timing.most),
        f"{timing.runs:,}",
        f"{rate:.2f}",
    )


@click.command()
@model_options
@click.option(
    "--seconds",
    default=2.0,
    type=SECONDS,
    show_default=True,
    help="Seconds of measurement for each.",
)
@click.option("--flavour", "flavours", multiple=True, help="c89, c99 or gnu; may be repeated.")
@click.option(
    "--onnxruntime", "rival", is_flag=True, help="Also measure onnxruntime with one thread."
)
@seed_option("Seed of the random inputs.")
@options(
    "threads",
    "target",
    "simd",
    "tune",
    "plan",
    "exact",
    "libraries",
    "encoding",
    "precision",
    "keep_float32",
    "max_rounding",
    "optimize",
    target="Target whose instructions to use; if this machine lacks them and QEMU emulates the "
    "target, count instructions by function there instead.",
    plan="Measure this plan (`weft plan MODEL -o FILE`).",
)
@click.option(
    "--layers", is_flag=True, help="Time each step and compare it with the limits of this machine."
)
@click.option(
    "--top",
    type=click.IntRange(1),
    metavar="N",
    help="With --layers: show only the N slowest steps.",
)
@svg_option("With --layers: draw a roofline plot to this file.")
@click.option(
    "--limits",
    is_flag=True,
    expose_value=False,
    callback=show_limits,
    help="Measure and print the limits of this machine; needs no MODEL.",
)
@serial_options
@wide_option
@json_option
@click.pass_obj
def bench(
    state: CommandState,
    model: Model,
    seconds: float,
    flavours: Sequence[str],
    rival: bool,
    seed: int,
    options: Options,
    layers: bool,
    top: int | None,
    svg: Path | None,
    serial: str | None,
    baud: int,
) -> None:
    """Compiles MODEL for this machine and measures the latency of single runs.

    Runs are timed called from C, in a loop as in a C program, and called from Python, which
    dominates for small networks; onnxruntime is called from Python. Runs shorter than 0.1 ms are
    timed in batches.

    With --layers every step is timed within whole runs. GFLOP/s counts the operations of the
    model; own GFLOP/s those of the kernel, which are fewer if an algorithm saves some or skips
    borders. Moves is the minimum of bytes read and written. Of limit is the achieved share of this
    machine's limit: its multiply-adds, or the bandwidth of the memory level that holds the
    operands.
    """
    if serial:
        bench_board(state, model.net, random_inputs(model.net.inputs, seed), (serial, baud))
        return
    if is_emulated(options) and not runs_here(options.machine()):
        inputs = random_inputs(model.net.inputs, seed)
        bench_emulated(state, model.net, inputs, options)
        return
    options = runnable(options)
    if layers:
        show_layers(state, model, options, seconds=seconds, seed=seed, top=top or 0, svg=svg)
        return
    if top or svg is not None:
        raise UserError("--top and --svg require --layers", fix="Add --layers.")
    inputs = random_inputs(model.net.inputs, seed)
    arrays = tuple(inputs.values())
    timings: list[tuple[str, Timing]] = []
    for flavour in flavours or ("",):
        start = time.perf_counter()
        with working("compiling"):
            library = _built(model, options, flavour)
        built = time.perf_counter() - start
        what = f"weft {library.files.flavour.name}"
        with working("measuring"):
            timings.append((what, measure(from_c(library, arrays), seconds)))
            call = partial(library, *arrays, out=library(*arrays))
            timings.append((what, measure(from_python(call), seconds * _CALLS_SHARE)))
        say(f"compiled in {built:.1f} s by {find_compiler()}", err=True)
    if rival:
        session = Session(model.path)
        given = {**model.constants, **inputs}
        with working("measuring onnxruntime"):
            timer = from_python(partial(session, given))
            timings.append(("onnxruntime", measure(timer, seconds)))
    macs = model.net.stats().macs
    if state.json:
        found = [{"what": what, **asdict(timing)} for what, timing in timings]
        write_json({"macs": macs, "timings": found})
        return
    headings = ("", "least µs", "median µs", "95 % µs", "runs", "GFLOP/s")
    table(headings, [_cells(*each, macs) for each in timings], range(1, 6), ("runs", "95 % µs"))
