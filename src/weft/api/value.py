"""What a network is: a graph, or where it comes from, and which of its inputs are states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from weft.api.source import Source
from weft.api.streams import checked_states
from weft.cached import cached_property
from weft.deferred import later
from weft.errors import UserError
from weft.ir.graph import Graph, counted, facts_of
from weft.ir.history import HistoryEntry
from weft.ir.types import TensorType
from weft.records import dataclass
from weft.reporting import announce
from weft.runtime.cache import digest
from weft.runtime.identity import digest_graph
from weft.screen import Screen, Shown, some

if TYPE_CHECKING:
    from weft.ops.resolve import resolved
    from weft.quantize.report import QuantizationReport
    from weft.rewrite.engine import Log
    from weft.rewrite.recipes import simplify
else:
    # A start from the cache needs none of these.
    resolved = later("weft.ops.resolve").resolved
    simplify = later("weft.rewrite.recipes").simplify

# Weights of so many bytes, which a file has, do not stay in memory beside those that were packed.
_WORTH_READING_AGAIN = 1 << 24


@dataclass(frozen=True, repr=False)
class NetValue(Shown):
    """What a network is, as a value.

    Attributes:
        origin: the graph, or where it comes from: a network that was built from its file
            before reads the file only when it must.
        loaded: the graph, if it was read already.
        states: inputs and the outputs that are their values for the next run.
        quantization: what ``quantize`` did to each layer, where it made the net.
    """

    origin: Graph | Source
    loaded: Graph | None = field(default=None, repr=False, compare=False)
    states: tuple[tuple[str, str], ...] = ()
    quantization: QuantizationReport | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Nodes that were made by hand may lack attributes.
        if not isinstance(self.origin, Graph | Source):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                "Net needs a graph",
                got=type(self.origin).__name__,
                fix="weft.load reads a file, weft.trace traces a function, weft.net builds a graph "
                "from values.",
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
        return replace(self, states=checked_states(self.graph, states, dict(self.states)))

    @property
    def inputs(self) -> dict[str, TensorType]:
        """Types of the inputs by name."""
        return {name: self.graph.types[name] for name in self.graph.inputs}

    @property
    def outputs(self) -> dict[str, TensorType]:
        """Types of the outputs by name."""
        return {name: self.graph.types[name] for name in self.graph.outputs}

    @property
    def weights(self) -> Mapping[str, np.ndarray]:
        """The constants by name, read-only."""
        return self.graph.constants

    @property
    def history(self) -> tuple[HistoryEntry, ...]:
        """The edits, rewrites and recipes that made the graph."""
        return self.graph.history

    @cached_property
    def identity(self) -> str:
        """A hash of all that decides what is computed."""
        origin = self.origin
        own = digest_graph(origin) if isinstance(origin, Graph) else origin.identity
        return digest([own, repr(self.states)]) if self.states else own

    @cached_property
    def simplification(self) -> tuple[Graph, Log]:
        """The graph after the recipes that every model goes through, and what they did."""
        return simplify(self.graph)

    def release(self) -> None:
        """Forgets what can be made again: a large graph that came from a file, and its rewrites.

        They are read, and made, when somebody asks for them.
        """
        self.__dict__.pop("simplification", None)
        graph = self.loaded or self.__dict__.get("graph")
        size = sum(array.nbytes for array in graph.constants.values()) if graph else 0
        if isinstance(self.origin, Source) and size >= _WORTH_READING_AGAIN:
            object.__setattr__(self, "loaded", None)
            self.__dict__.pop("graph", None)

    def screen(self) -> Screen:
        """What ``repr`` tells: never the elements of weights."""
        facts = facts_of(self.graph)
        if self.states:
            facts.append(("state", some(f"{value} = {output}" for value, output in self.states)))
        return Screen(f"Net {self.graph.name}: {counted(self.graph)}", facts)


def _unpickled(
    kind: type[NetValue], graph: Graph, identity: str, states: tuple[tuple[str, str], ...]
) -> NetValue:
    origin = Source(identity, lambda: graph) if identity else graph
    return kind(origin, graph if identity else None, states)
