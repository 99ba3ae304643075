"""Graph: what is computed.  A value, never changed in place.

A node has connectivity, an operation (an op name and its attributes) and provenance;
nothing about implementation.  Edits (``weft.ir.edit``) return new graphs that share
everything untouched, constants included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from weft.cached import cached_property
from weft.ir.history import HistoryEntry
from weft.ir.types import TensorType
from weft.ir.unknown import is_known, same_array
from weft.records import dataclass
from weft.screen import Screen, Shown, several, some


@dataclass(frozen=True, slots=True)
class Attributes:
    """Base of every op's attribute class (frozen dataclasses of plain values, tuples
    and, for control flow, graphs).  An op without attributes uses this class itself.
    """


NO_ATTRIBUTES = Attributes()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node comes from.

    Attributes:
        sources: names of the nodes of the source model that it stands for.
        rules: names of the rules that made it, first to last.
    """

    sources: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    def merge(self, other: Origin, rule: str = "") -> Origin:
        """The origin of a node that stands for two, formed by ``rule``."""
        sources = tuple(dict.fromkeys(self.sources + other.sources))
        rules = tuple(dict.fromkeys(self.rules + other.rules + ((rule,) if rule else ())))
        return Origin(sources, rules)


@dataclass(frozen=True, slots=True)
class Node:
    """One use of an op.

    Attributes:
        name: unique in its graph.
        op: name of the op (``Conv``); ONNX's name wherever ONNX has the operation.
        inputs: names of values; the empty string is an absent optional input.
        outputs: names of the values it makes; the empty string is an unused output.
        attributes: the op's attribute record.
        origin: provenance.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Any = NO_ATTRIBUTES
    origin: Origin = Origin()

    @property
    def reads(self) -> tuple[str, ...]:
        """The values that it reads, each once."""
        return tuple(dict.fromkeys(value for value in self.inputs if value))


def _unpickled(*parts: Any) -> Graph:
    graph = Graph(*parts)
    for array in graph.constants.values():
        if is_known(array):
            array.flags.writeable = False
    return graph


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Shown):
    """A directed acyclic graph of nodes over named values.

    Two graphs are equal when everything but their history is, constants by their bytes.

    Every value is a graph input, a constant or the output of exactly one node, and has
    an entry in ``types``.  ``nodes`` is in an order in which every value is made before
    it is used.  ``weft.ir.verify`` checks all of this.

    Attributes:
        name: a C identifier for preference.
        inputs: names of the values that a caller gives, in order.
        outputs: names of the values that a caller gets, in order.
        nodes: the nodes, in topological order.
        types: the type of every value.
        constants: read-only arrays, by value name; ``Unknown`` ones stand for parameters.
        history: one entry for each edit, rewrite and recipe that made this graph.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    history: tuple[HistoryEntry, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))
        object.__setattr__(self, "constants", MappingProxyType(dict(self.constants)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Graph):
            return NotImplemented
        return (
            self.name == other.name
            and self.inputs == other.inputs
            and self.outputs == other.outputs
            and self.nodes == other.nodes
            and dict(self.types) == dict(other.types)
            and self.constants.keys() == other.constants.keys()
            and all(
                same_array(array, other.constants[name]) for name, array in self.constants.items()
            )
        )

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, _: object) -> Graph:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Neither what cannot be changed nor what follows from the rest is pickled.
        parts = (self.name, self.inputs, self.outputs, self.nodes, dict(self.types))
        return _unpickled, (*parts, dict(self.constants), self.history)

    def __hash__(self) -> int:
        # Attributes may hold what does not hash; names and connections tell graphs apart.
        connections = tuple((node.name, node.op, node.inputs, node.outputs) for node in self.nodes)
        return hash((self.name, self.inputs, self.outputs, connections))

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that makes a value (inputs and constants have none)."""
        return {output: node for node in self.nodes for output in node.outputs if output}

    @cached_property
    def users(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read a value, in graph order, each once."""
        found: dict[str, list[Node]] = {value: [] for value in self.types}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                if value:
                    found[value].append(node)
        return {value: tuple(nodes) for value, nodes in found.items()}

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

    def screen(self) -> Screen:
        """What ``repr`` tells: never the elements of constants."""
        return Screen(f"Graph {self.name}: {counted(self)}", facts_of(self))


def counted(graph: Graph) -> str:
    """How many nodes there are, and how many elements constants have."""
    elements = sum(array.size for array in graph.constants.values())
    size = sum(array.nbytes for array in graph.constants.values())
    held = f"{several(elements, 'element')} of constants in {size:,} bytes"
    return f"{several(len(graph.nodes), 'node')}, {held}"


def facts_of(graph: Graph) -> list[tuple[str, str]]:
    """Inputs, outputs, the most frequent ops and the latest history."""
    ops = Counter(node.op for node in graph.nodes).most_common()
    found = [
        ("inputs", some(f"{name}: {graph.types[name]}" for name in graph.inputs)),
        ("outputs", some(f"{name}: {graph.types[name]}" for name in graph.outputs)),
        ("ops", some((op if n == 1 else f"{n} {op}" for op, n in ops), 8)),
    ]
    if graph.history:
        latest = (f"{each.name} {each.what}".strip() for each in reversed(graph.history))
        found.append(("history", f"{some(latest, 2)} (latest first)"))
    return found


def noted(graph: Graph, name: str, what: str = "") -> Graph:
    """The graph with one more entry in its history: the one way to add to it."""
    return replace(graph, history=(*graph.history, HistoryEntry(name, what)))
