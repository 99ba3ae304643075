"""The recurrent layers in NumPy, step by step: the oracle of their expansions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weft.ops.cells import FORMS, Activation
from weft.records import dataclass

Array = np.ndarray
States = tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class _Direction:
    """The weights of one direction."""

    w: Array
    r: Array
    input_bias: Array
    recurrent_bias: Array
    peephole: Array
    activations: Sequence[Activation]
    clip: float
    flag: bool

    def activate(self, place: int, x: Array) -> Array:
        return self.shape(place, np.clip(x, -self.clip, self.clip) if self.clip > 0 else x)

    def shape(self, place: int, x: Array) -> Array:
        activation = self.activations[place]
        return FORMS[activation.name].numpy(x, activation).astype(x.dtype)


def _lstm(at: _Direction, x: Array, states: States) -> States:
    hidden, cell = states
    gates = x @ at.w.T + hidden @ at.r.T + at.input_bias + at.recurrent_bias
    i, o, f, c = np.split(gates, 4, axis=1)
    pi, po, pf = np.split(at.peephole, 3)
    i = at.activate(0, i + pi * cell)
    f = 1 - i if at.flag else at.activate(0, f + pf * cell)
    new = f * cell + i * at.activate(1, c)
    return (at.activate(0, o + po * new) * at.shape(2, new), new)


def _gru(at: _Direction, x: Array, states: States) -> States:
    (hidden,) = states
    xz, xr, xh = np.split(x @ at.w.T + at.input_bias, 3, axis=1)
    rz, rr, rh = np.split(at.r, 3)
    bz, br, bh = np.split(at.recurrent_bias, 3)
    z = at.activate(0, xz + hidden @ rz.T + bz)
    r = at.activate(0, xr + hidden @ rr.T + br)
    inner = r * (hidden @ rh.T + bh) if at.flag else (r * hidden) @ rh.T + bh
    h = at.activate(1, xh + inner)
    return ((1 - z) * h + z * hidden,)


def _rnn(at: _Direction, x: Array, states: States) -> States:
    gates = x @ at.w.T + states[0] @ at.r.T + at.input_bias + at.recurrent_bias
    return (at.activate(0, gates),)


CELLS: dict[str, Callable[[_Direction, Array, States], States]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN": _rnn,
}


def _run_direction(
    cell: Callable[[_Direction, Array, States], States],
    at: _Direction,
    x: Array,
    states: States,
    lengths: Array,
    backward: int,
) -> tuple[Array, ...]:
    time = x.shape[0]
    every = np.zeros((time, *states[0].shape), x.dtype)
    for step in range(time - 1, -1, -1) if backward else range(time):
        running = (step < lengths)[:, None]
        found = cell(at, x[step], states)
        every[step] = np.where(running, found[0], 0)
        states = tuple(np.where(running, new, old) for new, old in zip(found, states, strict=True))
    return (every, *states)


def run_layer(
    op: str,
    inputs: Sequence[Array | None],
    directions: Sequence[int],
    activations: Sequence[Sequence[Activation]],
    *,
    clip: float,
    flag: bool,
    batch_first: bool,
) -> list[Array]:
    """All outputs of a layer.

    Args:
        op: ``LSTM``, ``GRU`` or ``RNN``.
        inputs: its eight inputs, ``None`` where absent.
        directions: 0 forward, 1 backward.
        activations: of each direction.
        clip: bound of the gates; 0 for none.
        flag: ``input_forget`` or ``linear_before_reset``.
        batch_first: the layout of input, states and outputs.

    Returns:
        Every hidden state and the final states.
    """
    x, w, r, b, lengths, hidden, cell, peephole = inputs
    assert x is not None
    assert w is not None
    assert r is not None
    x = np.swapaxes(x, 0, 1) if batch_first else x
    count, size, batch = len(directions), r.shape[2], x.shape[1]
    bias = np.zeros((count, 2 * r.shape[1]), x.dtype) if b is None else b
    holes = np.zeros((count, 3 * size), x.dtype) if peephole is None else peephole
    limit = np.full(batch, x.shape[0]) if lengths is None else lengths
    none = np.zeros((count, batch, size), x.dtype)
    initial = [
        none if state is None else np.swapaxes(state, 0, 1) if batch_first else state
        for state in ((hidden, cell) if op == "LSTM" else (hidden,))
    ]
    results: list[tuple[Array, ...]] = []
    for place, backward in enumerate(directions):
        halves = bias[place, : r.shape[1]], bias[place, r.shape[1] :]
        at = _Direction(
            w[place],
            r[place],
            *halves,
            holes[place],
            activations[place],
            clip,
            flag,
        )
        states = tuple(state[place] for state in initial)
        results.append(_run_direction(CELLS[op], at, x, states, limit, backward))
    every, *last = zip(*results, strict=True)
    found = [np.stack(every, axis=1), *(np.stack(each) for each in last)]
    if batch_first:
        found = [
            np.transpose(found[0], (2, 0, 1, 3)),
            *(np.swapaxes(each, 0, 1) for each in found[1:]),
        ]
    return found
