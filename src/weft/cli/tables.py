"""``weft ops``, ``weft rules``, ``weft targets``, ``exports``, ``datasets``: what there is."""

from __future__ import annotations

from typing import Any

import click

from weft.cli.common import State, json_option, table, warn_failed, wide_option, write_json
from weft.codegen.flavours import flavour_named
from weft.datasets import DATASETS
from weft.export.exports import EXPORTS
from weft.ops.record import NoGrad, Op
from weft.ops.table import OPS
from weft.plugins import Table
from weft.rewrite.recipes import PLUGINS, all_rules
from weft.targets.table import ALL, host
from weft.targets.target import Target


def _op(op: Op) -> dict[str, str | bool]:
    return {
        "name": op.name,
        "computed": type(op.compute).__name__.lower(),
        "gradient": not isinstance(op.grad, NoGrad),
        "doc": op.doc,
    }


@click.command(short_help="The ops that Weft knows.")
@wide_option
@json_option
@click.pass_obj
def ops(state: State) -> None:
    """Lists the ops.

    `define` is computed by an index expression, `expand` by other ops, `extern` by a C
    body, `control` runs a body graph.
    """
    warn_failed(OPS)
    found = [_op(OPS[name]) for name in sorted(OPS)]
    if state.json:
        write_json(found)
        return
    rows = [(str(op["name"]), str(op["computed"]), str(op["doc"])) for op in found]
    table(("op", "computed", "what"), rows, (), prose=True)


@click.command(short_help="The rewrite rules.")
@wide_option
@json_option
@click.pass_obj
def rules(state: State) -> None:
    """Lists the rules that every model goes through, in the order in which they are tried."""
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


def _listed(state: State, parts: Table[Any], heading: str) -> None:
    """A table of names and what they stand for."""
    warn_failed(parts)
    found = [{"name": name, "doc": part.doc} for name, part in parts.items()]
    if state.json:
        write_json(found)
        return
    table((heading, "what"), [(each["name"], each["doc"]) for each in found], (), prose=True)


@click.command(short_help="What `weft export` can write beside the C.")
@wide_option
@json_option
@click.pass_obj
def exports(state: State) -> None:
    """Lists the exports: `weft export --also NAME` adds the files of one to a toolkit."""
    _listed(state, EXPORTS, "export")


@click.command(short_help="The data sets.")
@wide_option
@json_option
@click.pass_obj
def datasets(state: State) -> None:
    """Lists the data sets: samples with labels."""
    _listed(state, DATASETS, "data set")


def vector_bytes(machine: Target) -> int:
    """Width of the vector types in the C for a target; 0 where it has none."""
    return machine.vector_bytes if flavour_named(machine.flavour).vectors else 0


def _target(name: str, machine: Target) -> dict[str, str | int | list[str]]:
    return {
        "name": name,
        "vector_bytes": vector_bytes(machine),
        "registers": machine.registers,
        "flavour": machine.flavour,
        "flags": list(machine.flags),
        "doc": machine.doc,
    }


@click.command(short_help="The machines that Weft generates code for.")
@wide_option
@json_option
@click.pass_obj
def targets(state: State) -> None:
    """Lists the targets; `host` is this machine."""
    warn_failed(ALL)
    found = [_target(name, machine) for name, machine in ALL.items()]
    found.append(_target("host", host()))
    if state.json:
        write_json(found)
        return
    rows = [
        (str(each["name"]), str(each["vector_bytes"] or ""), str(each["flavour"]), str(each["doc"]))
        for each in found
    ]
    table(("target", "vector bytes", "C", "what"), rows, (1,), prose=True)
