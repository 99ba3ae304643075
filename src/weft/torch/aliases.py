# pyright: basic
"""Writes in place in graphs that are not functional: which of them are plain.

``relu_(x)`` is plain where whoever reads the memory of ``x`` afterwards reads it as ``x`` or as
what ``relu_`` returns: then later readers take the new value, and nothing else changes.  A write
into an input or a weight, or into memory that a view made earlier is read through later, needs
the graph to be made functional by PyTorch.

Which values share memory is known from the fake tensors of the export: their storages are shared
as those of the real tensors are.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import fx


def writes(node: fx.Node) -> Iterator[fx.Node]:
    """The arguments that a node writes into."""
    for argument, value, alias in _aliased(node):
        if alias.is_write and isinstance(value, fx.Node) and argument != "out":
            yield value


def is_view(node: fx.Node) -> bool:
    """Whether what a node gives may share memory with an argument that it does not write."""
    return any(not alias.is_write for _, _, alias in _aliased(node))


def views(node: fx.Node) -> tuple[fx.Node, tuple[fx.Node, ...]]:
    """What a node is a view of, itself if of nothing, and the views on the way, in order."""
    chain: list[fx.Node] = []
    while True:
        sources: list[Any]
        if node.target is operator.getitem:
            sources = list(filter(is_view, node.all_input_nodes))
        else:
            sources = [value for _, value, alias in _aliased(node) if not alias.is_write]
        # What reads further values is no view that can be taken later.
        if len(sources) != 1 or node.all_input_nodes != sources:
            return node, tuple(reversed(chain))
        chain.append(node)
        (node,) = sources


def _aliased(node: fx.Node) -> Iterator[tuple[str, Any, Any]]:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return
    for place, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is None:
            continue
        given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        for value in given if isinstance(given, list | tuple) else [given]:
            yield argument.name, value, argument.alias_info


# --- who shares memory ------------------------------------------------------------------------


def storages(graph: fx.Graph) -> dict[fx.Node, frozenset[int]]:
    """By node, the storages that its value lies in; equal numbers are one storage."""
    return {node: frozenset(_storages_of(node.meta.get("val"))) for node in graph.nodes}


def _storages_of(value: Any) -> Iterator[int]:
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, torch.Tensor):
            yield each.untyped_storage()._cdata


def identity(node: fx.Node) -> fx.Node:
    """The node whose very tensor an in-place op returns: of ``relu_(x)`` that is ``x``."""
    while (written := _returned(node)) is not None:
        node = written
    return node


def identical(node: fx.Node) -> Iterator[fx.Node]:
    """The nodes that give the very tensor that a node gives, itself among them."""
    waiting = [identity(node)]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(user for user in each.users if _returned(user) is each)


def _returned(node: fx.Node) -> fx.Node | None:
    """The argument that a node writes and returns."""
    written = next(writes(node), None)
    return written if written is not None and _returns_written(node) else None


def _returns_written(node: fx.Node) -> bool:
    target: Any = node.target
    returns = target._schema.returns
    return len(returns) == 1 and returns[0].alias_info is not None


# --- which writes are plain -------------------------------------------------------------------


def not_plain(graph: fx.Graph, known: Collection[fx.Node] = ()) -> list[fx.Node]:
    """The nodes of a graph whose writes are not plain.

    Args:
        graph: the graph.
        known: nodes that are evaluated once and for all; their own writes do not count.
    """
    writing = [node for node in graph.nodes if node not in known and any(writes(node))]
    if not writing:
        return []
    order = {node: place for place, node in enumerate(graph.nodes)}
    lies_in = storages(graph)
    sharing = _by_storage(lies_in)
    return [
        node
        for node in writing
        if not all(_is_plain(node, each, lies_in, sharing, order) for each in writes(node))
    ]


def sharing_memory(graph: fx.Graph) -> dict[fx.Node, frozenset[fx.Node]]:
    """By node that lies in one storage, all that lies in it, if nothing of that lies elsewhere."""
    lies_in = storages(graph)
    found: dict[fx.Node, frozenset[fx.Node]] = {}
    for nodes in _by_storage(lies_in).values():
        if all(len(lies_in[node]) == 1 for node in nodes):
            found.update(dict.fromkeys(nodes, frozenset(nodes)))
    return found


def _by_storage(lies_in: Mapping[fx.Node, frozenset[int]]) -> dict[int, list[fx.Node]]:
    sharing: dict[int, list[fx.Node]] = {}
    for node, numbers in lies_in.items():
        for number in numbers:
            sharing.setdefault(number, []).append(node)
    return sharing


def _is_plain(
    node: fx.Node,
    written: fx.Node,
    lies_in: Mapping[fx.Node, frozenset[int]],
    sharing: Mapping[int, list[fx.Node]],
    order: Mapping[fx.Node, int],
) -> bool:
    if not lies_in[written]:
        return False
    same = identity(written)
    for other in (other for number in lies_in[written] for other in sharing[number]):
        if other.op in ("placeholder", "get_attr"):
            return False
        # Views made later are made from the new value.
        stale = order[other] < order[node] and identity(other) is not same
        if stale and any(order[user] > order[node] for user in other.users):
            return False
    return True


# --- views or copies ----------------------------------------------------------------------------

_VIEWS_OR_COPIES = frozenset("reshape reshape_as flatten ravel contiguous to type_as".split())
"""Ops that give views of their arguments if strides allow it, else copies."""


def may_be_copies(graph: fx.Graph, known: Collection[fx.Node] = ()) -> bool:
    """Whether something is written when there is a view or a copy of it, as strides decide.

    Ops may give other strides where they run without elements.

    Args:
        graph: the graph.
        known: nodes that are evaluated once and for all; their own writes do not count.
    """
    lies_in = storages(graph)
    later: set[int] = set()
    for node in reversed(graph.nodes):
        name = node.target.__name__.split(".")[0] if node.op == "call_function" else ""
        near = (node, *node.all_input_nodes) if name in _VIEWS_OR_COPIES else ()
        if any(lies_in[each] & later for each in near):
            return True
        if node not in known:
            later.update(number for each in writes(node) for number in lies_in[each])
    return False
