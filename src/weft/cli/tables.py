"""``weft ops``, ``weft rules``, ``weft targets``, ``exports``, ``datasets``: what there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeAlias, cast

import click

from weft.cli.options import json_option, wide_option
from weft.cli.output import CommandState, say, table, warn_failed, write_json
from weft.codegen.flavours import flavour_named
from weft.datasets import DATASETS
from weft.export.exports import EXPORTS
from weft.ops.record import NoGrad, Op
from weft.ops.table import OPS
from weft.plugins import Table
from weft.rewrite.recipes import PLUGINS, all_rules
from weft.runtime.limits import Level, known_levels
from weft.targets.find import ALL, host
from weft.targets.find import target as find_target
from weft.targets.target import Memory, Target

Costs: TypeAlias = tuple[tuple[str, float], ...]


def _op(op: Op) -> dict[str, str | bool]:
    return {
        "name": op.name,
        "computed": type(op.compute).__name__.lower(),
        "gradient": not isinstance(op.grad, NoGrad),
        "doc": op.doc,
    }


@click.command()
@wide_option
@json_option
@click.pass_obj
def ops(state: CommandState) -> None:
    """Lists the ops.

    `define`: an index expression; `expand`: a graph of other ops; `extern`: a C body; `control`: a
    body graph, run repeatedly.
    """
    warn_failed(OPS)
    found = [_op(OPS[name]) for name in sorted(OPS)]
    if state.json:
        write_json(found)
        return
    rows = [(str(op["name"]), str(op["computed"]), str(op["doc"])) for op in found]
    table(("op", "computed", "what"), rows, (), prose=True)


@click.command()
@wide_option
@json_option
@click.pass_obj
def rules(state: CommandState) -> None:
    """Lists the rewrite rules in the order of application."""
    warn_failed(PLUGINS)
    if state.json:
        write_json(
            [
                {"name": rule.name, "exactness": rule.exactness.value, "doc": rule.doc}
                for rule in all_rules()
            ]
        )
        return
    rows = [(rule.name, rule.exactness.value, rule.doc) for rule in all_rules()]
    table(("rule", "exactness", "what"), rows, (), prose=True)


def _listed(state: CommandState, parts: Table[Any], heading: str) -> None:
    """A table of names and what they stand for."""
    warn_failed(parts)
    found = [{"name": name, "doc": part.doc} for name, part in parts.items()]
    if state.json:
        write_json(found)
        return
    table((heading, "what"), [(each["name"], each["doc"]) for each in found], (), prose=True)


@click.command()
@wide_option
@json_option
@click.pass_obj
def exports(state: CommandState) -> None:
    """Lists the exports: `weft export --also NAME` adds the files of one to a toolkit."""
    _listed(state, EXPORTS, "export")


@click.command()
@wide_option
@json_option
@click.pass_obj
def datasets(state: CommandState) -> None:
    """Lists the data sets: samples with labels."""
    _listed(state, DATASETS, "data set")


def vector_bytes(machine: Target) -> int:
    """Width of the vector types in the C for a target; 0 where it has none."""
    return machine.vector_bytes if flavour_named(machine.flavour).vectors else 0


def _target(name: str, machine: Target) -> dict[str, Any]:
    record = asdict(machine)
    record["costs"]["operations"] = dict(machine.costs.operations)
    own = {"name": name, "vector_bytes": vector_bytes(machine), "registers": machine.registers}
    return {**record, **own}


@click.command()
@click.argument("name", required=False)
@wide_option
@json_option
@click.pass_obj
def targets(state: CommandState, name: str | None) -> None:
    """Lists the targets, or shows the record of one; `host` is this machine."""
    warn_failed(ALL)
    if name is not None:
        _show_target(state, find_target(name))
        return
    found = {**ALL, "host": host()}
    if state.json:
        write_json([_target(name, machine) for name, machine in found.items()])
        return
    rows = [
        (name, str(vector_bytes(machine) or ""), machine.flavour, machine.doc)
        for name, machine in found.items()
    ]
    table(("target", "vector bytes", "C", "what"), rows, (1,), prose=True)


def _show_target(state: CommandState, machine: Target) -> None:
    """The record of one; of this machine, what ``weft bench --limits`` measured, too."""
    if state.json:
        write_json(_target(machine.name, machine))
        return
    say(f"{machine.name}: {machine.doc}\n")
    rows = [
        ("flavour", machine.flavour),
        ("flags", " ".join(machine.flags)),
        ("architecture", machine.architecture),
        ("core", machine.core),
        ("features", " ".join(machine.features)),
        ("integers", str(machine.integers or "")),
        ("floats", str(machine.floats or "")),
        ("clock", f"{machine.clock} MHz" if machine.clock else ""),
        ("stack_limit", str(machine.stack_limit)),
    ]
    for part in ("vectors", "issue", "costs"):
        record = getattr(machine, part)
        values = [(each.name, getattr(record, each.name)) for each in fields(record)]
        rows += [(f"{part}.{key}", _figure(value)) for key, value in values]
    table(("key", "value"), [row for row in rows if row[1]], (), prose=True)
    if machine.memories:
        click.echo()
        empty: Mapping[str, Level] = {}
        levels = known_levels(machine) if machine.name == "host" else empty
        headings = ("memory", "kind", "bytes", "bytes/cycle", "alignment", "reach", "region")
        headings = (*headings, "holds", "measured")
        rows = [_memory(each, levels) for each in machine.memories]
        table(headings, rows, (2, 3, 4, 8), ("alignment", "region"))


def _figure(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{op} {cost:g}" for op, cost in cast("Costs", value))
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _memory(memory: Memory, levels: Mapping[str, Level]) -> tuple[str, ...]:
    measured = levels.get(memory.name)
    return (
        memory.name,
        memory.kind,
        f"{memory.bytes:,}" if memory.bytes else "",
        f"{memory.bytes_per_cycle:g}" if memory.bytes_per_cycle else "",
        str(memory.alignment),
        memory.reach,
        "yes" if memory.region else "",
        ", ".join(memory.holds),
        f"{measured.gbytes:,.1f} GB/s" if measured else "",
    )
