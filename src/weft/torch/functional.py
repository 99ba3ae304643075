# pyright: basic
"""Writes through views, made functional without tracing the graph again.

``y[0].mul_(3)`` becomes ``y' = select_scatter(y, mul(select(y, 0), 3), 0)``; what reads ``y`` or
views of it afterwards reads ``y'`` or the same views of that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import fx

from weft.torch.aliases import not_plain, sharing_memory, writes

aten = torch.ops.aten


def replace_writes(graph: fx.Graph, known: Collection[fx.Node] = ()) -> bool:
    """Makes writes functional that are not plain.

    Args:
        graph: changed, if all of these writes can be replaced.
        known: nodes that are evaluated once and for all; their own writes do not count.

    Returns:
        Whether they could be: into memory of the graph's own, through views that can be undone.
    """
    written = {each for node in not_plain(graph, known) for each in writes(node)}
    groups = {sharing_memory(graph).get(each, frozenset()) for each in written}
    memories = [memory for members in groups if (memory := _Memory.of(graph, members))]
    if len(memories) < len(groups):
        return False
    owner = {node: memory for memory in memories for node in memory.parents}
    for node in list(graph.nodes):
        for memory in {owner[each] for each in node.all_input_nodes if each in owner}:
            memory.read(node)
        if node in owner:
            owner[node].made(node)
    return True


class _Memory:
    """The values that lie in one piece of memory.

    Attributes:
        graph: the graph.
        parents: by value, the value that it is a view of, or is; ``None`` for the first.
    """

    def __init__(self, graph: fx.Graph, parents: Mapping[fx.Node, fx.Node | None]) -> None:
        self.graph = graph
        self.parents = parents
        self._same = {node for node in parents if any(writes(node))}
        self._current: dict[fx.Node, fx.Node] = {}

    @classmethod
    def of(cls, graph: fx.Graph, members: Collection[fx.Node]) -> _Memory | None:
        """The memory of some values, or ``None`` where its writes cannot be replaced."""
        parents: dict[fx.Node, fx.Node | None] = {}
        for node in graph.nodes:
            if node not in members:
                continue
            sources = list(writes(node)) or [x for x in node.all_input_nodes if x in members]
            if node.op != "call_function" or len(sources) != bool(parents):
                return None
            parents[node] = sources[0] if sources else None
        if not parents:
            return None
        memory = cls(graph, parents)
        for node in [*parents, *(user for each in parents for user in each.users)]:
            for target in writes(node):
                if _functional(node) is None or not memory.can_undo(target):
                    return None
        return memory

    def can_undo(self, node: fx.Node | None) -> bool:
        """Whether what is written to a view can be brought into what it is a view of."""
        while node is not None:
            above = self._above(node)
            if above is not None and node not in self._same and _inverse(node) is None:
                return False
            if node.target is operator.getitem and above is None:
                return False
            node = above
        return True

    def _above(self, node: fx.Node) -> fx.Node | None:
        """What a value is a part of, past the op that gives several parts."""
        parent = self.parents[node]
        if parent is None or node.target is not operator.getitem:
            return parent
        return self.parents[parent]

    def made(self, node: fx.Node) -> None:
        """Takes note of a node of the graph whose value lies here."""
        self._current.setdefault(node, node)

    def read(self, node: fx.Node) -> None:
        """Has a node read what the memory holds by now."""
        written = list(writes(node))
        with self.graph.inserting_before(node):
            for each in node.all_input_nodes:
                if each in self.parents:
                    node.replace_input_with(each, self._value(each))
        if any(each in self.parents for each in written):
            (target,) = written
            self._write(node, target)

    def _value(self, node: fx.Node) -> fx.Node:
        """A value as the memory holds it now."""
        if node not in self._current:
            parent = self.parents[node]
            assert parent is not None
            source = self._value(parent)
            if node in self._same:
                return source
            self._current[node] = self.graph.node_copy(
                node, lambda each: source if each is parent else each
            )
        return self._current[node]

    def _write(self, node: fx.Node, target: fx.Node) -> None:
        """Replaces a write by its function, and brings the result into the memory."""
        functional = _functional(node)
        assert functional is not None
        value = node
        chain = [(target, value)]
        with self.graph.inserting_before(node.next):
            while (parent := self._above(target)) is not None:
                if target not in self._same:
                    undo = _inverse(target)
                    assert undo is not None
                    source = self._value(parent)
                    op, args = undo(source, value)
                    value = self.graph.call_function(op, args)
                    value.meta = {**node.meta, "val": source.meta["val"]}
                target = parent
                chain.append((target, value))
        node.target = functional
        self._current = {**dict(chain), node: node}


_OF_ITS_TYPE = ("copy_", "index_put_", "masked_fill_", "masked_scatter_", "scatter_", "index_add_")
"""Ops whose function gives the type of its first argument, whatever the others are."""


def _functional(node: fx.Node) -> Any:
    """The op that gives what an in-place op writes, with the same arguments."""
    target: Any = node.target
    name = target._schema.name.split("::")[1]
    written = list(writes(node))
    if target.namespace != "aten" or not name.endswith("_") or len(written) != 1:
        return None
    if node.args[:1] != (written[0],) or len(target._schema.returns) != 1:
        return None
    if node.meta["val"].shape != written[0].meta["val"].shape:
        return None
    # In place, the result has the type of what is written.
    types = {each.meta["val"].dtype for each in node.all_input_nodes if _dims(each)}
    if len(types) > 1 and name not in _OF_ITS_TYPE:
        return None
    packet = getattr(aten, name.removesuffix("_"), None)
    return getattr(packet, target._overloadname, None)


def _dims(node: fx.Node) -> int:
    value = node.meta.get("val")
    return value.dim() if isinstance(value, torch.Tensor) else 0


# --- views that can be undone -------------------------------------------------------------------

Call = tuple[Any, tuple[Any, ...]]
Undo = Callable[[fx.Node, fx.Node], Call]
"""Of the source of a view, and of a new value for the view, what the source is then."""

_RESHAPING = frozenset(
    "view reshape flatten unflatten unsqueeze squeeze _unsafe_view alias detach".split()
)


def _inverse(node: fx.Node) -> Undo | None:
    target: Any = node.target
    if target is operator.getitem:
        return _part(*node.args)  # pyright: ignore[reportArgumentType]
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    name, rest = target._schema.name.split("::")[1], node.args[1:]
    if node.kwargs:
        return None
    if name in _RESHAPING and target._overloadname != "dtype":
        return lambda source, value: (
            aten.reshape.default,
            (value, list(source.meta["val"].shape)),
        )
    if name == "slice":
        dim, start, end, step = (*rest, *(0, None, None, 1)[len(rest) :])
        return lambda source, value: (
            aten.slice_scatter.default,
            (source, value, dim, start, end, step),
        )
    if name == "select":
        return lambda source, value: (aten.select_scatter.default, (source, value, *rest))
    if name == "transpose":
        return lambda source, value: (aten.transpose.int, (value, *rest))
    if name == "t":
        return lambda source, value: (aten.t.default, (value,))
    if name == "permute":
        order: Any = rest[0]
        axes = [axis % len(order) for axis in order]
        back = [axes.index(place) for place in range(len(axes))]
        return lambda source, value: (aten.permute.default, (value, back))
    return None


def _part(several: fx.Node, place: int) -> Undo | None:
    """What undoes the reading of one of several parts; their op reads the source."""
    target: Any = several.target
    name = target._schema.name.split("::")[1]
    if several.kwargs:
        return None
    if name == "unbind":
        dim = several.args[1] if len(several.args) > 1 else 0
        return lambda source, value: (
            aten.select_scatter.default,
            (source, value, dim, place),
        )
    if name in ("split", "split_with_sizes", "chunk", "tensor_split"):
        axis: Any = several.args[2] if len(several.args) > 2 else 0
        lengths = [each.shape[axis] for each in several.meta["val"]]
        start = sum(lengths[:place])
        return lambda source, value: (
            aten.slice_scatter.default,
            (source, value, axis, start, start + lengths[place]),
        )
    return None
