"""What matching asks of a graph, and what it gives back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from weft.cached import cached_property
from weft.errors import UserError, nearest_or_all
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.records import dataclass
from weft.screen import Screen, Shown, several, some


class QueryableGraph(Protocol):
    """What matching asks of a graph; ``GraphView`` and the rewriter's working state.

    Attributes:
        ordered: every node has its place behind those whose values it reads.
    """

    ordered: bool

    @property
    def types(self) -> Mapping[str, TensorType]:
        """The type of every value."""
        ...

    @property
    def constants(self) -> Mapping[str, np.ndarray]:
        """Arrays by value name."""
        ...

    @property
    def inputs(self) -> Collection[str]:
        """Graph inputs."""
        ...

    @property
    def outputs(self) -> Collection[str]:
        """Graph outputs."""
        ...

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name."""
        ...

    @property
    def producers(self) -> Mapping[str, Node]:
        """The node that makes a value."""
        ...

    def readers(self, value: str) -> Sequence[Node]:
        """The nodes that read a value, each once."""
        ...

    def use_count(self, value: str) -> int:
        """How many nodes read a value, and one more if it is a graph output."""
        ...

    def place(self, node: Node) -> tuple[int, int]:
        """Where a node stands among the others, for comparison."""
        ...


class GraphView:
    """A graph as a ``QueryableGraph``."""

    ordered = True

    def __init__(self, graph: Graph) -> None:
        self.types = graph.types
        self.constants = graph.constants
        self.inputs = dict.fromkeys(graph.inputs)
        self.outputs = dict.fromkeys(graph.outputs)
        self.nodes = graph.by_name
        self.producers = graph.producers
        self._users = graph.users
        self._places = {node.name: (index, 0) for index, node in enumerate(graph.nodes)}

    def readers(self, value: str) -> Sequence[Node]:
        """The nodes that read a value, each once."""
        return self._users[value]

    def use_count(self, value: str) -> int:
        """How many nodes read a value, and one more if it is a graph output."""
        return len(self._users[value]) + (value in self.outputs)

    def place(self, node: Node) -> tuple[int, int]:
        """Where a node stands among the others, for comparison."""
        return self._places[node.name]


@dataclass(frozen=True, repr=False)
class Match(Shown):
    """One place where a query fits.

    Attributes:
        view: the graph.
        start: the node at which matching began; none where there are only values.
        values: value by the name that the query gives it; ``""`` where absent.
        nodes: every node that takes part: for a rule the root first, else in graph order.
        named: nodes by the names that they are captured under.
        lists: names within repetitions, with what each round found.
    """

    view: QueryableGraph
    start: Node | None
    values: Mapping[str, str]
    nodes: tuple[Node, ...]
    named: Mapping[str, Node] = field(default_factory=dict[str, Node])
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @property
    def root(self) -> Node:
        """The node at which matching began; a rule replaces it."""
        if self.start is None:
            raise UserError("match: a match of values only has no root node")
        return self.start

    def __getitem__(self, name: str) -> str:
        found = self.values.get(name)
        if found is not None:
            return found
        if name in self.named:
            raise UserError(
                f"match: {name} is a node, not a value",
                got=self.named[name].name,
                fix=f"match.node({name!r}) gives it.",
            )
        raise self._unknown(name)

    def __contains__(self, name: object) -> bool:
        return name in self.values or name in self.named or name in self.lists

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        bound = {name: value or "(absent)" for name, value in self.values.items()}
        bound |= {name: node.name for name, node in self.named.items()}
        bound |= {name: some(found) for name, found in self.lists.items()}
        rows = [(node.name, node.op, some(filter(None, node.outputs))) for node in self.nodes]
        title = f"Match of {several(len(self.nodes), 'node')}"
        return Screen(title, tuple(bound.items())[:8], ("node", "op", "makes"), rows)

    def node(self, name: str) -> Node:
        """The node with a name, or the one that makes a named value."""
        if name in self.named:
            return self.named[name]
        value = self[name]
        found = self.view.producers.get(value)
        if found is None:
            kind = "an absent operand" if not value else "a constant or an input of the graph"
            raise UserError(f"match: no node computes {name}", got=f"{value or 'nothing'}, {kind}")
        return found

    def _unknown(self, name: object) -> UserError:
        known = sorted({*self.named, *self.values, *self.lists})
        fix = nearest_or_all(name, known) if isinstance(name, str) else ""
        if name in self.lists:
            fix = f"It has a value for every round: match.lists[{name!r}]."
        return UserError("match: a name of the query is expected", got=repr(name), fix=fix)

    def attributes(self, name: str) -> Any:
        """Attributes of a named node, or of the node that makes a named value."""
        return self.node(name).attributes

    def type(self, name: str) -> TensorType:
        """Type of a named value."""
        value = self[name]
        if not value:
            raise UserError(f"match: {name} is absent here, so it has no type")
        return self.view.types[value]

    def array(self, name: str) -> np.ndarray:
        """Elements of a named constant."""
        found = self.constant(name)
        if found is None:
            raise UserError(
                f"match: {name} must be a constant to have elements",
                got=self[name] or "nothing",
                fix=f"Write `const {name}` in the query, or ask match.constant({name!r}).",
            )
        return found

    def constant(self, name: str) -> np.ndarray | None:
        """Elements of a named value, if it is a constant."""
        return self.view.constants.get(self[name])

    def has(self, name: str) -> bool:
        """Whether an optional value is present, or a name of an optional part."""
        return bool(self.values.get(name)) or name in self.named

    @cached_property
    def constants(self) -> tuple[str, ...]:
        """Constants that the nodes read, in order."""
        return tuple(value for value in self._read if value in self.view.constants)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Values that the nodes read and neither make nor have as constants, in order."""
        return tuple(value for value in self._read if value not in self.view.constants)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Values that the nodes make and others read, or the graph gives, in order."""
        own = {node.name for node in self.nodes}
        made = [value for node in self.nodes for value in node.outputs if value]
        return tuple(
            value
            for value in made
            if value in self.view.outputs
            or any(reader.name not in own for reader in self.view.readers(value))
        )

    @cached_property
    def _read(self) -> tuple[str, ...]:
        made = {value for node in self.nodes for value in node.outputs}
        read = dict.fromkeys(value for node in self.nodes for value in node.inputs if value)
        return tuple(value for value in read if value not in made)
