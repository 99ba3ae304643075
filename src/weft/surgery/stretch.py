"""Inputs whose shapes follow from those of others, such as the first state of an LSTM.

A value that no graph input has a part in and whose size is 1 where its neighbours' batch was 1
is the same for every member of a batch; it is repeated by ``Expand``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from weft.ir.graph import Graph
from weft.ir.types import Dim, TensorType

Types: TypeAlias = Sequence[TensorType | None]
Stretch: TypeAlias = Callable[[Any, Types], Mapping[int, tuple[Dim, ...]]]
"""``stretch(attributes, inputs)``: the shapes that inputs need, by position."""


def needed(op: str, attributes: Any, inputs: Types) -> Mapping[int, tuple[Dim, ...]]:
    """Shapes that inputs of an op need beside the others; those that differ from what they are."""
    rule = _RULES.get(op)
    if rule is None:
        return {}
    found: dict[int, tuple[Dim, ...]] = {}
    for place, shape in rule(attributes, inputs).items():
        type = inputs[place]
        if type is not None and type.shape != shape and len(type.shape) == len(shape):
            found[place] = shape
    return found


def stretched(op: str, attributes: Any, inputs: Types) -> Mapping[int, tuple[Dim, ...]]:
    """Of the shapes that inputs need, those that grow from sizes of 1."""
    return {
        place: shape
        for place, shape in needed(op, attributes, inputs).items()
        if (type := inputs[place]) is not None and _grows(type.shape, shape)
    }


def _grows(old: Sequence[Dim], new: Sequence[Dim]) -> bool:
    return all(a in (1, b) for a, b in zip(old, new, strict=True))


def _concat(attributes: Any, inputs: Types) -> Mapping[int, tuple[Dim, ...]]:
    shapes = [type.shape for type in inputs if type is not None]
    count = len(shapes[0])
    axis: int = attributes.axis % count
    widest = [_widest([shape[n] for shape in shapes]) for n in range(count)]
    return {
        place: (*widest[:axis], shape[axis], *widest[axis + 1 :])
        for place, shape in enumerate(shapes)
    }


def _widest(sizes: Sequence[Dim]) -> Dim:
    return next((size for size in sizes if size != 1), 1)


def _recurrent(attributes: Any, inputs: Types) -> Mapping[int, tuple[Dim, ...]]:
    x = inputs[0]
    assert x is not None
    batch = x.shape[0 if attributes.layout else 1]
    found: dict[int, tuple[Dim, ...]] = {4: (batch,)} if len(inputs) > 4 else {}  # sequence_lens
    for place in (5, 6):  # initial_h, initial_c
        type = inputs[place] if place < len(inputs) else None
        if type is not None and len(type.shape) == 3:
            first, second, last = type.shape
            found[place] = (batch, second, last) if attributes.layout else (first, batch, last)
    return found


def _scan(attributes: Any, inputs: Types) -> Mapping[int, tuple[Dim, ...]]:
    body: Graph = attributes.body
    count: int = attributes.num_states
    return {n: body.types[body.outputs[n]].shape for n in range(count)}


_RULES: Mapping[str, Stretch] = {
    "Concat": _concat,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "RNN": _recurrent,
    "Scan": _scan,
}
