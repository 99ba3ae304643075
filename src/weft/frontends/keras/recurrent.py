# pyright: basic
"""Recurrent layers, forward and backward, with masks and with states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.frontends.keras.cells import Cell, GatedCell, StackedCells, gated_cell, scan
from weft.frontends.keras.record import (
    Called,
    Config,
    Emit,
    Inner,
    Made,
    Row,
    State,
    Tensor,
    layer,
)
from weft.frontends.keras.weights import snake_case
from weft.ir.types import TensorType

_OPS = {"LSTM": "LSTM", "GRU": "GRU", "SimpleRNN": "RNN"}
_KINDS = {
    **_OPS,
    **{f"{kind}Cell": op for kind, op in _OPS.items()},
    "CuDNNLSTM": "",
    "CuDNNGRU": "",
}


def _sizes(cell: Cell) -> list[tuple[int, ...]]:
    return cell.all_states if isinstance(cell, StackedCells) else cell.states


def _initial(
    g: Emit, cell: Cell, x: Tensor, given: Any, stateful: bool, part: str
) -> tuple[list[Tensor], list[Tensor]]:
    """States before the first step, and those of the graph's inputs among them.

    A stateful layer that was called before goes on from the states of that call.
    """
    sizes = _sizes(cell)
    if given is not None:
        found = list(given) if isinstance(given, list | tuple) else [given]
        if len(found) != len(sizes) or not all(isinstance(each, Tensor) for each in found):
            g.refuse(f"initial_state must be {len(sizes)} tensors")
        return found, []
    shapes = [(x.shape[0], *size) for size in sizes]
    called = g.called.get(_key(g, part)) if stateful else None
    if called is not None:
        if not _follows(g, x, called):
            g.refuse("it keeps states, and a call of it does not depend on the one before")
        states = [each.after for each in g.states if each.before.name in called.ports]
        if [each.shape for each in states] != shapes:
            g.refuse("it keeps states, and calls of it have batches of several sizes")
        return states, []
    if stateful:
        inputs = [
            g.of(g.builder.input(f"{part}.state{at}", TensorType(x.dtype, shape)))
            for at, shape in enumerate(shapes)
        ]
        return inputs, inputs
    zero = [np.zeros(shape, x.dtype.numpy) for shape in shapes]
    return [g.held(each, f"zero{at}") for at, each in enumerate(zero)], []


def _key(g: Emit, part: str) -> tuple[Any, str]:
    """A layer, or the one of two directions, whatever the call."""
    return g.place, part.removeprefix(g.name)


def _follows(g: Emit, x: Tensor, call: Called) -> bool:
    """Whether a value is computed from those that a call makes."""
    nodes = g.builder.nodes
    wanted = {x.name}
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
    return any(wanted.intersection(node.outputs) for node in nodes[call.begin : call.end])


def _note_call(
    g: Emit, part: str, begin: int, inputs: Sequence[Tensor], after: Sequence[Tensor]
) -> None:
    """Hands states on to the next run, and to later calls of the layer in this one."""
    called = g.called.get(_key(g, part))
    before = {each.before.name: each.before for each in g.states}
    old = list(inputs) if called is None else [before[name] for name in called.ports]
    ports = tuple(each.name for each in old)
    if ports:
        g.called[_key(g, part)] = Called(ports, begin, len(g.builder.nodes))
    g.states = [each for each in g.states if each.before.name not in ports]
    g.states += [State(port, new) for port, new in zip(old, after, strict=False)]


def over_steps(
    g: Emit,
    cell: Cell,
    c: Config,
    x: Tensor,
    mask: Tensor | None,
    initial: Any,
    zero: bool,
    part: str,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Outputs of all steps in the order of the inputs, of the last step, and the states."""
    if x.rank < 3:
        g.refuse(f"its input must have at least 3 dimensions, but has {x.rank}")
    reverse, stateful = c.flag("go_backwards"), c.flag("stateful")
    before, inputs = _initial(g, cell, x, initial, stateful, part)
    begin, again = len(g.builder.nodes), stateful and _key(g, part) in g.called
    if isinstance(cell, GatedCell) and cell.is_native and mask is None:
        # Without a start of its own the op begins with 0.
        start = before if initial is not None or inputs or again else []
        every, last, after = cell.native(g, x, start, reverse)
    else:
        turned = (1, 0, *range(2, x.rank))
        kept = g.transpose(mask, (1, 0)) if mask is not None else None
        steps = g.transpose(x, turned)
        every, last, after = scan(g, cell, steps, before, reverse=reverse, mask=kept, zero=zero)
        every = g.transpose(every, (1, 0, *range(2, every.rank)))
    if stateful:
        _note_call(g, part, begin, inputs, after)
    return every, last, after


def result(
    g: Emit, c: Config, found: tuple[Tensor, Tensor, list[Tensor]], mask: Tensor | None
) -> Made:
    every, last, after = found
    if c.flag("return_sequences"):
        # Keras gives the steps in the order in which they were computed.
        made = g.flip(every, 1) if c.flag("go_backwards") else every
        if mask is not None:
            g.masks[made.name] = mask
    else:
        made = last
    if not c.flag("return_state"):
        return made
    # A state that is the output, too, is a value of its own.
    return [made, *(g("Identity", each) if each == made else each for each in after)]


def _layer(op: str) -> Row:
    def row(g: Emit, c: Config, sequence: Any, initial_state: Any = None, mask: Any = None) -> Made:
        x, initial = arguments(g, sequence, initial_state)
        mask = mask[0] if isinstance(mask, list) else mask
        cell = gated_cell(g, c, op, [("cell", "")])
        zero = c.flag("zero_output_for_mask")
        found = over_steps(g, cell, c, x, mask, initial, zero, g.name)
        return result(g, c, found, g.mask(x) if mask is None else mask)

    return row


def arguments(g: Emit, sequence: Any, initial: Any) -> tuple[Tensor, Any]:
    """The steps and the states of a call, which Keras 2 wrote as one list."""
    if isinstance(sequence, list | tuple):
        return sequence[0], initial if initial is not None else list(sequence[1:]) or None
    if not isinstance(sequence, Tensor):
        g.refuse("it must be called with a tensor")
    return sequence, initial


for _kind, _op in _OPS.items():
    layer(_kind)(_layer(_op))


@layer("RNN")
def rnn(g: Emit, c: Config, sequence: Any, initial_state: Any = None, mask: Any = None) -> Made:
    x, initial = arguments(g, sequence, initial_state)
    mask = mask[0] if isinstance(mask, list) else mask
    cell = _cell(g, c.get("cell"), [("cell", "")])
    if isinstance(cell, StackedCells) and (initial is not None or c.flag("return_state")):
        g.refuse("states of stacked cells as inputs or outputs are not supported")
    found = over_steps(g, cell, c, x, mask, initial, c.flag("zero_output_for_mask"), g.name)
    return result(g, c, found, g.mask(x) if mask is None else mask)


def _cell(g: Emit, found: Any, within: Sequence[Inner]) -> Cell:
    kind = found.get("class_name") if isinstance(found, Mapping) else None
    fields = found.get("config") if isinstance(found, Mapping) else None
    if kind == "StackedRNNCells" and isinstance(fields, Mapping):
        cells: list[GatedCell] = []
        used: dict[str, int] = {}
        for at, each in enumerate(fields.get("cells") or ()):
            name = snake_case(str(each.get("class_name")))
            count = used[name] = used.get(name, -1) + 1
            group = f"cells/{name}_{count}" if count else f"cells/{name}"
            inner = [*within, (group, str((each.get("config") or {}).get("name", "")))]
            made = _cell(g, each, inner)
            if not isinstance(made, GatedCell):
                g.refuse("stacked cells inside of stacked cells are not supported")
            made.name = f"cell{at}/"
            cells.append(made)
        if not cells:
            g.refuse("it has no cells")
        return StackedCells(cells)
    op = _KINDS.get(str(kind), "")
    if not op or not isinstance(fields, Mapping):
        g.refuse(f"cell {kind} is not supported")
    config = Config(fields)
    cell = gated_cell(g, config, op, within)
    if unread := config.unread():
        g.refuse(f"{', '.join(unread)} of its cell is not supported")
    return cell


# --- around layers ----------------------------------------------------------------------------


@layer("Bidirectional")
def bidirectional(
    g: Emit, c: Config, inputs: Any, initial_state: Any = None, mask: Any = None
) -> Made:
    x, initial = arguments(g, inputs, initial_state)
    mask = mask[0] if isinstance(mask, list) else mask
    both = _directions(g, c)
    half = [None, None]
    if initial is not None:
        count = len(initial) // 2
        half = [initial[:count], initial[count:]]
    results = [_direction(g, x, mask, start, *each) for each, start in zip(both, half, strict=True)]
    first = both[0][3]
    forward, backward = (
        # In the order of the inputs: Keras turns the second one around for that.
        (each[0] if first.flag("return_sequences") else each[1])
        for each in results
    )
    if first.flag("go_backwards") and first.flag("return_sequences"):
        forward, backward = g.flip(forward, 1), g.flip(backward, 1)
    made = _joined(g, c.get("merge_mode", "concat"), forward, backward)
    mask = g.mask(x) if mask is None else mask
    if mask is not None and first.flag("return_sequences"):
        for each in made:
            g.masks[each.name] = mask
    if not first.flag("return_state"):
        return made[0] if len(made) == 1 else made
    after = [state for each in results for state in each[2]]
    return [*made, *(g("Identity", each) if each in made else each for each in after)]


def _direction(
    g: Emit, x: Tensor, mask: Any, start: Any, part: str, kind: str, name: str, c: Config
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """One of the two layers."""
    within = [(f"{part}_layer", name), ("cell", "")]
    if kind == "RNN":
        cell = _cell(g, c.get("cell"), within)
    elif kind in _OPS:
        cell = gated_cell(g, c, _OPS[kind], within)
    else:
        g.refuse(f"layer {kind} in two directions is not supported")
    if isinstance(cell, GatedCell):
        cell.name = f"{part}/"
    c.heed("zero_output_for_mask", "return_state", "stateful", "go_backwards")
    found = over_steps(g, cell, c, x, mask, start, c.flag("return_sequences"), f"{g.name}.{part}")
    if unread := c.unread():
        g.refuse(f"{', '.join(unread)} of its layer is not supported")
    return found


def _directions(g: Emit, c: Config) -> list[tuple[str, str, str, Config]]:
    """Forward and backward: the attribute of each, its class, its name and its configuration."""
    forward = c.get("layer")
    backward = c.get("backward_layer") or forward
    found: list[tuple[str, str, str, Config]] = []
    for part, spec in (("forward", forward), ("backward", backward)):
        if not isinstance(spec, Mapping) or not isinstance(spec.get("config"), Mapping):
            g.refuse("it must hold a layer")
        fields = dict(spec["config"])
        if part == "backward" and spec is forward:
            fields["go_backwards"] = not fields.get("go_backwards", False)
        name = str(fields.get("name", ""))
        if g.major < 3 or spec is forward:  # Keras 3 leaves the name of a second layer as it is
            name = f"{part}_{name.removeprefix(f'{part}_')}"
        found.append((part, str(spec.get("class_name")), name, Config(fields)))
    return found


def _joined(g: Emit, mode: Any, forward: Tensor, backward: Tensor) -> list[Tensor]:
    match mode:
        case "concat":
            return [g("Concat", forward, backward, axis=forward.rank - 1)]
        case "sum":
            return [g("Add", forward, backward)]
        case "mul":
            return [g("Mul", forward, backward)]
        case "ave":
            return [g.mul(g("Add", forward, backward), 0.5)]
        case None:
            return [forward, backward]
        case _:
            g.refuse(f"merge_mode {mode} is not supported")


@layer("TimeDistributed", masking=True)
def time_distributed(g: Emit, c: Config, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
    inner = c.get("layer")
    kind = inner.get("class_name") if isinstance(inner, Mapping) else None
    if mask is not None and kind in (*_OPS, "RNN", "Bidirectional"):
        g.refuse(f"a mask for {kind} in each step is not supported")
    # Steps of all samples are samples: layers treat these alike.
    batch, time, *rest = inputs.shape
    assert g.call is not None
    made = g.call(inner, "layer", g.reshape(inputs, (batch * time, *rest)))
    if not isinstance(made, Tensor):
        g.refuse("a layer with several outputs in each step is not supported")
    return g.reshape(made, (batch, time, *made.shape[1:]))
