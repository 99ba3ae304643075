"""Kernels in C and C++ that users bring, in place of the nodes that they compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace as changed

from weft.ir.graph import Graph, Node, noted
from weft.ir.verify import bodies
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import call_of
from weft.ops.native import Native, inverse, refusal
from weft.ops.ordering import TransposeAttributes
from weft.ops.table import KERNELS, OPS, native_name
from weft.plugins import Loaded, called
from weft.records import dataclass


@dataclass(frozen=True)
class NativeOffer:
    """A kernel for a node.

    Attributes:
        kernel: the plugin.
        name: of the op that it computes.
        refusal: why it does not apply; empty if it does.
    """

    kernel: Loaded[Native]
    name: str
    refusal: str


def offers(node: Node, graph: Graph, target: str, exact: bool = False) -> Iterator[NativeOffer]:
    """The kernels for the op of a node, in the order of their names.

    Args:
        node: the node.
        graph: that it stands in.
        target: name of the machine.
        exact: refuse those that round otherwise than the op's definition.
    """
    for each in KERNELS.loaded:
        if each.part.op != node.op:
            continue
        native = each.part
        if exact and not native.exact:
            reason: str | None = "it rounds otherwise than the definition"
        elif "" in node.outputs:
            reason = "an output of the node is not used"
        else:
            types = [graph.types[value] for value in node.outputs]
            call = call_of(node, graph.types)
            reason = called(each.plugin, refusal, native, call, types, target)
        yield NativeOffer(Loaded(each.plugin, native), native_name(each), reason or "")


def use_natives(graph: Graph, target: str, *, exact: bool = False) -> Graph:
    """The graph with users' kernels where they apply; the same graph where none does.

    The first that applies is taken: who installs a kernel wants it.

    Args:
        graph: of ops of the table.
        target: name of the machine.
        exact: leave out kernels that round otherwise than the op's definition.
    """
    if not KERNELS.loaded:
        return graph
    return _Run(graph, target, exact).graph()


class _Run:
    """One run over a graph."""

    def __init__(self, graph: Graph, target: str, exact: bool) -> None:
        self.before, self.target, self.exact = graph, target, exact
        taken = [*graph.types, *(node.name for node in graph.nodes)]
        self.builder = GraphBuilder(OPS, graph.name, taken)
        self.builder.types.update(graph.types)
        self.used: list[str] = []

    def graph(self) -> Graph:
        changes = False
        nodes: list[Node] = []
        for node in self.before.nodes:
            taken = next(
                (
                    each
                    for each in offers(node, self.before, self.target, self.exact)
                    if not each.refusal
                ),
                None,
            )
            done = [self.with_bodies(node)] if taken is None else self.by(node, taken)
            changes = changes or done != [node]
            nodes += done
        if not changes:
            return self.before
        done = changed(self.before, nodes=tuple(nodes), types=dict(self.builder.types))
        return noted(done, "kernels", ", ".join(self.used)) if self.used else done

    def with_bodies(self, node: Node) -> Node:
        for name, body in bodies(node):
            done = use_natives(body, self.target, exact=self.exact)
            if done is not body:
                node = changed(node, attributes=changed(node.attributes, **{name: done}))
        return node

    def by(self, node: Node, offer: NativeOffer) -> list[Node]:
        """The node computed by a kernel, between moves to its layouts and back."""
        layouts = offer.kernel.part.layouts
        before: list[Node] = []
        after: list[Node] = []
        inputs = list(node.inputs)
        for place, value in enumerate(inputs):
            order = layouts.get(f"in{place}")
            if value and order is not None:
                inputs[place] = self.builder.fresh(f"{value}_for_{node.name}")
                before.append(self.move(node, value, inputs[place], order))
        outputs = list(node.outputs)
        for place, value in enumerate(outputs):
            order = layouts.get(f"out{place}")
            if order is not None:
                outputs[place] = self.builder.fresh(f"{value}_of_{node.name}")
                type = self.before.types[value]
                shape = tuple(type.shape[axis] for axis in order)
                self.builder.types[outputs[place]] = changed(type, shape=shape)
                after.append(self.move(node, outputs[place], value, inverse(order)))
        self.used.append(f"{node.name} by {offer.kernel.plugin.name}")
        kernel = changed(node, op=offer.name, inputs=tuple(inputs), outputs=tuple(outputs))
        return [*before, kernel, *after]

    def move(self, node: Node, value: str, result: str, order: tuple[int, ...]) -> Node:
        """A node that moves the axes of a value."""
        type = self.builder.types[value]
        shape = tuple(type.shape[axis] for axis in order)
        self.builder.types[result] = changed(type, shape=shape)
        name = self.builder.fresh(f"{node.name}_layout")
        attributes = TransposeAttributes(order)
        return Node(name, "Transpose", (value,), (result,), attributes, node.origin)
