"""LSTM, GRU and RNN: one projection of all time steps, then a ``Scan`` over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.accumulate import exact, floating
from weft.ops.build import GraphBuilder
from weft.ops.cells import Cell, CellStep, activations_of, gru, lstm, rnn
from weft.ops.control import ScanAttributes
from weft.ops.record import Builder, Call, Expand, Op, Param
from weft.ops.recurrent_reference import run_layer
from weft.ops.steps import Steps
from weft.ops.support import at_rank, known
from weft.records import dataclass

DIRECTIONS = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}


@dataclass(frozen=True, slots=True)
class RecurrentAttributes(Attributes):
    """Of ``RNN``, and what ``LSTM`` and ``GRU`` share.

    Attributes:
        hidden_size: 0 takes it from the weights.
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        activations: names, for each direction; ``()`` are the usual ones.
        activation_alpha: for those activations that take one, in order.
        activation_beta: likewise.
        clip: bound of the gates; 0 for none.
        layout: 0 for time first, 1 for batch first.
    """

    hidden_size: int = 0
    direction: str = "forward"
    activations: tuple[str, ...] = ()
    activation_alpha: tuple[float, ...] = ()
    activation_beta: tuple[float, ...] = ()
    clip: float = 0.0
    layout: int = 0


@dataclass(frozen=True, slots=True)
class LSTMAttributes(RecurrentAttributes):
    """Of ``LSTM``; ``input_forget`` 1 makes the forget gate one minus the input gate."""

    input_forget: int = 0


@dataclass(frozen=True, slots=True)
class GRUAttributes(RecurrentAttributes):
    """Of ``GRU``; ``linear_before_reset`` 1 resets after the recurrent product."""

    linear_before_reset: int = 0


@dataclass(frozen=True, slots=True)
class RecurrentFamily:
    """What tells the three layers apart.

    Attributes:
        gates: rows of the weights in units of the hidden size.
        activations: the usual ones.
        states: how many values go from step to step.
        cell: one step as nodes.
        flag: name of the attribute that alters the cell.
    """

    gates: int
    activations: tuple[str, ...]
    states: int
    cell: Cell
    flag: str = ""


FAMILIES = {
    "LSTM": RecurrentFamily(4, ("Sigmoid", "Tanh", "Tanh"), 2, lstm, "input_forget"),
    "GRU": RecurrentFamily(3, ("Sigmoid", "Tanh"), 1, gru, "linear_before_reset"),
    "RNN": RecurrentFamily(1, ("Tanh",), 1, rnn),
}

X, W, R, B, LENGTHS, HIDDEN, CELL, PEEPHOLE = range(8)
"""Positions of the inputs."""


def _check(call: Call, position: int, name: str, *shape: object) -> None:
    """An input that is absent or has exactly this shape."""
    if call.has(position) and call.type(position).shape != shape:
        wanted = ",".join(str(dim) for dim in shape)
        raise call.error(f"{name} must be [{wanted}]", got=f"{name} {call.type(position)}")


def _infer(call: Call) -> tuple[TensorType, ...]:
    a, family = call.attributes, FAMILIES[call.op]
    x = floating(call)
    if len(x.shape) != 3:
        raise call.error("input must be [time, batch, features]", got=f"x {x}")
    if a.direction not in DIRECTIONS:
        raise call.error(f"direction must be {', '.join(DIRECTIONS)}", got=a.direction)
    count = len(DIRECTIONS[a.direction])
    activations_of(call, family.activations, count)
    batch, time = x.shape[:2] if a.layout else (x.shape[1], x.shape[0])
    known(call, time)
    at_rank(call, W, 3)
    hidden = a.hidden_size or known(call, at_rank(call, R, 3).shape[-1])
    _check(call, W, "w", count, family.gates * hidden, x.shape[2])
    _check(call, R, "r", count, family.gates * hidden, hidden)
    _check(call, B, "b", count, 2 * family.gates * hidden)
    _check(call, LENGTHS, "sequence_lens", batch)
    state = (batch, count, hidden) if a.layout else (count, batch, hidden)
    _check(call, HIDDEN, "initial_h", *state)
    _check(call, CELL, "initial_c", *state)
    _check(call, PEEPHOLE, "p", count, 3 * hidden)
    every = (batch, time, count, hidden) if a.layout else (time, count, batch, hidden)
    last = TensorType(x.dtype, state)
    types = (TensorType(x.dtype, every), *(last,) * family.states)
    return types[: max(1, call.outputs)]


# --- expansion ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layer:
    """One use of a recurrent layer, its inputs wide and time first."""

    call: Call
    steps: Steps
    x: str
    weights: tuple[str, ...]
    lengths: str
    states: tuple[str, ...]


def _prepare(call: Call, builder: Builder, inputs: tuple[str, ...]) -> _Layer:
    steps = Steps(builder)
    given = (*inputs, *("",) * (8 - len(inputs)))
    wide = [
        steps.wide(value) if value and place != LENGTHS else value
        for place, value in enumerate(given)
    ]
    x = steps.transpose(wide[X], (1, 0, 2)) if call.attributes.layout else wide[X]
    states = wide[HIDDEN : HIDDEN + FAMILIES[call.op].states]
    if call.attributes.layout:
        states = [steps.transpose(value, (1, 0, 2)) if value else "" for value in states]
    weights = (wide[W], wide[R], wide[B], wide[PEEPHOLE])
    return _Layer(call, steps, x, weights, given[LENGTHS], tuple(states))


def _of_direction(steps: Steps, value: str, place: int) -> str:
    """One direction's part of a value whose first axis is the direction."""
    if not value:
        return ""
    if steps.dims(value)[0] > 1:
        value = steps.slice(value, 0, place, place + 1)
    return steps.squeeze(value, 0)


def _biases(layer: _Layer, bias: str) -> tuple[str, str]:
    """What is added to the projection, and what the cell must add itself."""
    if not bias:
        return "", ""
    steps, call = layer.steps, layer.call
    half = steps.dims(bias)[0] // 2
    first, second = steps.slice(bias, 0, 0, half), steps.slice(bias, 0, half, 2 * half)
    if call.op != "GRU" or not call.attributes.linear_before_reset:
        return steps.add(first, second), ""
    # The reset gate scales the recurrent bias of the hidden gate.
    size = half // 3
    gates = steps.add(steps.slice(first, 0, 0, 2 * size), steps.slice(second, 0, 0, 2 * size))
    whole = steps.concat([gates, steps.slice(first, 0, 2 * size, half)], 0)
    return whole, steps.slice(second, 0, 2 * size, half)


class _Body:
    """A body graph under construction, and what is given to it from outside."""

    def __init__(self, outer: Steps, name: str) -> None:
        self.outer = outer
        self.inner = Steps(GraphBuilder(outer.builder.ops, name))
        self.given: list[str] = []

    def take(self, name: str, value: str, *, sliced: bool = False) -> str:
        """A new body input fed by a value outside (slice by slice); ``""`` stays."""
        if not value:
            return ""
        type = self.outer.builder.types[value]
        if sliced:
            type = TensorType(type.dtype, type.shape[1:])
        self.given.append(value)
        return self.inner.builder.input(name, type)


def _scan(layer: _Layer, place: int, backward: int) -> tuple[str, ...]:
    """One direction: ``[time, batch, hidden]`` and the final states."""
    call, steps = layer.call, layer.steps
    family, a = FAMILIES[call.op], call.attributes
    w, r, b, p = (_of_direction(steps, value, place) for value in layer.weights)
    added, inner_bias = _biases(layer, b)
    projected = steps.op("MatMul", layer.x, steps.transpose(w, (1, 0)))
    if added:
        projected = steps.add(projected, added)
    time, batch, _ = steps.dims(layer.x)
    zero = np.zeros((batch, steps.dims(r)[1]), steps.dtype(layer.x).numpy)
    initial = [_of_direction(steps, value, place) or steps.constant(zero) for value in layer.states]
    body = _Body(steps, f"{call.op.lower()}_step")
    states = [
        body.take(name, value) for name, value in zip(("hidden", "cell"), initial, strict=False)
    ]
    slice_ = body.take("projected", projected, sliced=True)
    step_number = ""
    if layer.lengths:
        kind = steps.dtype(layer.lengths).numpy
        step_number = body.take("time", steps.constant(np.arange(time, dtype=kind)), sliced=True)
    step = CellStep(
        body.inner,
        activations_of(call, family.activations, len(DIRECTIONS[a.direction]))[place],
        a.clip,
        body.take("recurrent", steps.transpose(r, (1, 0))),
        body.take("bias", inner_bias),
        body.take("peephole", p),
        bool(getattr(a, family.flag, 0)),
    )
    lengths = body.take("lengths", layer.lengths)
    found = family.cell(step, slice_, states)
    output = found[0]
    if lengths:
        inner = body.inner
        running = inner.unsqueeze(inner.op("Less", step_number, lengths), 1)
        none = inner.scalar(0, inner.dtype(output))
        output = inner.op("Where", running, found[0], none)
        found = tuple(
            inner.op("Where", running, new, old) for new, old in zip(found, states, strict=True)
        )
    scanned = 2 if lengths else 1
    attributes = ScanAttributes(
        body.inner.builder.graph([*found, output]),
        num_states=family.states,
        num_scan_inputs=scanned,
        scan_input_directions=(backward,) * scanned,
        scan_output_directions=(backward,),
    )
    *last, every = steps.builder.nodes_of("Scan", body.given, attributes, outputs=family.states + 1)
    return (every, *last)


def _expand(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    layer = _prepare(call, builder, inputs)
    steps, layout = layer.steps, call.attributes.layout
    results = [
        _scan(layer, place, backward)
        for place, backward in enumerate(DIRECTIONS[call.attributes.direction])
    ]
    dtype = call.type(X).dtype
    found: list[str] = []
    for place, parts in enumerate(zip(*results, strict=True)):
        # Time, direction, batch, hidden; the final states have no time.
        axis = 1 if place == 0 else 0
        value = steps.concat([steps.unsqueeze(part, axis) for part in parts], axis)
        if layout:
            value = steps.transpose(value, (2, 0, 1, 3) if place == 0 else (1, 0, 2))
        found.append(steps.cast(value, dtype))
    return tuple(found[: max(1, call.outputs)])


# --- reference ------------------------------------------------------------------------------


def _reference(call: Call, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
    a, family = call.attributes, FAMILIES[call.op]
    given = [*inputs, *(None,) * (8 - len(inputs))]
    wide = [
        value if value is None or place == LENGTHS else exact(value)
        for place, value in enumerate(given)
    ]
    directions = DIRECTIONS[a.direction]
    activations = activations_of(call, family.activations, len(directions))
    found = run_layer(
        call.op,
        wide,
        directions,
        activations,
        clip=a.clip,
        flag=bool(getattr(a, family.flag, 0)),
        batch_first=bool(a.layout),
    )
    dtype: DType = call.type(X).dtype
    return tuple(each.astype(dtype.numpy) for each in found)[: max(1, call.outputs)]


def _op(name: str, attributes: type, extra: Sequence[str], doc: str) -> Op:
    optional = ("b", "sequence_lens", "initial_h", *extra)
    states = ("y_h", "y_c")[: FAMILIES[name].states]
    return Op(
        name=name,
        inputs=(
            Param("x"),
            Param("w"),
            Param("r"),
            *(Param(each, optional=True) for each in optional),
        ),
        infer=_infer,
        reference=_reference,
        compute=Expand(_expand),
        attributes=attributes,
        implied={
            "hidden_size": lambda call: call.type(R).shape[-1],
            "activations": lambda call: (
                FAMILIES[name].activations * len(DIRECTIONS[call.attributes.direction])
            ),
        },
        outputs=tuple(Param(each, optional=True) for each in ("y", *states)),
        doc=doc,
    )


OPS: tuple[Op, ...] = (
    _op("LSTM", LSTMAttributes, ("initial_c", "p"), "A layer of long short-term memory."),
    _op("GRU", GRUAttributes, (), "A layer of gated recurrent units."),
    _op("RNN", RecurrentAttributes, (), "A layer of plain recurrent units."),
)
