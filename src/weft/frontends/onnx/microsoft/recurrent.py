"""``DynamicQuantizeLSTM``, which quantizes its state dynamically in each step."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnx import GraphProto, NodeProto, TensorProto, helper

from weft.frontends.onnx.microsoft.body import Body, Writer

_ACTIVATIONS = ["Sigmoid", "Tanh", "Tanh"]
_GATES = 4


def _lstm(body: Body) -> None:
    """A scan over the steps, whose gates are sums of products of integers.

    The whole sequence is quantized at once, and a state before its product.
    """
    body.only(input_forget=0)
    body.without(sequence_lens=4)
    direction = body.text("direction", "forward").lower()
    words = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    if direction not in words:
        raise body.refuse(f"with direction = {direction}")
    names = [
        each.decode() if isinstance(each, bytes) else each
        for each in body.given.get("activations", _ACTIVATIONS * len(words[direction]))
    ]
    if names != _ACTIVATIONS * len(words[direction]):
        raise body.refuse(f"with activations = {names}")
    quantized = [body.fresh() for _ in range(3)]
    body.node("DynamicQuantizeLinear", [body.taken(0)], quantized)
    found = [
        _direction(body, number, back, quantized) for number, back in enumerate(words[direction])
    ]
    for place, axis in ((0, 1), (1, 0), (2, 0)):
        if body.asked(place):
            parts = [body.axes(each[place], axis) for each in found]
            body.op("Concat", *parts, axis=axis, output=body.outputs[place])


def _direction(body: Body, number: int, back: bool, x: list[str]) -> tuple[str, str, str]:
    """States of all steps, the last one, and the last cell, of one direction."""
    weights, recurrent = body.taken(1), body.taken(2)
    own = [_own(body, body.taken(place), number) for place in (8, 9, 10, 11)]
    sums = body.op("MatMulInteger", x[0], _own(body, weights, number), x[2], own[1])
    scale = body.op("Mul", x[1], own[0])
    gates = body.op("Mul", body.op("Cast", sums, to=TensorProto.FLOAT), scale)
    hidden = body.given.get("hidden_size") or body.size(2, 1)
    if body.taken(3):
        bias = _own(body, body.taken(3), number)
        first, second = body.split(bias, 0, _GATES * hidden, _GATES * hidden)
        gates = body.op("Add", gates, body.op("Add", first, second))
    batch = body.op("Shape", body.taken(0), start=1, end=2)
    shape = body.op("Concat", batch, body.constant(hidden), axis=0)
    none = body.op("Expand", body.scalar(0), shape)
    states = [
        _own(body, body.taken(place), number) if body.taken(place) else none for place in (5, 6)
    ]
    peepholes = (
        body.split(_own(body, body.taken(7), number), 0, *(hidden,) * 3) if body.taken(7) else []
    )
    turned = [_own(body, recurrent, number), own[3], own[2]]
    step = _step(hidden, turned, peepholes, body.given.get("clip", 0.0))
    outputs = [body.fresh() for _ in range(3)]
    directions: dict[str, Any] = {
        "scan_input_directions": [int(back)],
        "scan_output_directions": [int(back)],
    }
    body.node("Scan", [*states, gates], outputs, body=step, num_scan_inputs=1, **directions)
    return outputs[2], outputs[0], outputs[1]


def _own(body: Body, x: str, number: int) -> str:
    """A direction's part of an input."""
    place = body.constant(number)
    return body.op("Squeeze", body.op("Gather", x, place, axis=0), body.constant(0))


def _step(hidden: int, weights: list[str], peepholes: list[str], clip: float) -> GraphProto:
    """One step: the next state and cell from those before and the input's part of the gates.

    Args:
        hidden: the size of a state.
        weights: of states, their zero point and scale, names from around.
        peepholes: of the cell to the gates of input, output and forgetting, or none.
        clip: the most that a gate's sum may be; 0 for no limit.
    """
    inner = Body(NodeProto(), prefix="s")
    h, c, x = "h", "c", "x"
    whole = [inner.fresh() for _ in range(3)]
    inner.node("DynamicQuantizeLinear", [h], whole)
    sums = inner.op("MatMulInteger", whole[0], weights[0], whole[2], weights[1])
    scale = inner.op("Mul", whole[1], weights[2])
    turned = inner.op("Mul", inner.op("Cast", sums, to=TensorProto.FLOAT), scale)
    parts = inner.split(inner.op("Add", turned, x), 1, *(hidden,) * _GATES)

    def gate(value: str, op: str) -> str:
        if clip > 0:
            value = inner.op("Clip", value, inner.scalar(-clip), inner.scalar(clip))
        return inner.op(op, value)

    def seen(value: str, cell: str, place: int) -> str:
        if not peepholes:
            return value
        return inner.op("Add", value, inner.op("Mul", peepholes[place], cell))

    start = gate(seen(parts[0], c, 0), "Sigmoid")
    keep = gate(seen(parts[2], c, 2), "Sigmoid")
    new = inner.op("Mul", start, gate(parts[3], "Tanh"))
    cell = inner.op("Add", inner.op("Mul", keep, c), new, output="cell")
    open = gate(seen(parts[1], cell, 1), "Sigmoid")
    state = inner.op("Mul", open, inner.op("Tanh", cell), output="state")
    inner.op("Identity", state, output="shown")
    infos = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        for name in (h, c, x, "state", "cell", "shown")
    }
    return helper.make_graph(
        inner.nodes,
        "step",
        [infos[each] for each in (h, c, x)],
        [infos[each] for each in ("state", "cell", "shown")],
    )


RECURRENT: Mapping[str, Writer] = MappingProxyType({"DynamicQuantizeLSTM": _lstm})
"""The function that writes the body of a call, by op name."""
