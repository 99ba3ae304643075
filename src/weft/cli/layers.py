"""What ``weft bench`` says about single layers and about the machine."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import cast

import click

from weft.api.given import machine_of, text_of
from weft.cli.files import random_inputs
from weft.cli.model import Model
from weft.cli.output import CommandState, say, table, working, write_json
from weft.codegen.flavours import Dialect, flavour_named
from weft.errors import UserError
from weft.ops.table import OPS
from weft.options import Options
from weft.pictures.file import write_picture
from weft.pictures.roofline import Dot, Roof, roofline
from weft.plan.plan import Plan
from weft.plan.report import size
from weft.plan.to_program import lower
from weft.runtime.compiler import find_compiler, machine_flags
from weft.runtime.limits import Limits, Meter, limits
from weft.runtime.profile import LayerTime, Profile, profile
from weft.runtime.threads import cores
from weft.runtime.timing import microseconds
from weft.targets.find import host, runs_here
from weft.targets.target import Target

_HEADINGS = (
    "step",
    "does",
    "makes",
    "scheme",
    "µs",
    "share",
    "GFLOP/s",
    "own GFLOP/s",
    "moves",
    "GB/s",
    "of limit",
    "limit",
)


# What goes first where the terminal is too narrow.
_DROP = ("own GFLOP/s", "GB/s", "moves", "limit", "scheme", "of limit", "GFLOP/s", "makes")


def _cells(layer: LayerTime, whole: float) -> tuple[str, ...]:
    makes = ", ".join(each.rpartition(" ")[2] for each in layer.writes)
    return (
        str(layer.step),
        " + ".join(layer.ops),
        makes,
        layer.scheme,
        microseconds(layer.median, whole),
        f"{layer.median / whole:.1%}",
        f"{layer.gflops:,.1f}",
        f"{layer.own_gflops:,.1f}",
        size(layer.bytes),
        f"{layer.gbytes:,.1f}",
        f"{layer.fraction:.0%}" if layer.bound else "",
        layer.bound,
    )


def _total(found: Profile) -> tuple[str, ...]:
    return (
        "",
        f"{len(found.layers)} steps",
        "",
        "",
        microseconds(found.median),
        "100.0%",
        f"{found.flops / found.median / 1000:,.1f}",
        f"{found.executed / found.median / 1000:,.1f}",
        size(found.bytes),
        f"{found.bytes / found.median / 1000:,.1f}",
        f"{found.limit / found.median:.0%}" if found.limits else "",
        "",
    )


def picture(found: Profile, measured: Limits) -> str:
    """The roofline plot of a profile."""
    dots = [
        Dot(
            f"{layer.step} {' + '.join(layer.ops)}",
            layer.scheme,
            layer.intensity,
            layer.own_gflops,
            layer.median / found.median,
            f"{', '.join(layer.sources)}\n{', '.join(layer.writes)}",
        )
        for layer in found.layers
        if layer.intensity > 0 and layer.own_gflops > 0
    ]
    roofs = [Roof(level.name, level.gbytes) for level in measured.levels]
    caption = (
        f"{microseconds(found.median)} µs, called from C; {measured.processor}, vectors of "
        f"{measured.vector_bytes} bytes, threads: {measured.threads}; "
        "areas are shares of the time"
    )
    return roofline(found.name, caption, dots, measured.gflops, roofs)


def runnable(options: Options) -> Options:
    """The options with a target whose instructions this machine has.

    Args:
        options: perhaps with ``simd``: this machine with these vector instructions alone.

    Raises:
        UserError: it has not.
    """
    simd, plan = options.simd, options.plan
    if simd and (plan or options.target not in ("", "host")):
        other = f"--plan and --simd {simd}" if plan else f"{options.target} and {simd}"
        raise UserError("--target and --simd exclude each other", got=other)
    machine = host(simd) if simd else options.machine()
    if plan is not None:
        options = options.of_plan(text_of(plan))
        machine = machine_of(text_of(plan))
    if not runs_here(machine):
        raise UserError(
            "only code for this machine can be measured",
            got=machine.name,
            fix="Leave out --target.",
        )
    return replace(options, target=machine, simd="")


def built_as(plan: Plan, flavour: str = "") -> tuple[Dialect, list[str]]:
    """The dialect of C and the compiler's flags that a plan is built with here."""
    machine = cast(Target, plan.target)
    dialect = flavour_named(flavour or plan.constraints.flavour or machine.flavour)
    return dialect, machine_flags(find_compiler(), dialect, machine)


def profiled(
    model: Model,
    options: Options,
    *,
    seconds: float,
    seed: int = 0,
    measured: Limits | None = None,
) -> Profile:
    """How long each step of a model takes.

    Args:
        model: the model.
        options: from ``runnable``.
        seconds: for how long to measure.
        seed: of the random inputs.
        measured: what this machine can do, to say how far from that each step is; what it does
            between the runs is measured, then, too.
    """
    with working("compiling and measuring"):
        plan = model.net.plan(options=options)
        flavour, flags = built_as(plan)
        return profile(
            plan,
            lower(plan),
            tuple(random_inputs(model.net.inputs, seed).values()),
            OPS,
            flavour=flavour,
            flags=flags,
            seconds=seconds,
            limits=measured,
            meter=measured and Meter(options.machine(), options.threads or 1),
        )


def show_layers(
    state: CommandState,
    model: Model,
    options: Options,
    *,
    seconds: float,
    seed: int,
    top: int,
    svg: Path | None,
) -> None:
    """Profiles a model and prints, or draws, what was found."""
    with working("measuring this machine"):
        measured = limits(options.machine(), options.threads or 1)
    found = profiled(model, options, seconds=seconds, seed=seed, measured=measured)
    if svg is not None:
        write_picture(svg, picture(found, measured))
    if state.json:
        write_json(found.record())
        return
    layers = found.layers
    if top:
        layers = sorted(layers, key=lambda layer: -layer.median)[:top]
    rows = [_cells(layer, found.median) for layer in layers]
    table(_HEADINGS, [*rows, _total(found)], (0, 4, 5, 6, 7, 8, 9, 10), _DROP)
    say(
        f"\nmedians of {found.runs:,} runs called from C, with the reading of a counter after "
        f"each step; threads: {found.threads}; the fastest run took {microseconds(found.least)} "
        f"µs; limits of this machine: {_summary(measured)}"
    )
    given = found.gflops / measured.gflops
    if found.peak_fraction:
        say(
            f"convolutions and matrix products: {found.peak_fraction:.1%} of the peak, the mean "
            "weighted with what they do"
        )
    say(f"between the runs, this machine multiplied and added at {given:.1%} of its peak")
    if svg is not None:
        say(f"roofline: {svg}")


def _summary(measured: Limits) -> str:
    levels = ", ".join(f"{level.name} {level.gbytes:,.1f}" for level in measured.levels)
    return f"{measured.gflops:,.1f} GFLOP/s; GB/s: {levels}"


def show_limits(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Measures and prints what this machine can do, and ends the command."""
    if not wanted:
        return
    target, simd = (ctx.params.get(name) or "" for name in ("target", "simd"))
    machine = runnable(Options(target=target, simd=simd)).machine()
    with working("measuring this machine"):
        found = [limits(machine, count + 1, again=True) for count in range(cores())]
    if ctx.obj.json:
        write_json({"machine": platform.machine(), "limits": [each.record() for each in found]})
        ctx.exit()
    names = [level.name for level in found[0].levels]
    rows = [
        (
            str(each.threads),
            f"{each.gflops:,.1f}",
            *(f"{level.gbytes:,.1f}" for level in each.levels),
        )
        for each in found
    ]
    say(f"{found[0].processor}, vectors of {found[0].vector_bytes} bytes\n")
    headings = ("threads", "GFLOP/s", *(f"{name} GB/s" for name in names))
    table(headings, rows, range(len(headings)))
    ctx.exit()
