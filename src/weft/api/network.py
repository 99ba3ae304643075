"""Networks as functions see them, and other networks that compute the same.

``Net`` has the functions of this module, of ``planned`` and of ``looked`` as its methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Protocol, TypeVar, cast

import numpy as np

from weft.api.named import Outputs, arranged, named_outputs, outputs_type
from weft.cached import cached_property
from weft.compress.constant_channels import (
    ConstantChannelParameters,
    without_constant_channels,
)
from weft.errors import UserError
from weft.frontends import onnx
from weft.ir.compose import bind_symbols
from weft.ir.diff import GraphDiff
from weft.ir.diff import diff as diff_graphs
from weft.ir.graph import Graph, noted
from weft.ir.native import save as save_native
from weft.ir.types import Symbol
from weft.ops.evaluate import evaluate, fitting
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.ops.trace import call_graph
from weft.ops.values import Value
from weft.options import Inputs, Options
from weft.rewrite.chosen import RuleLike, rules_of, told_of
from weft.rewrite.engine import Log
from weft.rewrite.engine import rewrite as apply_rules
from weft.rewrite.half_precision import moving_halves, narrowed
from weft.rewrite.layout import TO_FIRST, relaid
from weft.rewrite.natives import use_natives
from weft.rewrite.recipe import Recipe
from weft.rewrite.recipes import simplify, tidy
from weft.rewrite.rule import Exactness, exactness_of
from weft.surgery.edits import HasGraph
from weft.targets.target import Target


class Network(HasGraph, Protocol):
    """A graph, and the states that runs hand on."""

    @property
    def states(self) -> tuple[tuple[str, str], ...]:
        """Inputs and the outputs that are their values for the next run."""
        ...

    @cached_property
    def simplification(self) -> tuple[Graph, Log]:
        """The graph after the recipes that every model goes through, and what they did."""
        ...

    def release(self) -> None:
        """Forgets what can be made again."""
        ...


N = TypeVar("N", bound=Network)


def free_inputs(net: Network) -> tuple[str, ...]:
    """The inputs that a call gives: those that are no states."""
    held = dict(net.states)
    return tuple(each for each in net.graph.inputs if each not in held)


def arranged_inputs(net: Network, inputs: Inputs | None) -> Sequence[np.ndarray] | None:
    """Inputs that were given in order or by name, in order; without states."""
    if inputs is None:
        return None
    given = (inputs,) if isinstance(inputs, Mapping) else inputs
    return arranged(net.graph.name, "input", free_inputs(net), given, {})


def bound(net: N, batch: int = 1) -> N:
    """The net with its open leading dimension, if it has one, made ``batch``."""
    names = {
        dim.name
        for type in net.graph.types.values()
        for dim in type.shape
        if isinstance(dim, Symbol)
    }
    if not names:
        if batch != 1 and all(
            batch not in net.graph.types[name].shape for name in net.graph.inputs
        ):
            raise UserError(
                f"only an open size can be bound; all of {net.graph.name} are known",
                got=f"batch {batch}",
                fix="Other shapes: --input NAME=SHAPE, or in Python net.with_shapes.",
            )
        return net
    return net.with_graph(bind_symbols(net.graph, dict.fromkeys(sorted(names), batch)))


def simplified(net: N, *, exact: bool = False) -> N:
    """The net after the recipes that every model goes through.

    Args:
        exact: leave out what is not bit-exact.
    """
    if exact:
        return net.with_graph(simplify(net.graph, allow=Exactness.BIT_EXACT)[0])
    return net.with_graph(net.simplification[0])


def rewrite(
    net: N, rules: RuleLike | Iterable[RuleLike], *, allow: Exactness | str = "reassociating"
) -> N:
    """The net after rules, applied until none applies; the history says what was done.

    Args:
        rules: one or several; Weft's own by their names (``weft show --after`` lists what
            they do).  Earlier ones are tried first at every node.
        allow: ``bit-exact``, ``reassociating`` or ``approximate``: rules of a looser label
            are left out.

    Raises:
        UserError: there is no such rule, or a function of a rule failed.
    """
    label = exactness_of(allow)
    chosen = rules_of(rules)
    done, log = apply_rules(net.graph, chosen, allow=label)
    told = told_of(chosen, log)
    return net.with_graph(noted(changed(done, history=net.graph.history), "rewrite", told))


def diff(net: Network, other: Network | Graph) -> GraphDiff:
    """What turns this net into another: prints as a unified diff.

    Args:
        other: the net or graph after the change.
    """
    graph = other if isinstance(other, Graph) else getattr(other, "graph", other)
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        got = type(graph).__name__
        raise UserError("diff: expected a net or a graph", got=got)
    return diff_graphs(net.graph, graph)


def apply(net: N, /, recipe: str | Recipe, **parameters: object) -> N:
    """The net after a recipe (``weft recipes`` lists them).

    Args:
        recipe: its name, as in ``net.apply("tile-conv", axis=2, parts=4)``, or a recipe
            of your own.
        parameters: of the recipe.

    Raises:
        UserError: there is no such recipe or parameter, or its precondition does not hold.
    """
    # Recipes take 0.1 s to import, which nobody else should pay.
    from weft.recipes import apply as apply_recipe  # noqa: PLC0415

    done = apply_recipe(net.graph, recipe, parameters)
    return net if done is net.graph else net.with_graph(done)


def expanded(
    net: N,
    target: str | Target = "host",
    *,
    exact: bool = False,
    plain: bool = False,
    precision: str = "",
    keep_float32: str | Sequence[str] = (),
) -> N:
    """The simplified net without composite ops and constant channels, as it is planned.

    Args:
        target: the machine: kernels that users bring may be for some only.
        exact: leave out those of them that round otherwise than the definitions do.
        plain: leave out all of them, and rules that are not bit-exact; all channels stay.
        precision: that values are stored in; see ``weft.Options``.
        keep_float32: layers that stay in float32.
    """
    asked = Options(precision=precision, keep_float32=keep_float32)
    stored = asked.precision or "float32"
    graph = simplified(bound(net), exact=plain).graph
    if not plain:
        name = target if isinstance(target, str) else target.name
        graph = use_natives(graph, name, exact=exact)
    # Channels first, the ops are what rules and kernels know; how values lie is the plan's choice.
    graph = narrowed(relaid(graph, TO_FIRST), stored, asked.keep_float32)
    graph = moving_halves(tidy(expand(graph, OPS)), stored)
    if not plain:
        graph = without_constant_channels(graph, ConstantChannelParameters())
    return net.with_graph(graph)


def reference(
    net: Network, /, *inputs: np.ndarray | Mapping[str, np.ndarray], **named: np.ndarray
) -> Outputs:
    """The outputs by the ops' NumPy references: slow, and what the rest is held to.

    Args:
        inputs: in order, or one mapping by the inputs' names.
        named: inputs by their names.

    Returns:
        A tuple with the outputs' names, also of a single one.
    """
    names = net.graph.inputs
    given = arranged(net.graph.name, "input", names, inputs, named)
    arrays = dict(zip(names, given, strict=True))
    for name, array in arrays.items():
        arrays[name] = fitting(name, array, net.graph.types[name])
    found = evaluate(net.graph, arrays, OPS)
    made = tuple(found[name] for name in net.graph.outputs)
    return named_outputs(outputs_type(net.graph.outputs), made)


def save(net: Network, path: str | Path, *, int4: bool = False) -> None:
    """Writes the graph and its weights to a ``.weft`` or an ``.onnx`` file.

    Args:
        path: of the file.
        int4: whether an ``.onnx`` file has weights of 4 bits or fewer as INT4 (operator set 21),
            two in a byte, instead of as bytes.
    """
    if Path(path).suffix == ".onnx":
        onnx.save(net.graph, path, int4=int4)
    else:
        save_native(net.graph, path)


def call(
    net: Network, /, *values: Value | Mapping[str, Value], name: str = "", **named: Value
) -> Value | tuple[Value, ...]:
    """The outputs for values of a network in the making, which this net becomes part of.

    Args:
        values: one for each input, in order, or one mapping by the inputs' names.
        name: in front of the names of the nodes; the graph's if not given.
        named: values by the inputs' names.
    """
    if named or (values and isinstance(values[0], Mapping)):
        values = arranged(net.graph.name, "input", net.graph.inputs, values, named)
    made = call_graph(net.graph, *cast(tuple[Value, ...], values), name=name)
    return made[0] if len(made) == 1 else made
