# pyright: basic
"""Writes in place in graphs that are not functional: which of them are plain.

``relu_(x)`` is plain where nothing but ``x`` names its memory: readers of ``x`` that come later
read the result.  A write into a view, into something that views share, or into an input needs
the graph to be made functional by PyTorch.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
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


def follows_aliases(exported: Any) -> bool:
    """Whether a graph has writes that are not plain."""
    views: set[fx.Node] = set()
    for node in exported.graph.nodes:
        for value in writes(node):
            shared = value.op == "placeholder" or value in views
            if shared or any(is_view(user) for user in value.users):
                return True
        if is_view(node) or (not isinstance(node.target, torch._ops.OpOverload) and node.args):
            views.add(node)
    return any(spec.kind.name != "USER_OUTPUT" for spec in exported.graph_signature.output_specs)
