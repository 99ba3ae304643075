# pyright: basic
"""What of a graph need not run: what computes nothing, and what PyTorch evaluates once.

Positions, masks of causal attention, windows' indices and the like depend on shapes and constants
only.  PyTorch evaluates them, writes in place included, and the graph reads the results.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from weft.errors import UserError
from weft.torch.aliases import storages, writes

LIMIT = 1 << 22
"""Values with more elements are not evaluated: they would make the code large."""
_FILLS = {"zeros": 0, "ones": 1, "full": None, "empty": 0, "empty_strided": 0}
"""Values by what is created; memory that is not initialized is 0."""

_CHECKS = (torch.ops.aten._assert_tensor_metadata.default,)
"""Checks of what is decided when a graph is captured."""
_CONTEXTS = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}
"""Calls of the bodies of ``with`` statements, and how many arguments come before the body."""
_DROPOUTS = tuple(f"aten::{kind}dropout" for kind in ("", "feature_", "alpha_", "feature_alpha_"))


def simplify_exported(exported: Any) -> None:
    """Takes out of a program what computes nothing.

    Calls of the bodies of ``with torch.no_grad():`` and the like are inlined besides.

    Raises:
        UserError: a body runs under autocast.
    """
    graph: fx.Graph = exported.graph
    while called := [node for node in graph.nodes if _name(node) in _CONTEXTS]:
        for node in called:
            _inline(exported.graph_module, node, _CONTEXTS[_name(node)])
    simplify(graph)
    exported.graph_module.recompile()


def simplify(graph: fx.Graph) -> None:
    """Takes out of a graph what computes nothing.

    These are checks, and dropout that returns its input: its fake tensor has memory of its own,
    the real one has not, and writes must reach the input.
    """
    for node in list(graph.nodes):
        name = _name(node)
        if node.target in _CHECKS:
            graph.erase_node(node)
        elif name.removesuffix("_") in _DROPOUTS:
            source, rate, training = node.args
            if not (rate and training):
                node.replace_all_uses_with(source)
                graph.erase_node(node)


def _name(node: fx.Node) -> str:
    """Of the op, without the overload."""
    schema = getattr(node.target, "_schema", None)
    name = schema.name if schema else getattr(node.target, "_name", "")
    return name if node.op == "call_function" else ""


def _inline(module: fx.GraphModule, node: fx.Node, before: int) -> None:
    if node.target._name == "wrap_with_autocast" and node.args[2]:  # pyright: ignore
        raise UserError(
            "autocast inside of a module is not supported",
            got=f"torch.autocast({node.args[0]!r}, {node.args[1]})",
        )
    called: Any = node.args[before]
    called_module: Any = module.get_submodule(called.target)
    body: fx.Graph = called_module.graph
    placeholders = [each for each in body.nodes if each.op == "placeholder"]
    made: dict[fx.Node, Any] = dict(zip(placeholders, node.args[before + 1 :], strict=True))
    graph = node.graph
    with graph.inserting_before(node):
        for each in body.nodes:
            if each.op not in ("placeholder", "output"):
                made[each] = graph.node_copy(each, lambda value: made[value])
    (results,) = next(each for each in body.nodes if each.op == "output").args
    for user in list(node.users):
        user.replace_all_uses_with(made[results[user.args[1]]])  # pyright: ignore
        graph.erase_node(user)
    graph.erase_node(node)


# --- which nodes are known ----------------------------------------------------------------------


def known_nodes(graph: fx.Graph, constants: Collection[fx.Node]) -> set[fx.Node]:
    """The nodes that can be evaluated before the graph runs.

    Args:
        graph: the graph.
        constants: placeholders of known values, which nothing may write.
    """
    lies_in = storages(graph)
    held = {number for node in graph.nodes if node.op == "placeholder" for number in lies_in[node]}
    barred: set[int] = set()
    while True:
        known: set[fx.Node] = set()
        bad: set[int] = set()
        for node in graph.nodes:
            if _is_known(node, known, constants) and not lies_in[node] & barred:
                known.add(node)
            # Memory that something unknown writes, or that is not the graph's, stays unknown.
            for written in writes(node):
                numbers = lies_in[written]
                if node not in known or numbers & held:
                    bad |= numbers
        if bad <= barred:
            return known
        barred |= bad


def _is_known(node: fx.Node, known: set[fx.Node], constants: Collection[fx.Node]) -> bool:
    if node.op != "call_function" or _elements(node) > LIMIT:
        return False
    inputs = node.all_input_nodes
    if node.target is operator.getitem:
        return all(each in known for each in inputs)
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or "val" not in node.meta:
        return False
    if _created(node) is not None:
        inputs = [each for each in _values_read(node) if isinstance(each, fx.Node)]
    return all(each in known or each in constants for each in inputs)


def _created(node: fx.Node) -> str | None:
    """``zeros`` for all ops that create zeros, whatever tensor they take shape or type from."""
    target: Any = node.target
    name = target._schema.name.removeprefix("aten::").removeprefix("new_").removesuffix("_like")
    return name if name in _FILLS else None


def _values_read(node: fx.Node) -> list[Any]:
    """Of an op that creates a tensor, the arguments that decide its elements."""
    target: Any = node.target
    for place, argument in enumerate(target._schema.arguments):
        if argument.name == "fill_value":
            return [node.args[place] if place < len(node.args) else node.kwargs["fill_value"]]
    return []


def _elements(node: fx.Node) -> int:
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else (value,)
    sizes = [each.numel() for each in values if isinstance(each, torch.Tensor)]
    # Sizes that depend on data are not known.
    return sum(sizes) if all(isinstance(size, int) for size in sizes) else LIMIT + 1


# --- evaluation ---------------------------------------------------------------------------------


def evaluate(
    graph: fx.Graph, known: Collection[fx.Node], constants: Mapping[fx.Node, torch.Tensor]
) -> dict[fx.Node, Any]:
    """The values of known nodes and of the constants that they read."""
    values: dict[fx.Node, Any] = dict(constants)
    for node in graph.nodes:
        if node in known:
            values[node] = _evaluated(node, values)
    return values


def fold(
    graph: fx.Graph, known: Collection[fx.Node], constants: Mapping[fx.Node, torch.Tensor]
) -> dict[fx.Node, torch.Tensor]:
    """Evaluates nodes and takes them out of the graph.

    Args:
        graph: changed: what its remaining nodes read of known ones becomes placeholders.
        known: from ``known_nodes``.
        constants: values of the placeholders that known nodes read.

    Returns:
        The new placeholders and their values.
    """
    folding = _Folding(graph, known, dict(constants))
    for node in list(graph.nodes):
        folding.visit(node)
    for node in reversed(list(graph.nodes)):
        if node in known:
            graph.erase_node(node)
    return folding.found


class _Folding:
    def __init__(
        self, graph: fx.Graph, known: Collection[fx.Node], values: dict[fx.Node, Any]
    ) -> None:
        self.graph = graph
        self.known = known
        self.values = values
        self.found: dict[fx.Node, torch.Tensor] = {}
        self._first = next(iter(graph.nodes))
        self._read: dict[fx.Node, fx.Node] = {}

    def visit(self, node: fx.Node) -> None:
        """Evaluates a known node, or lets another read what was evaluated."""
        if node in self.known:
            self.values[node] = _evaluated(node, self.values)
            if any(writes(node)):
                self._read.clear()
        elif any(each in self.known for each in node.all_input_nodes):
            node.args = map_arg(node.args, self._placed)
            node.kwargs = map_arg(node.kwargs, self._placed)

    def _placed(self, node: fx.Node) -> Any:
        if node not in self.known:
            return node
        value = self.values[node]
        if not isinstance(value, torch.Tensor):
            return value
        if node not in self._read:
            with self.graph.inserting_before(self._first):
                made = self.graph.placeholder(f"known_{node.name}")
            # A copy: known nodes may write it later.
            made.meta["val"] = self.found[made] = value.detach().clone()
            self._read[node] = made
        return self._read[node]


def _evaluated(node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    target: Any = node.target
    created = None if target is operator.getitem else _created(node)
    with torch.no_grad():
        if created is None:
            return target(
                *map_arg(node.args, values.__getitem__), **map_arg(node.kwargs, values.__getitem__)
            )
        type = node.meta["val"]
        fill: Any = _FILLS[created]
        if created == "full":
            (fill,) = map_arg(_values_read(node), values.__getitem__)
        return torch.empty(tuple(type.shape), dtype=type.dtype).fill_(fill)
