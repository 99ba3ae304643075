"""Topological order, stable: nodes move only where they must."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import UserError
from weft.ir.graph import Node


def topological(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes in an order in which every value is made before it is read.

    A node comes where it stood, or just before the first node that reads it.  Values that
    no node makes count as given.  Linear in nodes and edges.

    Raises:
        UserError: if there is a cycle, with its nodes.
    """
    if is_sorted(nodes):
        return tuple(nodes)
    makers = {value: node for node in nodes for value in node.outputs if value}
    done: dict[str, Node] = {}
    for root in nodes:
        _emit(root, makers, done)
    return tuple(done.values())


def is_sorted(nodes: Sequence[Node]) -> bool:
    """Whether no node reads a value that it or a later one makes."""
    pending = {value for node in nodes for value in node.outputs if value}
    for node in nodes:
        if not pending.isdisjoint(node.inputs):
            return False
        pending.difference_update(node.outputs)
    return True


def _emit(root: Node, makers: dict[str, Node], done: dict[str, Node]) -> None:
    """Depth first without recursion: networks are deeper than Python's stack."""
    stack = [root]
    open_nodes: dict[str, Node] = {}
    while stack:
        node = stack[-1]
        if node.name in done:
            stack.pop()
            continue
        open_nodes[node.name] = node
        waiting = [
            maker
            for value in node.inputs
            if (maker := makers.get(value)) is not None and maker.name not in done
        ]
        for maker in waiting:
            if maker.name in open_nodes:
                cycle = list(open_nodes)[list(open_nodes).index(maker.name) :]
                raise UserError("the graph has a cycle", got=" -> ".join([*cycle, maker.name]))
        if waiting:
            # Reversed, so that the first input's maker comes first.
            stack.extend(reversed(waiting))
        else:
            del open_nodes[node.name]
            done[node.name] = node
            stack.pop()
