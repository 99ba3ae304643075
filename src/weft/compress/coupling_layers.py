"""Coupling of layers whose attributes count heads or hidden positions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.compress.coupling import CoupledAt, Rule
from weft.compress.slots import Axes, Labels, rows_of

# --- attention ------------------------------------------------------------------------------


def _attention(at: CoupledAt) -> tuple[Axes, ...] | None:
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


def _heads_of(at: CoupledAt, position: int) -> Labels:
    """One label for each head of an operand of either layout."""
    if len(at.type(position).shape) == 4:
        return at.axis(position, 1)
    a = at.node.attributes
    count = a.q_num_heads if position == 0 else a.kv_num_heads
    return at.slots.tie_rows(at.axis(position, 2).reshape(count, -1))


def _pin_all(at: CoupledAt, position: int, why: str) -> None:
    for labels in at.axes(position):
        at.pin(labels, why)


# --- recurrent layers -----------------------------------------------------------------------

_GATES: Mapping[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _recurrent(at: CoupledAt) -> tuple[Axes, ...] | None:
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
    "Attention": _attention,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}
"""What their expansions do not say: which numbers in attributes follow the positions."""
