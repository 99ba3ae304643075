"""Rules of coupling for layers with weights, normalizations and recurrent cells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.compress.coupling import At, Rule
from weft.compress.slots import Axes, Labels, rows_of
from weft.ir.types import Dim
from weft.ops.support import axis_of

# --- convolution ----------------------------------------------------------------------------


def _convolution(at: At) -> tuple[Axes, ...]:
    inputs, outputs = (0, 1) if at.node.op == "ConvTranspose" else (1, 0)
    groups: int = at.node.attributes.groups
    _pin_window(at)
    if groups == 1:
        at.join(1, inputs, at.cut(0, 1))
        channels = at.born(1, outputs)
    elif at.node.op == "ConvTranspose" or not _has_narrow_groups(at, groups):
        channels = _whole_groups(at, groups)
    else:
        channels = _inside_groups(at, groups)
    at.join(2, 0, channels)
    return ([at.axes(0)[0], channels, *at.dead(at.made()[2:])],)


def _pin_window(at: At) -> None:
    for labels in at.axes(0)[2:]:
        at.pin(labels, "slides a window along it")
    for axis in range(2, len(at.type(1).shape)):
        at.pin(at.axis(1, axis), "has it as its window")


def _has_narrow_groups(at: At, groups: int) -> bool:
    """Whether there are fewer groups than channels in one: then channels go inside groups."""
    return groups < len(at.axis(1, 1))


def _whole_groups(at: At, groups: int) -> Labels:
    """Groups go as a whole, with their inputs: depthwise convolution is the case of one each."""
    ahead = at.slots.tie_rows(at.axis(0, 1).reshape(groups, -1))
    weight = at.axis(1, 0)
    at.slots.tie(at.slots.tie_rows(weight.reshape(groups, -1)), ahead)
    at.pin(at.axis(1, 1), "has as many channels in every group")
    if at.node.op == "Conv":
        return at.born(1, 0)
    return np.repeat(ahead, at.type(1).dims[1])


def _inside_groups(at: At, groups: int) -> Labels:
    """The same channels of every group go together."""
    channels = at.cut(0, 1)
    at.join(1, 1, at.slots.tie_rows(channels.reshape(groups, -1).T))
    made = at.born(1, 0)
    at.slots.tie_rows(made.reshape(groups, -1).T)
    return made


# --- products of matrices -------------------------------------------------------------------


def _gemm(at: At) -> tuple[Axes, ...]:
    flags = at.node.attributes
    rows, inner = (1, 0) if flags.transA else (0, 1)
    height, columns = (1, 0) if flags.transB else (0, 1)
    _sum(at, inner, height)
    top = at.born(0, rows) if at.is_constant(0) else at.axes(0)[rows]
    across = at.born(1, columns) if at.is_constant(1) else at.axis(1, columns)
    if at.has(2):
        _broadcast_into(at, 2, [top, across])
    return ([top, across],)


def _sum(at: At, left: int, right: int) -> None:
    """Axes of both factors that a product sums over."""
    at.join(1, right, at.cut(0, left))


def _broadcast_into(at: At, position: int, target: Axes) -> None:
    """An operand that goes together with the last axes of a target, or is repeated."""
    shape = at.type(position).shape
    for axis, dim in enumerate(shape):
        labels = target[len(target) - len(shape) + axis]
        if labels is not None and dim == len(labels):
            at.join(position, axis, labels)
        elif not at.is_constant(position):
            at.pin(at.axes(position)[axis], "repeats it")


def _matmul(at: At) -> tuple[Axes, ...] | None:
    left, right = len(at.type(0).shape), len(at.type(1).shape)
    if min(left, right) < 2:
        return None
    _sum(at, left - 1, right - 2)
    top = at.born(0, left - 2) if at.is_constant(0) else at.axes(0)[left - 2]
    across = at.born(1, right - 1) if at.is_constant(1) else at.axes(1)[right - 1]
    target: Axes = [*_batch(at, at.made()[:-2]), top, across]
    return (target,)


def _batch(at: At, made: tuple[Dim, ...]) -> Axes:
    """The axes over which a product of matrices is repeated."""
    found: Axes = []
    for place in range(-len(made), 0):
        carried: Labels | None = None
        for position in (0, 1):
            axis = len(at.type(position).shape) - 2 + place
            if axis < 0 or at.type(position).shape[axis] != made[place]:
                continue
            if carried is None:
                carried = at.axes(position)[axis]
            else:
                at.join(position, axis, carried)
        found.append(carried)
    return found


# --- attention ------------------------------------------------------------------------------


def _attention(at: At) -> tuple[Axes, ...] | None:
    if len(at.node.outputs) > 1 or any(at.has(place) for place in (4, 5, 6)):
        return None
    heads = [_heads_of(at, place) for place in range(3)]
    queries, keys, values = heads
    at.slots.tie(keys, values)
    ratio = len(queries) // len(keys)
    at.slots.tie(at.slots.tie_rows(queries.reshape(-1, ratio)), keys)
    at.slots.heads.append(queries)
    if at.has(3):
        _pin_all(at, 3, "masks by it")
    q, v = at.axes(0), at.axes(2)
    for labels in (*q[-2:-1], *at.axes(1)[-2:-1], *v[-2:-1]):
        at.pin(labels, "attends over it")
    if len(q) == 4:
        for place in range(3):
            at.pin(at.axes(place)[3], "multiplies queries by keys along it")
        return ([q[0], queries, q[2], v[3]],)
    width = len(at.axis(2, 2)) // len(keys)
    return ([q[0], q[1], np.repeat(queries, width)],)


def _heads_of(at: At, position: int) -> Labels:
    """One label for each head of an operand of either layout."""
    if len(at.type(position).shape) == 4:
        return at.axis(position, 1)
    a = at.node.attributes
    count = a.q_num_heads if position == 0 else a.kv_num_heads
    return at.slots.tie_rows(at.axis(position, 2).reshape(count, -1))


def _pin_all(at: At, position: int, why: str) -> None:
    for labels in at.axes(position):
        at.pin(labels, why)


# --- normalization --------------------------------------------------------------------------


def _batch_norm(at: At) -> tuple[Axes, ...] | None:
    if len(at.node.outputs) > 1:
        return None
    axes = at.axes(0)
    for position in range(1, len(at.node.inputs)):
        at.join(position, 0, axes[1])
    if at.node.op == "InstanceNormalization":
        for labels in axes[2:]:
            at.pin(labels, "normalizes over it")
    return (axes,)


def _normalized(at: At) -> tuple[Axes, ...] | None:
    if len(at.node.outputs) > 1:
        return None
    axes = at.axes(0)
    for labels in axes[axis_of(at.call, at.node.attributes.axis, len(axes)) :]:
        at.pin(labels, "normalizes over it")
    for position in range(1, len(at.node.inputs)):
        if at.has(position):
            _broadcast_into(at, position, axes)
    return (axes,)


# --- recurrent layers -----------------------------------------------------------------------

_GATES: Mapping[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _recurrent(at: At) -> tuple[Axes, ...] | None:
    if at.has(4):
        return None
    gates = _GATES[at.node.op]
    at.join(1, 2, at.cut(0, 2))
    # Positions of the hidden state: what the recurrent weights are summed over.
    hidden = at.cut(2, 2)
    at.slots.tie(at.slots.tie_rows(rows_of(at.born(1, 1), (gates, len(hidden)), 1)), hidden)
    at.join(2, 1, np.tile(hidden, gates))
    at.join(3, 1, np.tile(hidden, 2 * gates))
    at.join(5, 2, hidden)
    at.join(6, 2, hidden)
    at.join(7, 1, np.tile(hidden, 3))
    x = at.axes(0)
    for labels in x[:2]:
        at.pin(labels, "steps along it, or has it as its batch")
    found: list[Axes] = []
    for place, value in enumerate(at.node.outputs):
        found.append([*at.dead(at.made(place)[:-1]), hidden] if value else [])
    return tuple(found)


RULES: Mapping[str, Rule] = {
    "Conv": _convolution,
    "ConvTranspose": _convolution,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Attention": _attention,
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _batch_norm,
    "LayerNormalization": _normalized,
    "RMSNormalization": _normalized,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}
