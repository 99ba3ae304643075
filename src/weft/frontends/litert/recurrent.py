"""Recurrent layers, whose states are variables of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, litert

MOST_STEPS = 256
_TANH = 4
_EPSILON = 1e-8


@litert("SVDF")
def svdf(
    g: Emit,
    x: Tensor,
    features: Tensor,
    times: Tensor,
    b: Tensor | None,
    state: Tensor,
    *,
    rank: int,
    fused_activation_function: int,
) -> Tensor:
    g.require_rank(x, 2)
    g.require_rank(times, 2)
    filters, memory = times.shape
    if rank < 1 or filters % rank or state.type.size != x.shape[0] * filters * memory:
        g.refuse(f"a rank of {rank} does not fit {times.type}")
    found = g("Gemm", x, features, transB=1)
    batch = x.shape[0]
    before = g.reshape(state, (batch, filters, memory))
    newest = g.reshape(found, (batch, filters, 1))
    after = g("Concat", g.slice(before, 2, 1, memory), newest, axis=2)
    g.assign(4, g.reshape(after, state.shape))
    sums = g("ReduceSum", g("Mul", after, times), axes=(2,), keepdims=0)
    if rank > 1:
        parts = g.reshape(sums, (batch, filters // rank, rank))
        sums = g("ReduceSum", parts, axes=(2,), keepdims=0)
    if b is not None:
        sums = g("Add", sums, b)
    return g.activated(sums, fused_activation_function)


@litert("RNN")
def rnn(
    g: Emit,
    x: Tensor,
    w: Tensor,
    recurrent: Tensor,
    b: Tensor,
    hidden: Tensor,
    *,
    fused_activation_function: int,
) -> Tensor:
    found = g("Add", g("Gemm", x, w, b, transB=1), g("Gemm", hidden, recurrent, transB=1))
    made = g.activated(found, fused_activation_function)
    g.assign(4, made)
    return made


@litert("UNIDIRECTIONAL_SEQUENCE_RNN")
def unidirectional_sequence_rnn(
    g: Emit,
    x: Tensor,
    w: Tensor,
    recurrent: Tensor,
    b: Tensor,
    hidden: Tensor,
    *,
    time_major: bool = False,
    fused_activation_function: int,
) -> Tensor:
    g.require_rank(x, 3)
    axis = 0 if time_major else 1
    if not 1 <= x.shape[axis] <= MOST_STEPS:
        g.refuse(f"1 to {MOST_STEPS} steps are supported, not {x.shape[axis]}")
    rows: list[Tensor] = []
    rest = tuple(size for at, size in enumerate(x.shape) if at != axis)
    for at in range(x.shape[axis]):
        row = g.reshape(g.slice(x, axis, at, at + 1), rest)
        found = g("Add", g("Gemm", row, w, b, transB=1), g("Gemm", hidden, recurrent, transB=1))
        hidden = g.activated(found, fused_activation_function)
        shape = (*hidden.shape[:axis], 1, *hidden.shape[axis:])
        rows.append(g.reshape(hidden, shape))
    g.assign(4, hidden)
    return g("Concat", *rows, axis=axis)


# --- LSTM -------------------------------------------------------------------------------------

Gates = Sequence[Tensor | None]
"""Of the input, forget, cell and output gates, as LiteRT orders them; no input gate: coupled."""


@dataclass
class _Cell:
    """The weights of an LSTM and how it computes."""

    inputs: Gates
    recurrent: Gates
    peepholes: Gates
    biases: Gates
    norms: Gates
    projection: Tensor | None
    projection_bias: Tensor | None
    activation: int
    cell_clip: float
    projection_clip: float

    @property
    def is_plain(self) -> bool:
        """Whether ONNX's op computes it."""
        extra = (*self.norms, self.projection)
        clips = self.cell_clip > 0 or self.projection_clip > 0
        coupled = self.inputs[0] is None
        return not any(extra) and not clips and not coupled and self.activation == _TANH


@litert("UNIDIRECTIONAL_SEQUENCE_LSTM")
def unidirectional_sequence_lstm(
    g: Emit,
    x: Tensor,
    *rest: Tensor | None,
    fused_activation_function: int,
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    time_major: bool = False,
) -> Tensor:
    g.require_rank(x, 3)
    given: list[Tensor | None] = [x, *rest, *(None,) * (24 - 1 - len(rest))]
    hidden, cell = given[18], given[19]
    if len(given) != 24 or hidden is None or cell is None or any(x is None for x in given[2:5]):
        g.refuse("it must have 20 or 24 inputs, with weights and states")
    steps = given[0] if time_major else g.transpose(x, (1, 0, 2))
    assert steps is not None
    weights = _Cell(
        given[1:5],
        given[5:9],
        (given[9], given[10], None, given[11]),
        [g.cast(each, DType.F32) if each is not None else None for each in given[12:16]],
        given[20:24],
        given[16],
        given[17],
        fused_activation_function,
        cell_clip,
        proj_clip,
    )
    run = _by_op if weights.is_plain else _unrolled
    made, hidden, cell = run(g, weights, steps, hidden, cell)
    g.assign(18, hidden)
    g.assign(19, cell)
    return made if time_major else g.transpose(made, (1, 0, 2))


def _joined(g: Emit, parts: Sequence[Tensor | None], like: Tensor) -> Tensor:
    """Tensors one after another; zeros where absent."""
    held = [
        g("Expand", g.number(0, DType.F32), shape=like.shape) if each is None else each
        for each in parts
    ]
    arrays = [g.array(each) for each in held]
    known = [each for each in arrays if each is not None]
    if len(known) == len(held):
        return g.constant(np.concatenate(known))
    return g("Concat", *held, axis=0)


def _by_op(
    g: Emit, cell: _Cell, x: Tensor, hidden: Tensor, state: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    first = cell.inputs[1]
    assert first is not None
    units = first.shape[0]

    def in_order(gates: Gates, like: Tensor) -> Tensor:
        """Gates as ONNX orders them: input, output, forget, cell."""
        joined = _joined(g, [gates[at] for at in (0, 3, 1, 2)], like)
        return g.reshape(joined, (1, *joined.shape))

    bias = next((each for each in cell.biases if each is not None), None)
    b = None
    if bias is not None:
        own = in_order(cell.biases, bias)
        b = g("Concat", own, g("Expand", g.number(0, DType.F32), shape=own.shape), axis=1)
    peephole = next((each for each in cell.peepholes if each is not None), None)
    p = None
    if peephole is not None:
        joined = _joined(g, [cell.peepholes[at] for at in (0, 3, 1)], peephole)
        p = g.reshape(joined, (1, *joined.shape))
    recurrent = cell.recurrent[1]
    assert recurrent is not None
    y, last, after = g.several(
        "LSTM",
        x,
        in_order(cell.inputs, first),
        in_order(cell.recurrent, recurrent),
        b,
        None,
        g.reshape(hidden, (1, *hidden.shape)),
        g.reshape(state, (1, *state.shape)),
        p,
        outputs=3,
        hidden_size=units,
    )
    flat = g.reshape(y, (x.shape[0], x.shape[1], units))
    return flat, g.reshape(last, hidden.shape), g.reshape(after, state.shape)


def _unrolled(
    g: Emit, cell: _Cell, x: Tensor, hidden: Tensor, state: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    if not 1 <= x.shape[0] <= MOST_STEPS:
        g.refuse(f"at most {MOST_STEPS} steps of such a cell are supported, not {x.shape[0]}")
    rows: list[Tensor] = []
    for at in range(x.shape[0]):
        row = g.reshape(g.slice(x, 0, at, at + 1), x.shape[1:])
        hidden, state = _step(g, cell, row, hidden, state)
        rows.append(g.reshape(hidden, (1, *hidden.shape)))
    return g("Concat", *rows, axis=0), hidden, state


def _gate(g: Emit, cell: _Cell, at: int, x: Tensor, hidden: Tensor, state: Tensor) -> Tensor:
    """What goes into the activation of a gate."""
    total = g(
        "Add",
        g("Gemm", x, cell.inputs[at], transB=1),
        g("Gemm", hidden, cell.recurrent[at], transB=1),
    )
    peephole, norm, bias = cell.peepholes[at], cell.norms[at], cell.biases[at]
    if peephole is not None:
        total = g("Add", total, g("Mul", state, peephole))
    if norm is not None:
        total = g("LayerNormalization", total, norm, epsilon=_EPSILON)
    return total if bias is None else g("Add", total, bias)


def _step(g: Emit, cell: _Cell, x: Tensor, hidden: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    forget = g("Sigmoid", _gate(g, cell, 1, x, hidden, state))
    if cell.inputs[0] is None:
        taken = g("Sub", g.number(1, DType.F32), forget)
    else:
        taken = g("Sigmoid", _gate(g, cell, 0, x, hidden, state))
    new = g.activated(_gate(g, cell, 2, x, hidden, state), cell.activation)
    state = g("Add", g("Mul", forget, state), g("Mul", taken, new))
    state = _clipped(g, state, cell.cell_clip)
    given = g("Sigmoid", _gate(g, cell, 3, x, hidden, state))
    made = g("Mul", given, g.activated(state, cell.activation))
    if cell.projection is not None:
        made = g("Gemm", made, cell.projection, cell.projection_bias, transB=1)
        made = _clipped(g, made, cell.projection_clip)
    return made, state


def _clipped(g: Emit, x: Tensor, limit: float) -> Tensor:
    return g("Clip", x, min=-limit, max=limit) if limit > 0 else x
