# pyright: basic
"""Recurrent layers, several of them as one op of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.frontends.emit import Tensor
from weft.torch.aten.record import Emit, Row, aten

GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""The gates in the order of Weft, as numbered by PyTorch."""


def _in_order(g: Emit, op: str, weight: Tensor) -> Tensor:
    """A weight or bias with its gates in Weft's order, and an axis of the direction before."""
    order = GATES[op]
    size = weight.shape[0] // len(order)
    made = weight
    if len(order) > 1:
        parts = [g.slice(weight, 0, gate * size, (gate + 1) * size) for gate in order]
        made = g("Concat", *parts, axis=0)
    return g.reshape(made, (1, *made.shape))


def _stacked(g: Emit, parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    return parts[0] if len(parts) == 1 else g("Concat", *parts, axis=axis)


def _layer_weights(
    g: Emit, op: str, directions: Sequence[Sequence[Tensor]], has_biases: bool
) -> list[Tensor | None]:
    """Weights, recurrent weights and biases of a layer."""
    found: list[Tensor | None] = [
        _stacked(g, [_in_order(g, op, direction[place]) for direction in directions])
        for place in range(2)
    ]
    if not has_biases:
        return [*found, None]
    both = [
        g("Concat", *(_in_order(g, op, bias) for bias in direction[2:4]), axis=1)
        for direction in directions
    ]
    return [*found, _stacked(g, both)]


def _recurrent(op: str, *activations: str) -> Row:
    states = 2 if op == "LSTM" else 1

    def row(
        g: Emit,
        input: Tensor,
        hx: Tensor | Sequence[Tensor],
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        if dropout and train:
            g.refuse("dropout in training is not supported")
        count = 1 + bidirectional
        initial = [hx] if isinstance(hx, Tensor) else list(hx)
        tensors = 4 if has_biases else 2
        if len(params) != num_layers * count * tensors:
            g.refuse("recurrent layers with projections are not supported")
        options: dict[str, Any] = {"direction": "bidirectional" if bidirectional else "forward"}
        if activations:
            options["activations"] = activations * count
        if op == "GRU":
            options["linear_before_reset"] = 1
        x = g.transpose(input, (1, 0, 2)) if batch_first else input
        directions = [params[at : at + tensors] for at in range(0, len(params), tensors)]
        last: list[list[Tensor]] = []
        for layer in range(num_layers):
            begin = layer * count
            weights = _layer_weights(g, op, directions[begin : begin + count], has_biases)
            start = [g.slice(each, 0, begin, begin + count) for each in initial]
            every, *after = g.several(op, x, *weights, None, *start, outputs=1 + states, **options)
            time, _, batch, hidden = every.shape
            every = g.transpose(every, (0, 2, 1, 3)) if count > 1 else every
            x = g.reshape(every, (time, batch, count * hidden))
            last.append(after)
        made = g.transpose(x, (1, 0, 2)) if batch_first else x
        return (made, *(_stacked(g, parts) for parts in zip(*last, strict=True)))

    return row


aten("lstm.input")(_recurrent("LSTM"))
aten("gru.input")(_recurrent("GRU"))
aten("rnn_tanh.input")(_recurrent("RNN", "Tanh"))
aten("rnn_relu.input")(_recurrent("RNN", "Relu"))


# --- one step ---------------------------------------------------------------------------------


def _cell(op: str, *activations: str) -> Row:
    def row(
        g: Emit,
        input: Tensor,
        hx: Tensor | Sequence[Tensor],
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        initial = [hx] if isinstance(hx, Tensor) else list(hx)
        direction = [w_ih, w_hh] if b_ih is None or b_hh is None else [w_ih, w_hh, b_ih, b_hh]
        weights = _layer_weights(g, op, [direction], len(direction) == 4)
        start = [g.reshape(each, (1, *each.shape)) for each in initial]
        options: dict[str, Any] = {"activations": activations} if activations else {}
        if op == "GRU":
            options["linear_before_reset"] = 1
        x = g.reshape(input, (1, *input.shape))
        made = g.several(op, x, *weights, None, *start, outputs=1 + len(start), **options)
        after = tuple(g.reshape(each, each.shape[1:]) for each in made[1:])
        return after if op == "LSTM" else after[0]

    return row


aten("lstm_cell.default")(_cell("LSTM"))
aten("gru_cell.default")(_cell("GRU"))
aten("rnn_tanh_cell.default")(_cell("RNN", "Tanh"))
aten("rnn_relu_cell.default")(_cell("RNN", "Relu"))
