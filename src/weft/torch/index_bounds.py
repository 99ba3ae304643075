# pyright: basic
"""Between which values the indices among a graph's inputs must lie.

PyTorch refuses indices that lie outside of what they index.  Compiled code reads and writes
nothing outside, whatever the index, but does not tell: inputs that are indices are looked at
before a call, and where one lies outside, the module's own forward runs.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import fx

from weft.records import dataclass
from weft.torch.aliases import is_view


@dataclass(frozen=True)
class Bounds:
    """The least and the largest value that every element of a tensor may have."""

    least: int
    most: int

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether all elements lie between."""
        if not tensor.numel():
            return True
        low, high = torch.aminmax(tensor)
        return self.least <= int(low) and int(high) <= self.most


class OutsideError(IndexError):
    """An index lies outside of what it indexes."""


def index_bounds(inputs: Sequence[fx.Node], nodes: Sequence[fx.Node]) -> Mapping[int, Bounds]:
    """Bounds of inputs of a part of a graph, by place among them.

    An input has some where it, or what is made of its elements by views and copies, is an index.

    Args:
        inputs: nodes whose values the part takes.
        nodes: the part.
    """
    places = {node: place for place, node in enumerate(inputs)}
    found: dict[int, Bounds] = {}
    for node in nodes:
        for index, bounds in _indices(node):
            place = places.get(_source(index, places))
            if place is not None:
                known = found.get(place, bounds)
                least, most = max(known.least, bounds.least), min(known.most, bounds.most)
                found[place] = Bounds(least, most)
    return found


_COPIES = frozenset(("_to_copy", "clone", "contiguous", "repeat", "repeat_interleave", "flip"))


def _source(node: fx.Node, ends: Mapping[fx.Node, int]) -> fx.Node:
    """What the integers of a node are elements of, as signed ones."""
    while node not in ends:
        if node.target is operator.getitem or is_view(node) or _name(node) in _COPIES:
            source = node.args[0]
            if isinstance(source, fx.Node) and _is_signed_integer(source):
                node = source
                continue
        return node
    return node


def _is_signed_integer(node: fx.Node) -> bool:
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else (value,)
    return all(
        isinstance(each, torch.Tensor)
        and each.dtype.is_signed
        and not (each.is_floating_point() or each.is_complex())
        for each in values
    )


# --- what is an index -----------------------------------------------------------------------

_ALONG_AXIS = frozenset(
    "index_select gather scatter scatter_add scatter_reduce index_add index_copy index_fill".split()
)
_OF_ROWS = frozenset("embedding embedding_bag _embedding_bag _embedding_bag_forward_only".split())
_OF_AXES = frozenset(("index", "_unsafe_index", "index_put", "_unsafe_index_put"))


def _indices(node: fx.Node) -> Iterator[tuple[fx.Node, Bounds]]:
    """The integers among a node's arguments that are indices, and between what they must lie."""
    name = _name(node)
    if not name:
        return
    given = _arguments(node)
    if name in _ALONG_AXIS:
        shape = _shape(given["self"]) or (1,)
        yield from _index(given["index"], 0, shape[given["dim"]])
    elif name in _OF_ROWS:
        yield from _index(given["indices"], 0, _shape(given["weight"])[0])
    elif name == "take":
        count = prod(_shape(given["self"]))
        yield from _index(given["index"], -count, count)
    elif name == "take_along_dim":
        shape = _shape(given["self"])
        dim = given.get("dim")
        size = prod(shape) if dim is None else shape[dim]
        yield from _index(given["indices"], -size, size)
    elif name == "one_hot" and given.get("num_classes", -1) >= 0:
        yield from _index(given["self"], 0, given["num_classes"])
    elif name in _OF_AXES:
        yield from _of_axes(_shape(given["self"]), given["indices"])


def _of_axes(shape: Sequence[int], indices: Sequence[Any]) -> Iterator[tuple[fx.Node, Bounds]]:
    """The indices of ``x[i, :, j]``."""
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
        elif index.meta["val"].dtype in (torch.bool, torch.uint8):
            axis += len(_shape(index))  # a mask
        else:
            yield from _index(index, -shape[axis], shape[axis])
            axis += 1


def _index(node: Any, least: int, end: int) -> Iterator[tuple[fx.Node, Bounds]]:
    if isinstance(node, fx.Node):
        yield node, Bounds(least, end - 1)


def _name(node: fx.Node) -> str:
    """Of an ATen op; of one in place, that of its function."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return ""
    return target._schema.name.split("::")[1].rstrip("_")


def _arguments(node: fx.Node) -> dict[str, Any]:
    """What a node was given, by the names of its op."""
    target: Any = node.target
    names = [argument.name for argument in target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _shape(node: fx.Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)
