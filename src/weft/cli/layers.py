"""What ``weft bench`` says about single layers and about the machine."""

from __future__ import annotations

import platform
from pathlib import Path

import click

from weft.cli.common import Model, State, table, working, write_json
from weft.cli.files import random_inputs, write_text
from weft.ops.table import OPS
from weft.plan.lower import lower
from weft.plan.report import size
from weft.plan.roofline import Dot, Roof, roofline
from weft.runtime.limits import Limits, limits
from weft.runtime.profile import LayerTime, Profile, profile
from weft.runtime.threads import cores
from weft.targets.table import target

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


def _cells(layer: LayerTime, whole: float) -> tuple[str, ...]:
    makes = ", ".join(each.rpartition(" ")[2] for each in layer.writes)
    return (
        str(layer.step),
        " + ".join(layer.ops),
        makes,
        layer.scheme,
        f"{layer.median:,.1f}",
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
        f"{found.median:,.1f}",
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
        f"{found.median / 1000:,.3f} ms; {measured.processor}, vectors of "
        f"{measured.vector_bytes} bytes, threads: {measured.threads}; "
        "areas are shares of the time"
    )
    return roofline(found.name, caption, dots, measured.gflops, roofs)


def show_layers(
    state: State,
    model: Model,
    seconds: float,
    seed: int,
    threads: int,
    top: int,
    svg: Path | None,
) -> None:
    """Profiles a model and prints, or draws, what was found."""
    machine = target("host")
    with working("measuring this machine"):
        measured = limits(machine, threads)
    with working("compiling and measuring"):
        plan = model.net.plan(machine, threads=threads)
        found = profile(
            plan,
            lower(plan, model.net.graph.name),
            tuple(random_inputs(model.net.inputs, seed).values()),
            OPS,
            flavour=machine.flavour,
            seconds=seconds,
            limits=measured,
        )
    if svg is not None:
        write_text(svg, picture(found, measured))
    if state.json:
        write_json(found.record())
        return
    layers = found.layers
    if top:
        layers = sorted(layers, key=lambda layer: -layer.median)[:top]
    rows = [_cells(layer, found.median) for layer in layers]
    table(_HEADINGS, [*rows, _total(found)], (0, 4, 5, 6, 7, 8, 9, 10))
    click.echo(
        f"\nmedians of {found.runs:,} runs, threads: {found.threads}; the fastest run took "
        f"{found.least:,.1f} µs; limits of this machine: {_summary(measured)}"
    )
    if svg is not None:
        click.echo(f"roofline: {svg}")


def _summary(measured: Limits) -> str:
    levels = ", ".join(f"{level.name} {level.gbytes:,.1f}" for level in measured.levels)
    return f"{measured.gflops:,.1f} GFLOP/s; GB/s: {levels}"


def show_limits(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Measures and prints what this machine can do, and ends the command."""
    if not wanted:
        return
    machine = target("host")
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
    click.echo(f"{found[0].processor}, vectors of {found[0].vector_bytes} bytes\n")
    headings = ("threads", "GFLOP/s", *(f"{name} GB/s" for name in names))
    table(headings, rows, range(len(headings)))
    ctx.exit()
