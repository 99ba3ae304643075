"""``weft impls``: the alternatives for an op or a model's layers, and the refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from weft import api
from weft.cli.model import parse_shapes, rounding_option
from weft.cli.options import json_option, options, wide_option
from weft.cli.output import CommandState, say, table, working, write_json
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.short_names import names_of
from weft.ir.types import parse_type
from weft.kernels.examples import example_graph, op_named, parse_attributes
from weft.kernels.explain import ExplainedLayer
from weft.kernels.generators import GENERATORS
from weft.ops.table import OPS
from weft.options import Options
from weft.plan.choice import Answer, Offered
from weft.rewrite.float_layers import FloatLayer


def element_type(text: str) -> DType:
    """``f32`` or ``float32``."""
    try:
        return DType(text)
    except ValueError:
        pass
    try:
        return DType.of(np.dtype(text))
    except (TypeError, KeyError, UserError):
        names = ", ".join(each.value for each in DType)
        raise UserError(f"an element type is one of {names}", got=text) from None


def _model(what: str) -> tuple[Path, str] | None:
    """``MODEL`` or ``MODEL:NODE``: the file and the node; nothing if there is no such file."""
    if Path(what).is_file():
        return Path(what), ""
    for place, letter in enumerate(what):
        if letter == ":" and Path(what[:place]).is_file():
            return Path(what[:place]), what[place + 1 :]
    return None


def _of_op(
    what: str, attributes: Sequence[str], inputs: Sequence[str], dtype: str | None
) -> api.Net:
    op = op_named(what, OPS)
    if inputs and dtype is not None:
        raise UserError("--dtype is for inputs that are not given", got=f"{dtype} and --input")
    types = [parse_type(each) for each in inputs]
    element = element_type(dtype or "f32")
    return api.Net(example_graph(op, element, types, parse_attributes(attributes)))


@click.command()
@click.argument("what", required=False)
@click.argument("attributes", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--dtype", help="Element type of an op's inputs: f32 (float32), i8, ... [default: f32]."
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="TYPE|NAME=SHAPE",
    help="For an op: type of an input, such as f32[1,64,56,56]; for a model as in other commands.",
)
@rounding_option
@options(
    "target",
    "batch",
    "threads",
    "exact",
    "libraries",
    "encoding",
    "precision",
    "keep_float32",
    "max_rounding",
    "optimize",
)
@wide_option
@json_option
@click.pass_obj
def impls(
    state: CommandState,
    what: str | None,
    attributes: Sequence[str],
    dtype: str | None,
    inputs: Sequence[str],
    rounding: str | None,
    options: Options,
) -> None:
    """Lists the alternative kernels for WHAT: an op, MODEL, or MODEL:NODE.

    For an op (with KEY=VALUE for its attributes) or a node: every alternative with its estimated
    cycles on one core, the choice, and the generators that do not apply, with the reasons. For a
    model: one line for each layer. Without WHAT: the generators and their requirements.
    """
    if what is None:
        _generators(state)
        return
    model = _model(what)
    with working("planning"):
        if model is None:
            net, asked = _of_op(what, attributes, inputs, dtype), ""
        else:
            if attributes or dtype is not None:
                raise UserError(
                    "attributes and --dtype are for ops", got=" ".join(attributes) or str(dtype)
                )
            net = api.load(model[0], parse_shapes(inputs), rounding=rounding or "")
            net, asked = net.bound(options.batch), model[1]
        graph = net.expanded(
            options.machine(),
            exact=options.exact,
            precision=options.precision,
            keep_float32=options.keep_float32,
        ).graph
        # A node may be asked for as it is shown.
        node = next((each for each, shown in names_of(graph).items() if shown == asked), asked)
        layers = net.implementations(node=node, options=options)
    names = names_of(graph, (name for each in layers for name in (each.name, *each.nodes)))
    if state.json:
        write_json(
            {
                "target": options.target or "host",
                "layers": [each.record() for each in layers],
                "float": [asdict(each) for each in net.float_layers()],
            }
        )
    elif model is not None and not node:
        _overview(layers, names)
        _in_float(net.float_layers())
    else:
        for each in layers:
            _layer(each, names)


def _generators(state: CommandState) -> None:
    if state.json:
        write_json(
            [
                {"generator": each.name, "doc": each.doc, "needs": each.needs}
                for each in GENERATORS.values()
            ]
        )
        return
    for each in GENERATORS.values():
        click.echo(f"{each.name}: {each.doc}")
        for need in each.needs:
            click.echo(f"  needs: {need}")


def _cycles(cycles: float | None) -> str:
    return "unknown" if cycles is None else f"{cycles:,.0f}"


def _in_float(found: Sequence[FloatLayer]) -> None:
    """What a quantized network computes in float."""
    if found:
        say(f"\nin float, {len(found)} of the quantized network's nodes:")
        for each in found:
            say(f"  {each}")


# What goes first where the terminal is too narrow.
_DROP = ("refused by", "makes", "alternatives", "cycles")


def _overview(layers: Sequence[ExplainedLayer], names: Mapping[str, str]) -> None:
    rows: list[tuple[str, ...]] = []
    for layer in layers:
        offered = [each for answer in layer.answers for each in answer.alternatives]
        chosen = next((each for each in offered if each.chosen), None)
        refusing = [each.generator for each in layer.answers if each.refusal]
        rows.append(
            (
                names[layer.nodes[-1]],
                " + ".join(layer.ops),
                layer.type,
                layer.scheme,
                _cycles(chosen.cycles) if chosen else "",
                str(len(offered)),
                ", ".join(refusing),
            )
        )
    headings = ("node", "does", "makes", "chosen", "cycles", "alternatives", "refused by")
    table(headings, rows, (4, 5), _DROP)


def _layer(layer: ExplainedLayer, names: Mapping[str, str]) -> None:
    say(f"{names[layer.name]} {layer.type}: {' + '.join(layer.ops)}")
    say(f"nodes: {', '.join(names[each] for each in layer.nodes)}")
    say(f"chosen: {layer.scheme}{f' ({layer.reason})' if layer.reason else ''}")
    if not layer.answers:
        say("no loops to choose")
    rows = [row for answer in layer.answers for row in _answer(answer)]
    if rows:
        headings = ("generator", "alternative", "cycles", "adds up as", "")
        table(headings, rows, (2,), ("adds up as",))
    for answer in layer.answers:
        if answer.refusal:
            say(f"{answer.generator} refused: {answer.refusal}")
    click.echo()


def _answer(answer: Answer) -> list[tuple[str, ...]]:
    return [
        (
            answer.generator,
            each.name,
            _cycles(each.cycles),
            each.sums,
            _note(each),
        )
        for each in answer.alternatives
    ]


def _note(each: Offered) -> str:
    """Whether an alternative is chosen, why it cannot be, and the error that it adds."""
    if each.error:
        state = "chosen, " if each.chosen else "" if each.applies else "not allowed: "
        return f"{state}error {each.error:.2%}"
    return "chosen" if each.chosen else "" if each.applies else "loops do not apply"
