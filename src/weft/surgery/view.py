"""A view of some nodes of a graph: what goes in and what comes out, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable

from weft.cached import cached_property
from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.history import HistoryEntry
from weft.ir.naming import listed, require_nodes
from weft.records import dataclass
from weft.screen import Screen, Shown, several, some


@dataclass(frozen=True, repr=False)
class Selection(Shown):
    """Some nodes of a graph.

    Inputs and outputs depend on the graph and the set of nodes alone, not on the order in
    which the nodes were named.

    Attributes:
        graph: the graph.
        names: of the nodes, in the graph's order.
    """

    graph: Graph
    names: tuple[str, ...]

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        facts = (
            ("inputs", some(self.inputs)),
            ("outputs", some(self.outputs)),
            ("constants", some(self.constants)),
        )
        rows = [(node.name, node.op) for node in self.nodes]
        title = f"View of {several(len(self.names), 'node')} of {self.graph.name}"
        return Screen(title, facts, ("node", "op"), rows)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the graph's order."""
        return tuple(self.graph.by_name[name] for name in self.names)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Values that the nodes read and others make, in the order of first reading."""
        return tuple(v for v in self._read if v not in self.graph.constants)

    @cached_property
    def constants(self) -> tuple[str, ...]:
        """Constants that the nodes read, in the order of first reading."""
        return tuple(v for v in self._read if v in self.graph.constants)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Values that the nodes make and others read or the graph gives, as they are made."""
        inside = set(self.names)
        return tuple(
            value
            for value in self._made
            if value in self.graph.outputs
            or any(user.name not in inside for user in self.graph.users[value])
        )

    @cached_property
    def _made(self) -> dict[str, None]:
        return {value: None for node in self.nodes for value in node.outputs if value}

    @cached_property
    def _read(self) -> dict[str, None]:
        read = (value for node in self.nodes for value in node.inputs)
        return {value: None for value in read if value and value not in self._made}

    def subgraph(self) -> Graph:
        """The nodes as a graph of their own."""
        values = (*self.inputs, *self.constants, *self._made)
        return Graph(
            self.graph.name,
            self.inputs,
            self.outputs,
            self.nodes,
            {value: self.graph.types[value] for value in values},
            {value: self.graph.constants[value] for value in self.constants},
            (*self.graph.history, HistoryEntry("view", listed(self.names))),
        )


def view(graph: Graph, nodes: str | Iterable[str]) -> Selection:
    """A view of some nodes, by name.

    Raises:
        UserError: there is no such node, or one of them both feeds others and reads what
            comes of them, so that the nodes cannot be one.
    """
    chosen = dict.fromkeys([nodes] if isinstance(nodes, str) else nodes)
    require_nodes(graph, chosen)
    if not chosen:
        raise UserError("view: there must be at least one node", got="none")
    found = Selection(graph, tuple(node.name for node in graph.nodes if node.name in chosen))
    _refuse_detours(found)
    return found


def _refuse_detours(found: Selection) -> None:
    """A path that leaves the nodes and comes back would make a cycle of what replaces them."""
    inside = set(found.names)
    behind: set[str] = set()
    for node in found.graph.nodes:
        if node.name in inside:
            for value in node.inputs:
                if value in behind:
                    raise UserError(
                        f"view: node {node.name} reads {value}, which other nodes compute from "
                        "the view's outputs",
                        got=", ".join(found.names),
                        fix="Include the nodes in between.",
                    )
        elif any(value in behind or value in found.outputs for value in node.inputs):
            behind.update(value for value in node.outputs if value)
