"""The graph while rules change it: the same parts in mutable form, so that a step is cheap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace as changed

import numpy as np

from weft.ir.edit import prune
from weft.ir.graph import Graph, Node
from weft.ir.order import topological
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS


class GraphState:
    """A graph under rewriting; a ``View`` for the matcher.

    Args:
        graph: where it starts.
    """

    ordered = False

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
        self.types: dict[str, TensorType] = dict(graph.types)
        self.constants: dict[str, np.ndarray] = dict(graph.constants)
        self.producers: dict[str, Node] = dict(graph.producers)
        self.inputs = frozenset(graph.inputs)
        self.outputs = frozenset(graph.outputs)
        # Dictionaries without values: sets that keep their order.
        self._readers: dict[str, dict[str, None]] = {
            value: {user.name: None for user in users} for value, users in graph.users.items()
        }
        self._places = {node.name: (index, 0) for index, node in enumerate(graph.nodes)}
        self._steps = 0
        # Names stay taken when their values go: a name never changes its meaning.
        self.builder = GraphBuilder(OPS, graph.name, [*graph.types, *self.nodes])
        self.builder.types = self.types
        self.builder.constants = self.constants

    # --- what the matcher asks --------------------------------------------------------------

    def readers(self, value: str) -> Sequence[Node]:
        """The nodes that read a value, each once."""
        return tuple(self.nodes[name] for name in self._readers.get(value, ()))

    def use_count(self, value: str) -> int:
        """How many nodes read a value, and one more if it is a graph output."""
        return len(self._readers.get(value, ())) + (value in self.outputs)

    def place(self, node: Node) -> tuple[int, int]:
        """Where a node stands among the others, for comparison."""
        return self._places[node.name]

    # --- changes ----------------------------------------------------------------------------

    def add(self, nodes: Sequence[Node], like: Node) -> None:
        """Put nodes where another node stands."""
        place = self._places[like.name][0]
        for node in nodes:
            self._steps += 1
            self._places[node.name] = (place, self._steps)
            self._link(node)

    def detach(self, node: Node) -> None:
        """Take a node out; the types of its values stay until they are made or collected."""
        self._unlink(node)
        for value in node.outputs:
            if self.producers.get(value) is node:
                del self.producers[value]

    def collect(self, values: Iterable[str]) -> None:
        """Remove those of the values that nothing needs, and what only they needed."""
        pending = list(values)
        while pending:
            value = pending.pop()
            if not value or value not in self.types or self.use_count(value):
                continue
            maker = self.producers.get(value)
            if maker is None:
                if value not in self.graph.inputs:
                    self.constants.pop(value, None)
                    del self.types[value]
            elif not any(each and self.use_count(each) for each in maker.outputs):
                self.detach(maker)
                for each in maker.outputs:
                    self.types.pop(each, None)
                pending.extend(maker.inputs)

    def redirect(self, value: str, target: str) -> None:
        """Let everything that reads a value read another one."""
        for reader in self.readers(value):
            inputs = tuple(target if each == value else each for each in reader.inputs)
            self._exchange(reader, changed(reader, inputs=inputs))

    def rename(self, value: str, name: str) -> None:
        """Give a value that a node makes a name that nothing makes now."""
        maker = self.producers.pop(value)
        self.types[name] = self.types.pop(value)
        outputs = tuple(name if each == value else each for each in maker.outputs)
        self._exchange(maker, changed(maker, outputs=outputs))
        self._readers.setdefault(name, {})
        self.redirect(value, name)

    def rename_node(self, node: Node, name: str) -> None:
        """Give a node a name that no node has now."""
        place = self._places.pop(node.name)
        self._unlink(node)
        self._places[name] = place
        self._link(changed(node, name=name))

    def finished(self) -> Graph:
        """The graph as it is now."""
        nodes = sorted(self.nodes.values(), key=self.place)
        graph = changed(
            self.graph,
            nodes=topological(nodes),
            types=self.types,
            constants=self.constants,
        )
        history = self.graph.history
        return changed(prune(graph), history=history)

    def _link(self, node: Node) -> None:
        self.nodes[node.name] = node
        for value in node.inputs:
            if value:
                self._readers.setdefault(value, {})[node.name] = None
        for value in node.outputs:
            if value:
                self.producers[value] = node
                self._readers.setdefault(value, {})

    def _unlink(self, node: Node) -> None:
        del self.nodes[node.name]
        for value in node.inputs:
            self._readers.get(value, {}).pop(node.name, None)

    def _exchange(self, old: Node, new: Node) -> None:
        """Put a node with the same name in another's place."""
        # Insertion order of `nodes` does not matter: `finished` sorts.
        self._unlink(old)
        self._link(new)
