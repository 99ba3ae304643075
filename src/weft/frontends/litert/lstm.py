"""Layers with gates, whose states are variables of the file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.frontends.litert.fixed_lstm import fixed_lstm, quantized
from weft.frontends.litert.hybrid import Dense, dense
from weft.frontends.litert.model import TensorInfo
from weft.frontends.litert.record import Emit, litert
from weft.frontends.litert.recurrent import joined_steps, steps_of
from weft.records import dataclass

_TANH = 4
_EPSILON = 1e-8

Gates = Sequence[Tensor | None]
"""Of the input, forget, cell and output gates, as LiteRT orders them; no input gate: coupled."""
Products = Sequence[Dense | None]
_FULL, _BASIC = 0, 1


@dataclass(frozen=True)
class _Places:
    """Where the inputs of a direction stand among the operator's; those of gates, the first."""

    inputs: int
    recurrent: int
    peepholes: int
    biases: int
    projection: int
    hidden: int
    norms: int = -1
    extra: int = -1


@dataclass
class _Cell:
    """The weights of an LSTM and how it computes."""

    inputs: Products
    recurrent: Products
    extra: Products
    peepholes: Gates
    biases: Gates
    norms: Gates
    projection: Dense | None
    projection_bias: Tensor | None
    activation: int
    clip: tuple[float, float]
    states: tuple[TensorInfo | None, TensorInfo | None]

    @property
    def is_plain(self) -> bool:
        """Whether ONNX's op computes it."""
        additions = any((*self.norms, self.projection, *self.extra))
        clips = any(each > 0 for each in self.clip)
        weights = [each for each in (*self.inputs, *self.recurrent) if each is not None]
        rounded = any(each.stored is not None for each in weights)
        rounded |= any(each is not None and each.quantization is not None for each in self.states)
        simple = len(weights) == 8 and self.activation == _TANH
        return simple and not additions and not clips and not rounded


@dataclass(frozen=True)
class _Options:
    """The options of an operator."""

    activation: int
    clip: tuple[float, float]
    asymmetric: bool


def _cell(g: Emit, given: Gates, at: _Places, options: _Options) -> _Cell:
    x = given[0]
    assert x is not None

    def products(first: int, count: int = 4) -> Products:
        if first < 0:
            return (None,) * count
        found = ((place, given[place]) for place in range(first, first + count))
        return [
            None if each is None else dense(g, x, each, place, options.asymmetric)
            for place, each in found
        ]

    def gates(first: int) -> Gates:
        if first < 0:
            return (None,) * 4
        found = given[first : first + 4]
        return [None if each is None else g.cast(each, DType.F32) for each in found]

    inputs, recurrent = products(at.inputs), products(at.recurrent)
    if given[at.hidden] is None or given[at.hidden + 1] is None or None in inputs[1:]:
        g.refuse("it must have weights and states")
    if None in recurrent[1:]:
        g.refuse("it must have weights of its state for all gates")
    peepholes = given[at.peepholes : at.peepholes + 3]
    return _Cell(
        inputs,
        recurrent,
        products(at.extra),
        (peepholes[0], peepholes[1], None, peepholes[2]),
        gates(at.biases),
        gates(at.norms),
        products(at.projection, 1)[0],
        given[at.projection + 1],
        options.activation,
        options.clip,
        (g.taken[at.hidden], g.taken[at.hidden + 1]),
    )


def _directed(
    g: Emit,
    cell: _Cell,
    at: _Places,
    states: tuple[Tensor, Tensor],
    rows: list[Tensor],
    others: list[Tensor],
    *,
    backwards: bool,
) -> list[Tensor]:
    """What a direction gives for every step; its states are assigned."""
    hidden, state = states
    made: list[Tensor] = []
    order = range(len(rows))
    for step in reversed(order) if backwards else order:
        other = others[step] if others else None
        hidden, state = _step(g, cell, rows[step], other, hidden, state)
        made.append(hidden)
    g.assign(at.hidden, hidden)
    g.assign(at.hidden + 1, state)
    return made[::-1] if backwards else made


def _states(given: Gates, at: _Places) -> tuple[Tensor, Tensor]:
    hidden, state = given[at.hidden], given[at.hidden + 1]
    assert hidden is not None
    assert state is not None
    return hidden, state


_ONE = _Places(1, 5, 9, 12, 16, 18, norms=20)


def _completed(g: Emit, x: Tensor, rest: Gates, least: int, most: int) -> list[Tensor | None]:
    """The inputs of an operator, with all that may be absent."""
    given = [x, *rest, *(None,) * (most - 1 - len(rest))]
    if not least <= len(rest) + 1 <= most:
        g.refuse(f"it must have {least} or {most} inputs, with weights and states")
    return given


@litert("UNIDIRECTIONAL_SEQUENCE_LSTM")
def unidirectional_sequence_lstm(
    g: Emit,
    x: Tensor,
    *rest: Tensor | None,
    fused_activation_function: int,
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    time_major: bool = False,
    asymmetric_quantize_inputs: bool = False,
    diagonal_recurrent_tensors: bool = False,
) -> Tensor:
    g.require_rank(x, 3)
    if diagonal_recurrent_tensors:
        g.refuse("diagonal weights of its state are not supported")
    given = _completed(g, x, rest, 20, 24)
    how = quantized(g, proj_clip) if fused_activation_function == _TANH else None
    if how is not None:
        return fixed_lstm(g, how, cell_clip, time_major)
    options = _Options(
        fused_activation_function, (cell_clip, proj_clip), asymmetric_quantize_inputs
    )
    cell, states = _cell(g, given, _ONE, options), _states(given, _ONE)
    if cell.is_plain:
        steps = x if time_major else g.transpose(x, (1, 0, 2))
        made, *after = _by_op(g, given, steps, *states)
        for place, value in enumerate(after, _ONE.hidden):
            g.assign(place, value)
        return made if time_major else g.transpose(made, (1, 0, 2))
    axis = 0 if time_major else 1
    rows = _directed(g, cell, _ONE, states, steps_of(g, x, axis), [], backwards=False)
    return joined_steps(g, rows, axis)


@litert("LSTM")
def lstm(
    g: Emit,
    x: Tensor,
    *rest: Tensor | None,
    fused_activation_function: int,
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    kernel_type: int = _FULL,
    asymmetric_quantize_inputs: bool = False,
) -> list[Tensor]:
    g.require_rank(x, 2)
    if kernel_type == _BASIC:
        return _basic(g, x, rest)
    given = _completed(g, x, rest, 20, 24)
    options = _Options(
        fused_activation_function, (cell_clip, proj_clip), asymmetric_quantize_inputs
    )
    cell = _cell(g, given, _ONE, options)
    return _directed(g, cell, _ONE, _states(given, _ONE), [x], [], backwards=False)


def _basic(g: Emit, x: Tensor, rest: Gates) -> list[Tensor]:
    """Of one product for all gates: input, cell, forget and output; four outputs."""
    if len(rest) != 4 or any(each is None for each in rest):
        g.refuse("its basic kernel must have 5 inputs")
    before, weights, bias, state = (each for each in rest if each is not None)
    joined = g("Concat", x, before, axis=1)
    gates = g("Gemm", joined, weights, bias, transB=1)
    units = state.shape[-1]
    parts = [g.slice(gates, 1, at * units, (at + 1) * units) for at in range(4)]
    taken, new = g("Sigmoid", parts[0]), g("Tanh", parts[1])
    forget, given = g("Sigmoid", parts[2]), g("Sigmoid", parts[3])
    after = g("Add", g("Mul", taken, new), g("Mul", forget, state))
    made = g("Mul", given, g("Tanh", after))
    for place, value in ((1, made), (4, after)):
        info = g.taken[place]
        if info is not None and info.variable:
            g.assign(place, value)
    return [made, after, joined, gates]


_FORWARD = _Places(1, 5, 9, 12, 16, 35, extra=40)
_BACKWARD = _Places(18, 22, 26, 29, 33, 37, extra=44)
_AUXILIARY = 39


@litert("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_sequence_lstm(
    g: Emit,
    x: Tensor,
    *rest: Tensor | None,
    fused_activation_function: int,
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    merge_outputs: bool = False,
    time_major: bool = False,
    asymmetric_quantize_inputs: bool = False,
) -> list[Tensor]:
    given = _completed(g, x, rest, 48, 48)
    options = _Options(
        fused_activation_function, (cell_clip, proj_clip), asymmetric_quantize_inputs
    )
    axis, extra = 0 if time_major else 1, given[_AUXILIARY]
    # Without weights of its own, the other input is that of the direction backwards.
    crossed = extra is not None and given[_FORWARD.extra + 1] is None
    made: list[Tensor] = []
    for at in (_FORWARD, _BACKWARD):
        backwards = at is _BACKWARD
        source = extra if crossed and backwards and extra is not None else x
        others = steps_of(g, extra, axis) if extra is not None and not crossed else []
        cell, states = _cell(g, given, at, options), _states(given, at)
        rows = steps_of(g, source, axis)
        rows = _directed(g, cell, at, states, rows, others, backwards=backwards)
        made.append(joined_steps(g, rows, axis))
    return [g("Concat", *made, axis=2)] if merge_outputs else made


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
    g: Emit, given: Gates, x: Tensor, hidden: Tensor, state: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    first, again = given[_ONE.inputs + 1], given[_ONE.recurrent + 1]
    assert first is not None
    assert again is not None
    units = first.shape[0]
    biases = given[_ONE.biases : _ONE.biases + 4]
    peepholes = given[_ONE.peepholes : _ONE.peepholes + 3]

    def in_order(gates: Gates, like: Tensor) -> Tensor:
        """Gates as ONNX orders them: input, output, forget, cell."""
        joined = _joined(g, [gates[at] for at in (0, 3, 1, 2)], like)
        return g.reshape(joined, (1, *joined.shape))

    bias = next((each for each in biases if each is not None), None)
    b = None
    if bias is not None:
        own = in_order(biases, bias)
        b = g("Concat", own, g("Expand", g.number(0, DType.F32), shape=own.shape), axis=1)
    peephole = next((each for each in peepholes if each is not None), None)
    p = None
    if peephole is not None:
        joined = _joined(g, [peepholes[at] for at in (0, 2, 1)], peephole)
        p = g.reshape(joined, (1, *joined.shape))
    y, last, after = g.several(
        "LSTM",
        x,
        in_order(given[_ONE.inputs : _ONE.inputs + 4], first),
        in_order(given[_ONE.recurrent : _ONE.recurrent + 4], again),
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


def _gate(
    g: Emit, cell: _Cell, at: int, x: Tensor, other: Tensor | None, hidden: Tensor, state: Tensor
) -> Tensor:
    """What goes into the activation of a gate."""
    own, again, aside = cell.inputs[at], cell.recurrent[at], cell.extra[at]
    assert own is not None
    assert again is not None
    total = own(x)
    if other is not None and aside is not None:
        total = g("Add", total, aside(other))
    total = g("Add", total, again(hidden))
    peephole, norm, bias = cell.peepholes[at], cell.norms[at], cell.biases[at]
    if peephole is not None:
        total = g("Add", total, g("Mul", state, peephole))
    if norm is not None:
        total = g("LayerNormalization", total, norm, epsilon=_EPSILON)
    return total if bias is None else g("Add", total, bias)


def _step(
    g: Emit, cell: _Cell, x: Tensor, other: Tensor | None, hidden: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    def gate(at: int) -> Tensor:
        return _gate(g, cell, at, x, other, hidden, state)

    forget = g("Sigmoid", gate(1))
    taken = g("Sub", g.number(1, DType.F32), forget)
    if cell.inputs[0] is not None:
        taken = g("Sigmoid", gate(0))
    new = g.activated(gate(2), cell.activation)
    state = g("Add", g("Mul", forget, state), g("Mul", taken, new))
    state = _held(g, _clipped(g, state, cell.clip[0]), cell.states[1])
    given = g("Sigmoid", gate(3))
    made = g("Mul", given, g.activated(state, cell.activation))
    if cell.projection is not None:
        made = cell.projection(made)
        if cell.projection_bias is not None:
            made = g("Add", made, cell.projection_bias)
        made = _clipped(g, made, cell.clip[1])
    return _held(g, made, cell.states[0]), state


def _held(g: Emit, value: Tensor, info: TensorInfo | None) -> Tensor:
    """A state as the next step finds it: rounded where it is stored in integers."""
    if info is None or info.quantization is None:
        return value
    return g.dequantized(g.quantized(value, info), info.quantization)


def _clipped(g: Emit, x: Tensor, limit: float) -> Tensor:
    return g("Clip", x, min=-limit, max=limit) if limit > 0 else x
