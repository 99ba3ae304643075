"""Which constants of a graph are weights, and along which of their axes layers sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace as changed
from fnmatch import fnmatchcase
from typing import TypeAlias

from weft.errors import UserError, nearest_or_all
from weft.ir.graph import Graph, Node
from weft.records import dataclass

Axis: TypeAlias = Callable[[Node, int], int]
"""The axis of an input of a node that it sums along, given the input's rank."""


@dataclass(frozen=True)
class Weight:
    """A constant that layers multiply by.

    Attributes:
        name: of the constant.
        layers: the nodes that read it, in graph order.
        axes: the axis that each of them sums along; the rest of the axes are outputs' and,
            in convolutions, the window's.
    """

    name: str
    layers: tuple[Node, ...]
    axes: tuple[int, ...]

    def summed(self, recipe: str) -> int:
        """The axis that all its layers sum along; refused where they differ."""
        if len(set(self.axes)) > 1:
            found = ", ".join(
                f"{node.name} along axis {axis}"
                for node, axis in zip(self.layers, self.axes, strict=True)
            )
            raise UserError(
                f"{recipe}: weight {self.name} must be summed along one axis by all its layers",
                got=found,
                fix="Exclude it with `layers`, or give the layers separate weights.",
            )
        return self.axes[0]


_WEIGHTS: Mapping[str, Mapping[int, Axis]] = {
    "Conv": {1: lambda _node, _rank: 1},
    "ConvTranspose": {1: lambda _node, _rank: 0},
    "Gemm": {
        0: lambda node, _rank: 0 if node.attributes.transA else 1,
        1: lambda node, _rank: 1 if node.attributes.transB else 0,
    },
    "MatMul": {0: lambda _node, rank: rank - 1, 1: lambda _node, rank: max(0, rank - 2)},
    "LSTM": {1: lambda _node, _rank: 2, 2: lambda _node, _rank: 2},
    "GRU": {1: lambda _node, _rank: 2, 2: lambda _node, _rank: 2},
    "RNN": {1: lambda _node, _rank: 2, 2: lambda _node, _rank: 2},
}
"""The inputs of ops that are weights where they are constants."""


def weights_of(graph: Graph, layers: Sequence[str], recipe: str) -> tuple[Weight, ...]:
    """The weights of chosen layers, in graph order; each once, however many layers read it.

    Args:
        graph: the graph.
        layers: names of nodes or of constants, ``*`` and ``?`` standing for anything; all
            of them if there are none.
        recipe: who asks, for errors.

    Raises:
        UserError: a name fits no weight, or there are no weights.
    """
    found: dict[str, Weight] = {}
    for node in graph.nodes:
        for value, axis in _read(graph, node):
            have = found.get(value)
            found[value] = (
                Weight(value, (node,), (axis,))
                if have is None
                else changed(have, layers=(*have.layers, node), axes=(*have.axes, axis))
            )
    if not found:
        raise UserError(f"{recipe}: graph {graph.name} has no layer with constant weights")
    names = [[each.name, *(node.name for node in each.layers)] for each in found.values()]
    chosen = chosen_names(layers, [name for listed in names for name in listed], recipe)
    return tuple(
        each
        for each, listed in zip(found.values(), names, strict=True)
        if not chosen.isdisjoint(listed)
    )


def chosen_names(patterns: Sequence[str], known: Sequence[str], recipe: str) -> set[str]:
    """The names that patterns fit; all if there are no patterns.

    Raises:
        UserError: a pattern fits none.
    """
    if not patterns:
        return set(known)
    chosen: set[str] = set()
    for pattern in patterns:
        fitting = {name for name in known if name == pattern or fnmatchcase(name, pattern)}
        if not fitting:
            raise UserError(
                f"{recipe}: there is no layer or weight {pattern}",
                fix=nearest_or_all(pattern, dict.fromkeys(known)),
            )
        chosen |= fitting
    return chosen


def _read(graph: Graph, node: Node) -> Iterator[tuple[str, int]]:
    """The float constants of a node that are weights, with the axis it sums along."""
    for place, axis in _WEIGHTS.get(node.op, {}).items():
        value = node.inputs[place] if place < len(node.inputs) else ""
        if value not in graph.constants or not graph.types[value].dtype.is_float:
            continue
        yield value, axis(node, len(graph.types[value].shape))
