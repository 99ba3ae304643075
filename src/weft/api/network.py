"""What a network is: its graph, and other graphs that compute the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from weft.api.named import Outputs, arranged, named_outputs, outputs_type
from weft.api.source import Source
from weft.api.streams import checked_states
from weft.errors import UserError
from weft.frontends import onnx
from weft.ir.compose import bind_symbols
from weft.ir.diff import GraphDiff, diff
from weft.ir.graph import Graph, counted, facts_of, noted
from weft.ir.native import save as save_native
from weft.ir.types import Symbol, TensorType
from weft.ops.evaluate import evaluate, fitting
from weft.ops.expand import expand
from weft.ops.resolve import resolved
from weft.ops.table import OPS
from weft.ops.trace import call_graph
from weft.ops.values import Value
from weft.reporting import announce
from weft.rewrite.chosen import RuleLike, rules_of, told_of
from weft.rewrite.engine import Log, rewrite
from weft.rewrite.natives import use_natives
from weft.rewrite.recipe import Recipe
from weft.rewrite.recipes import simplify, tidy
from weft.rewrite.rule import Exactness, exactness_of
from weft.runtime.cache import digest
from weft.runtime.identity import digest_graph
from weft.screen import Screen, Shown, some
from weft.surgery.editable import Editable
from weft.targets.target import Target


def _unpickled(
    kind: type[Network], graph: Graph, identity: str, states: tuple[tuple[str, str], ...]
) -> Network:
    origin = Source(identity, lambda: graph) if identity else graph
    return kind(origin, graph if identity else None, states)


@dataclass(frozen=True, repr=False)
class Network(Editable, Shown):
    """A graph that was given or that lies in a file, and what it becomes before it is planned.

    Attributes:
        origin: the graph, or where it comes from: a network that was built from its file
            before reads the file only when it must.
        loaded: the graph, if it was read already.
        states: inputs and the outputs that are their values for the next run.
    """

    origin: Graph | Source
    loaded: Graph | None = field(default=None, repr=False, compare=False)
    states: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        # Nodes that were made by hand may lack attributes.
        if not isinstance(self.origin, Graph | Source):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                "a net is made of a graph",
                got=type(self.origin).__name__,
                fix="weft.load reads a file, weft.trace follows a function, weft.net joins values.",
            )
        if isinstance(self.origin, Graph):
            object.__setattr__(self, "origin", resolved(self.origin))

    @cached_property
    def graph(self) -> Graph:
        """What is computed."""
        if isinstance(self.origin, Graph):
            return self.origin
        if self.loaded is None:
            announce("reading the model")
        return self.loaded or self.origin.read()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # With the graph, so that the file is not needed, and with its identity, so that what was
        # built from it is found in the cache.
        identity = self.origin.identity if isinstance(self.origin, Source) else ""
        return _unpickled, (type(self), self.graph, identity, self.states)

    def with_graph(self, graph: Graph) -> Self:
        """The same of another graph; states stay whose input and output it has."""
        kept = [
            (value, output)
            for value, output in self.states
            if value in graph.inputs and output in graph.outputs
        ]
        return type(self)(graph, None, tuple(kept))

    def with_state(self, states: Mapping[str, str]) -> Self:
        """The net whose runs hand values to the next one: of LSTMs, caches, windows of sound.

        What is compiled or exported of it takes the other inputs only and gives the other
        outputs only.  ``reference`` still takes and gives all of them.

        Args:
            states: by input, the output that is its value for the next run.

        Raises:
            UserError: a pair cannot be a state; all faults are listed.
        """
        return changed(self, states=checked_states(self.graph, states, dict(self.states)))

    @property
    def free_inputs(self) -> tuple[str, ...]:
        """The inputs that a call gives: those that are no states."""
        held = dict(self.states)
        return tuple(each for each in self.graph.inputs if each not in held)

    def __call__(
        self, /, *values: Value | Mapping[str, Value], name: str = "", **named: Value
    ) -> Value | tuple[Value, ...]:
        """The outputs for values of a network in the making, which this net becomes part of.

        Args:
            values: one for each input, in order, or one mapping by the inputs' names.
            name: in front of the names of the nodes; the graph's if not given.
            named: values by the inputs' names.
        """
        if named or (values and isinstance(values[0], Mapping)):
            values = arranged(self.graph.name, "input", self.graph.inputs, values, named)
        made = call_graph(self.graph, *cast(tuple[Value, ...], values), name=name)
        return made[0] if len(made) == 1 else made

    @cached_property
    def identity(self) -> str:
        """A hash of all that decides what is computed."""
        origin = self.origin
        own = digest_graph(origin) if isinstance(origin, Graph) else origin.identity
        return digest([own, repr(self.states)]) if self.states else own

    def bound(self, batch: int = 1) -> Self:
        """The net with its open leading dimension, if it has one, made ``batch``."""
        names = {
            dim.name
            for type in self.graph.types.values()
            for dim in type.shape
            if isinstance(dim, Symbol)
        }
        if not names:
            if batch != 1 and all(batch not in type.shape for type in self.inputs.values()):
                raise UserError(
                    f"only an open size can be bound; all of {self.graph.name} are known",
                    got=f"batch {batch}",
                    fix="Other shapes: --input NAME=SHAPE, or in Python net.with_shapes.",
                )
            return self
        return self.with_graph(bind_symbols(self.graph, dict.fromkeys(sorted(names), batch)))

    @cached_property
    def simplification(self) -> tuple[Graph, Log]:
        """The graph after the recipes that every model goes through, and what they did."""
        return simplify(self.graph)

    def simplified(self, *, exact: bool = False) -> Self:
        """The net after the recipes that every model goes through.

        Args:
            exact: leave out what is not bit-exact.
        """
        if exact:
            return self.with_graph(simplify(self.graph, allow=Exactness.BIT_EXACT)[0])
        return self.with_graph(self.simplification[0])

    def rewrite(
        self, rules: RuleLike | Iterable[RuleLike], *, allow: Exactness | str = "reassociating"
    ) -> Self:
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
        done, log = rewrite(self.graph, chosen, allow=label)
        told = told_of(chosen, log)
        return self.with_graph(noted(changed(done, history=self.graph.history), "rewrite", told))

    def diff(self, other: Network | Graph) -> GraphDiff:
        """What turns this net into another: prints as a unified diff.

        Args:
            other: the net or graph after the change.
        """
        graph = other.graph if isinstance(other, Network) else other
        if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
            got = type(graph).__name__
            raise UserError("diff: a net is compared with a net or a graph", got=got)
        return diff(self.graph, graph)

    def apply(self, recipe: str | Recipe, **parameters: object) -> Self:
        """The net after a recipe (``weft recipes`` lists them).

        Args:
            recipe: its name, as in ``net.apply("tile-conv", axis=2, parts=4)``, or a recipe
                of your own.
            parameters: of the recipe.

        Raises:
            UserError: there is no such recipe or parameter, or its precondition does not hold.
        """
        # Recipes take 0.1 s to import, which nobody else should pay.
        from weft.recipes import apply  # noqa: PLC0415

        done = apply(self.graph, recipe, parameters)
        return self if done is self.graph else self.with_graph(done)

    def expanded(
        self, target: str | Target = "host", *, exact: bool = False, plain: bool = False
    ) -> Self:
        """The simplified net without composite ops, as it is planned.

        Args:
            target: the machine: kernels that users bring may be for some only.
            exact: leave out those of them that round otherwise than the definitions do.
            plain: leave out all of them, and rules that are not bit-exact.
        """
        graph = self.bound().simplified(exact=plain).graph
        if not plain:
            name = target if isinstance(target, str) else target.name
            graph = use_natives(graph, name, exact=exact)
        return self.with_graph(tidy(expand(graph, OPS)))

    def reference(
        self, /, *inputs: np.ndarray | Mapping[str, np.ndarray], **named: np.ndarray
    ) -> Outputs:
        """The outputs by the ops' NumPy references: slow, and what the rest is held to.

        Args:
            inputs: in order, or one mapping by the inputs' names.
            named: inputs by their names.

        Returns:
            A tuple with the outputs' names, also of a single one.
        """
        names = self.graph.inputs
        given = arranged(self.graph.name, "input", names, inputs, named)
        arrays = dict(zip(names, given, strict=True))
        for name, array in arrays.items():
            arrays[name] = fitting(name, array, self.graph.types[name])
        found = evaluate(self.graph, arrays, OPS)
        made = tuple(found[name] for name in self.graph.outputs)
        return named_outputs(outputs_type(self.graph.outputs), made)

    def _arranged(
        self, inputs: Sequence[np.ndarray] | Mapping[str, np.ndarray] | None
    ) -> Sequence[np.ndarray] | None:
        """Inputs that were given in order or by name, in order; without states."""
        if inputs is None:
            return None
        given = (inputs,) if isinstance(inputs, Mapping) else inputs
        return arranged(self.graph.name, "input", self.free_inputs, given, {})

    def screen(self) -> Screen:
        """What ``repr`` tells: never the elements of weights."""
        facts = facts_of(self.graph)
        if self.states:
            facts.append(("state", some(f"{value} = {output}" for value, output in self.states)))
        return Screen(f"Net {self.graph.name}: {counted(self.graph)}", facts)

    def save(self, path: str | Path) -> None:
        """Writes the graph and its weights to a ``.weft`` or an ``.onnx`` file."""
        if Path(path).suffix == ".onnx":
            onnx.save(self.graph, path)
        else:
            save_native(self.graph, path)

    @property
    def inputs(self) -> dict[str, TensorType]:
        """Types of the inputs by name."""
        return {name: self.graph.types[name] for name in self.graph.inputs}

    @property
    def outputs(self) -> dict[str, TensorType]:
        """Types of the outputs by name."""
        return {name: self.graph.types[name] for name in self.graph.outputs}
