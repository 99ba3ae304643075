# pyright: basic
"""What recurrent layers do in one step, and over all steps.

A cell first projects its inputs, of all steps at once; a step then takes its part of that and the
states.  Layers without masks and with the usual activations are one op (``LSTM``, ``GRU``,
``RNN``); all others are a ``Scan`` over the cell's step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Protocol

import numpy as np

from weft.frontends.keras.activation import activated, is_known, named
from weft.frontends.keras.record import Config, Emit, Inner, Tensor
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.control import ScanAttributes
from weft.records import dataclass

NATIVE = {"tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu"}
"""Activations that the ops of whole layers know."""


class Cell(Protocol):
    """A recurrent cell: shapes of its states without the batch, and what it computes."""

    @property
    def states(self) -> list[tuple[int, ...]]:
        """Sizes of each state, without the batch."""
        ...

    def project(self, g: Emit, x: Tensor) -> Tensor:
        """What a step needs of the inputs, ``[time, batch, ...]``."""
        ...

    def step(self, loop: Loop, part: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The output and the next states."""
        ...


@dataclass
class Loop:
    """A body graph in the making.

    Attributes:
        outer: makes nodes around it.
        inner: makes nodes in it.
        given: values from outside, in the order of the body's inputs.
    """

    outer: Emit
    inner: Emit
    given: list[Tensor] = field(default_factory=list[Tensor])
    _taken: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    @classmethod
    def of(cls, g: Emit) -> Loop:
        """An empty one."""
        builder = GraphBuilder(g.builder.ops, "step")
        inner = replace(
            g, builder=builder, name="step", arrays={}, masks={}, _numbers={}, _shared={}
        )
        return cls(g, inner)

    def take(self, value: Tensor, name: str, *, sliced: bool = False) -> Tensor:
        """A value from outside as an input of the body, slice by slice if asked for."""
        if value.name in self._taken:
            return self._taken[value.name]
        shape = value.shape[1:] if sliced else value.shape
        self.given.append(value)
        made = self.inner.of(self.inner.builder.input(name, TensorType(value.dtype, shape)))
        self._taken[value.name] = made
        return made


def scan(
    g: Emit,
    cell: Cell,
    x: Tensor,
    initial: Sequence[Tensor],
    *,
    reverse: bool,
    mask: Tensor | None,
    zero: bool,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A cell over all steps.

    Args:
        g: makes nodes.
        cell: the cell.
        x: ``[time, batch, ...]``.
        initial: states before the first step.
        reverse: from the last step to the first.
        mask: ``[time, batch]``, steps that count.
        zero: steps that do not count give 0, else what the step before gave.

    Returns:
        Outputs of all steps in the order of the inputs, that of the last one, and the states.
    """
    projected = cell.project(g, x)
    loop = Loop.of(g)
    inner = loop.inner
    states = [loop.take(each, f"state{at}") for at, each in enumerate(initial)]
    shape = (x.shape[1], *cell.states[0])
    # With another output than the state the one of the step before is a state of its own.
    nothing = g.constant(np.zeros(shape, x.dtype.numpy), f"{g.name}/zero")
    before = loop.take(nothing, "before")
    part = loop.take(projected, "part", sliced=True)
    kept = loop.take(mask, "kept", sliced=True) if mask is not None else None
    output, found = cell.step(loop, part, states)
    if kept is not None:
        zeros = inner.constant(np.zeros((), x.dtype.numpy), "zero")
        found = [
            inner("Where", _meeting(inner, kept, old), new, old)
            for new, old in zip(found, states, strict=True)
        ]
        other = zeros if zero else before
        output = inner("Where", _meeting(inner, kept, output), output, other)
    scanned = 1 if kept is None else 2
    results = [*found, output]
    # Every output of the body is a value of its own.
    names = [inner("Identity", each).name for each in (*results, output)]
    attributes = {
        "body": inner.builder.graph(names),
        "num_states": len(results),
        "num_scan_inputs": scanned,
        "scan_input_directions": (int(reverse),) * scanned,
        "scan_output_directions": (int(reverse),),
    }
    assert g.builder.ops["Scan"].attributes is ScanAttributes
    *after, last, every = g.several("Scan", *loop.given, outputs=len(results) + 1, **attributes)
    return every, last, after


def _meeting(g: Emit, mask: Tensor, like: Tensor) -> Tensor:
    """A mask of the batch shaped to meet a tensor."""
    return g.reshape(mask, (*mask.shape, *(1,) * (like.rank - 1)))


@dataclass
class GatedCell:
    """``LSTM``, ``GRU`` or ``RNN`` (Keras's ``SimpleRNN``).

    Attributes:
        op: which.
        units: size of its states.
        arrays: kernel, recurrent kernel, and the bias if there is one.
        activation: of the output, as configured.
        gate: activation of the gates.
        reset_after: whether the reset gate applies after the recurrent product.
    """

    op: str
    units: int
    arrays: dict[str, np.ndarray]
    activation: Any
    gate: Any
    reset_after: bool = False
    name: str = ""

    @property
    def states(self) -> list[tuple[int, ...]]:
        """Sizes of each state, without the batch."""
        return [(self.units,)] * (2 if self.op == "LSTM" else 1)

    @property
    def is_native(self) -> bool:
        """Whether one op computes it."""
        used = [self.activation] if self.op == "RNN" else [self.activation, self.gate]
        return all(named(each) in NATIVE for each in used)

    # --- as an op ------------------------------------------------------------------------------

    def native(
        self, g: Emit, x: Tensor, initial: Sequence[Tensor], reverse: bool
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The whole layer, ``[batch, time, ...]``; what it gives as ``scan``."""
        kernel, recurrent = (
            g.held(self._ordered(self.arrays[each]).T[None], f"{self.name}{each}")
            for each in ("kernel", "recurrent_kernel")
        )
        bias = None
        if "bias" in self.arrays:
            parts = self.arrays["bias"].reshape(-1, self.arrays["kernel"].shape[1])
            both = np.zeros((2, parts.shape[1]), parts.dtype)
            both[: len(parts)] = parts
            bias = g.held(self._ordered(both).reshape(1, -1), f"{self.name}bias")
        batch, time, _ = x.shape
        start = [g.reshape(each, (batch, 1, self.units)) for each in initial]
        functions = NATIVE[named(self.activation)]
        gate = NATIVE.get(named(self.gate), "")
        used = {"LSTM": (gate, functions, functions), "GRU": (gate, functions), "RNN": (functions,)}
        options: dict[str, Any] = (
            {"linear_before_reset": int(self.reset_after)} if self.op == "GRU" else {}
        )
        every, *after = g.several(
            self.op,
            x,
            kernel,
            recurrent,
            bias,
            None,
            *start,
            outputs=1 + len(self.states),
            layout=1,
            direction="reverse" if reverse else "forward",
            activations=used[self.op],
            **options,
        )
        states = [g.reshape(each, (batch, self.units)) for each in after]
        return g.reshape(every, (batch, time, self.units)), states[0], states

    def _ordered(self, array: np.ndarray) -> np.ndarray:
        """Columns with the gates in the order of Weft: Keras has i, f, c, o in an LSTM."""
        if self.op != "LSTM":
            return array
        i, f, c, o = np.split(array, 4, axis=-1)
        return np.concatenate([i, o, f, c], axis=-1)

    # --- step by step --------------------------------------------------------------------------

    def project(self, g: Emit, x: Tensor) -> Tensor:
        """What a step needs of the inputs, ``[time, batch, gates * units]``."""
        made = g("MatMul", x, g.held(self.arrays["kernel"], f"{self.name}kernel"))
        if "bias" not in self.arrays:
            return made
        bias = self.arrays["bias"].reshape(-1, self.arrays["kernel"].shape[1])[0]
        return g("Add", made, g.held(bias, f"{self.name}bias"))

    def _recurrent(self, loop: Loop) -> Tensor:
        weight = loop.outer.held(self.arrays["recurrent_kernel"], f"{self.name}recurrent_kernel")
        return loop.take(weight, loop.inner.builder.fresh("recurrent"))

    def step(self, loop: Loop, part: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The output and the next states."""
        g, recurrent = loop.inner, self._recurrent(loop)
        match self.op:
            case "LSTM":
                return self._lstm(g, part, states, recurrent)
            case "GRU":
                return self._gru(loop, part, states[0], recurrent)
            case _:
                total = g("Add", part, g("MatMul", states[0], recurrent))
                made = activated(g, total, self.activation)
                return made, [made]

    def _gates(self, g: Emit, x: Tensor, first: int, last: int) -> Tensor:
        return g.slice(x, 1, first * self.units, last * self.units)

    def _lstm(
        self, g: Emit, part: Tensor, states: list[Tensor], recurrent: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        hidden, cell = states
        total = g("Add", part, g("MatMul", hidden, recurrent))
        i, f, o = (activated(g, self._gates(g, total, at, at + 1), self.gate) for at in (0, 1, 3))
        new = activated(g, self._gates(g, total, 2, 3), self.activation)
        cell = g("Add", g.mul(f, cell), g.mul(i, new))
        hidden = g.mul(o, activated(g, cell, self.activation))
        return hidden, [hidden, cell]

    def _gru(
        self, loop: Loop, part: Tensor, hidden: Tensor, recurrent: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        g = loop.inner
        size = self.units
        if self.reset_after:
            inner = g("MatMul", hidden, recurrent)
            if "bias" in self.arrays:
                bias = loop.outer.held(self.arrays["bias"][1], f"{self.name}recurrent_bias")
                inner = g("Add", inner, loop.take(bias, loop.inner.builder.fresh("bias")))
        else:
            inner = g("MatMul", hidden, g.slice(recurrent, 1, 0, 2 * size))
        both = g("Add", self._gates(g, part, 0, 2), self._gates(g, inner, 0, 2))
        both = activated(g, both, self.gate)
        z, r = self._gates(g, both, 0, 1), self._gates(g, both, 1, 2)
        if self.reset_after:
            reset = g.mul(r, self._gates(g, inner, 2, 3))
        else:
            reset = g("MatMul", g.mul(r, hidden), g.slice(recurrent, 1, 2 * size, 3 * size))
        new = activated(g, g("Add", self._gates(g, part, 2, 3), reset), self.activation)
        made = g("Add", g.mul(z, hidden), g.mul(g.add(g.mul(z, -1.0), 1.0), new))
        return made, [made]


def gated_cell(g: Emit, c: Config, op: str, within: Sequence[Inner], name: str = "") -> GatedCell:
    """A cell from the configuration of a layer, or of a cell."""
    kernel, *rest = ("kernel", "recurrent_kernel", *["bias"] * c.flag("use_bias", True))
    found = g.arrays_of(kernel, *rest, within=within)
    gate = "sigmoid" if g.major >= 3 else "hard_sigmoid"
    cell = GatedCell(
        op,
        c.size("units"),
        dict(zip((kernel, *rest), found, strict=True)),
        c.get("activation", "tanh"),
        c.get("recurrent_activation", gate) if op != "RNN" else "linear",
        c.flag("reset_after", g.major >= 3) if op == "GRU" else False,
        name,
    )
    for each in (cell.activation, cell.gate):
        if not is_known(each):
            g.refuse(f"activation {named(each) or each} is not supported")
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    if cell.arrays["recurrent_kernel"].shape != (cell.units, gates * cell.units):
        g.refuse(f"its weights do not have {cell.units} units")
    return cell


@dataclass
class StackedCells:
    """Cells one after the other in each step."""

    cells: list[GatedCell]

    @property
    def states(self) -> list[tuple[int, ...]]:
        """Sizes of each state; the first one is that of the output, too."""
        return [self.cells[-1].states[0]]

    @property
    def all_states(self) -> list[tuple[int, ...]]:
        """Sizes of each state of each cell."""
        return [state for cell in self.cells for state in cell.states]

    def project(self, g: Emit, x: Tensor) -> Tensor:
        """What the first cell needs of the inputs."""
        return self.cells[0].project(g, x)

    def step(self, loop: Loop, part: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The output of the last cell and the next states of all."""
        after: list[Tensor] = []
        x = part
        for at, cell in enumerate(self.cells):
            if at:
                x = _projected_inside(loop, cell, x)
            count = len(cell.states)
            x, new = cell.step(loop, x, states[:count])
            states = states[count:]
            after += new
        return x, after


def _projected_inside(loop: Loop, cell: GatedCell, x: Tensor) -> Tensor:
    """A cell's projection of one step."""
    g, outer = loop.inner, loop.outer
    kernel = outer.held(cell.arrays["kernel"], f"{cell.name}kernel")
    made = g("MatMul", x, loop.take(kernel, g.builder.fresh("kernel")))
    if "bias" not in cell.arrays:
        return made
    bias = cell.arrays["bias"].reshape(-1, cell.arrays["kernel"].shape[1])[0]
    return g("Add", made, loop.take(outer.held(bias, f"{cell.name}bias"), g.builder.fresh("bias")))
