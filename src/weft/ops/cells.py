"""Cells of recurrent layers: one time step of an LSTM, a GRU and a plain RNN, as nodes.

A cell gets its share of the input already projected, biases included where they can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weft.ops.record import Call
from weft.ops.steps import Steps
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation function of a cell.

    Attributes:
        name: as ONNX writes it.
        alpha: its first number; 0 where it has none.
        beta: its second number.
    """

    name: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True, slots=True)
class CellForm:
    """How an activation function is computed.

    Attributes:
        alpha: default of its first number, ``None`` where it takes none.
        beta: default of its second number.
        nodes: adds it to a graph.
        numpy: the same in NumPy.
    """

    alpha: float | None
    beta: float | None
    nodes: Callable[[Steps, str, Activation], str]
    numpy: Callable[[np.ndarray, Activation], np.ndarray]


def _plain(op: str, numpy: Callable[[np.ndarray], np.ndarray]) -> CellForm:
    return CellForm(None, None, lambda steps, x, _: steps.op(op, x), lambda x, _: numpy(x))


def _with_alpha(
    op: str, alpha: float, numpy: Callable[[np.ndarray, float], np.ndarray]
) -> CellForm:
    return CellForm(
        alpha,
        None,
        lambda steps, x, a: steps.op(op, x, alpha=a.alpha),
        lambda x, a: numpy(x, a.alpha),
    )


FORMS: Mapping[str, CellForm] = {
    "Relu": _plain("Relu", lambda x: np.maximum(x, 0)),
    "Tanh": _plain("Tanh", np.tanh),
    "Sigmoid": _plain("Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    "Softsign": _plain("Softsign", lambda x: x / (1 + np.abs(x))),
    "Softplus": _plain("Softplus", lambda x: np.logaddexp(x, x.dtype.type(0))),
    "LeakyRelu": _with_alpha("LeakyRelu", 0.01, lambda x, alpha: np.where(x < 0, alpha * x, x)),
    "ThresholdedRelu": _with_alpha(
        "ThresholdedRelu", 1.0, lambda x, alpha: np.where(x > alpha, x, 0)
    ),
    "Elu": _with_alpha("Elu", 1.0, lambda x, alpha: np.where(x < 0, alpha * np.expm1(x), x)),
    "HardSigmoid": CellForm(
        0.2,
        0.5,
        lambda steps, x, a: steps.op("HardSigmoid", x, alpha=a.alpha, beta=a.beta),
        lambda x, a: np.clip(a.alpha * x + a.beta, 0, 1),
    ),
    "Affine": CellForm(
        1.0,
        0.0,
        lambda steps, x, a: steps.add(steps.mul(x, a.alpha), a.beta),
        lambda x, a: a.alpha * x + a.beta,
    ),
    "ScaledTanh": CellForm(
        1.0,
        1.0,
        lambda steps, x, a: steps.mul(steps.op("Tanh", steps.mul(x, a.beta)), a.alpha),
        lambda x, a: a.alpha * np.tanh(a.beta * x),
    ),
}


def activations_of(call: Call, defaults: Sequence[str], directions: int) -> list[list[Activation]]:
    """The activations of each direction; alphas and betas go to those that take them."""
    a = call.attributes
    names = tuple(a.activations) or tuple(defaults) * directions
    if len(names) != len(defaults) * directions:
        raise call.error(
            f"there must be {len(defaults)} activations for each direction",
            got=", ".join(names),
        )
    alphas, betas = list(a.activation_alpha), list(a.activation_beta)
    spelled = {name.lower(): name for name in FORMS}
    found: list[Activation] = []
    for given in names:
        name = spelled.get(given.lower())
        if name is None:
            raise call.error(f"activations must be of {', '.join(sorted(FORMS))}", got=given)
        form = FORMS[name]
        found.append(Activation(name, _number(form.alpha, alphas), _number(form.beta, betas)))
    count = len(defaults)
    return [found[start : start + count] for start in range(0, len(found), count)]


def _number(default: float | None, given: list[float]) -> float:
    if default is None:
        return 0.0
    return float(given.pop(0)) if given else default


@dataclass(frozen=True, slots=True)
class CellStep:
    """What a cell needs to add one step to a graph.

    Attributes:
        steps: of the body's builder.
        activations: of this direction.
        clip: bound of the gates; 0 for none.
        recurrent: the recurrent weight, transposed, ``[hidden, gates * hidden]``.
        bias: the recurrent bias, where it could not be added beforehand.
        peephole: ``[3 * hidden]``, or ``""``.
        flag: ``input_forget`` or ``linear_before_reset``.
    """

    steps: Steps
    activations: Sequence[Activation]
    clip: float
    recurrent: str
    bias: str
    peephole: str
    flag: bool

    def activate(self, place: int, gate: str) -> str:
        """The activation function at a place of the cell's list, of a clipped gate."""
        if self.clip > 0:
            gate = self.steps.op("Clip", gate, min=-self.clip, max=self.clip)
        return self.shape(place, gate)

    def shape(self, place: int, x: str) -> str:
        """The activation function itself: states are not clipped."""
        activation = self.activations[place]
        return FORMS[activation.name].nodes(self.steps, x, activation)

    def split(self, x: str, count: int, axis: int) -> list[str]:
        """Equal parts along an axis."""
        steps = self.steps
        size = steps.dims(x)[axis] // count
        return [steps.slice(x, axis, place * size, (place + 1) * size) for place in range(count)]

    def gates(self, projected: str, hidden: str, count: int) -> list[str]:
        """The sums of so many gates: parts of the projection and products with the state.

        Every gate has a product of its own, which what is made of it follows.
        """
        steps = self.steps
        parts = (self.split(each, count, 1) for each in (projected, self.recurrent))
        return [
            steps.add(gate, steps.op("MatMul", hidden, weight))
            for gate, weight in zip(*parts, strict=True)
        ]


Cell = Callable[[CellStep, str, Sequence[str]], tuple[str, ...]]
"""``cell(step, projected, states) -> new states``, of which the first is the output."""


def lstm(step: CellStep, projected: str, states: Sequence[str]) -> tuple[str, ...]:
    """One step of an LSTM: gates i, o, f, c; states hidden and cell."""
    steps = step.steps
    hidden, cell = states
    i, o, f, c = step.gates(projected, hidden, 4)
    peepholes = step.split(step.peephole, 3, 0) if step.peephole else ()
    if peepholes:
        i = steps.add(i, steps.mul(peepholes[0], cell))
        f = steps.add(f, steps.mul(peepholes[2], cell))
    i = step.activate(0, i)
    f = steps.sub(1.0, i) if step.flag else step.activate(0, f)
    new = steps.add(steps.mul(f, cell), steps.mul(i, step.activate(1, c)))
    if peepholes:
        o = steps.add(o, steps.mul(peepholes[1], new))
    return (steps.mul(step.activate(0, o), step.shape(2, new)), new)


def gru(step: CellStep, projected: str, states: Sequence[str]) -> tuple[str, ...]:
    """One step of a GRU: gates z, r, h; the state is hidden."""
    steps = step.steps
    (hidden,) = states
    gates, weights = (step.split(each, 3, 1) for each in (projected, step.recurrent))
    z, r = (
        step.activate(0, steps.add(gate, steps.op("MatMul", hidden, weight)))
        for gate, weight in zip(gates[:2], weights[:2], strict=True)
    )
    if step.flag:
        inner = steps.op("MatMul", hidden, weights[2])
        recurrent = steps.mul(r, steps.add(inner, step.bias) if step.bias else inner)
    else:
        recurrent = steps.op("MatMul", steps.mul(r, hidden), weights[2])
    h = step.activate(1, steps.add(gates[2], recurrent))
    return (steps.add(steps.mul(steps.sub(1.0, z), h), steps.mul(z, hidden)),)


def rnn(step: CellStep, projected: str, states: Sequence[str]) -> tuple[str, ...]:
    """One step of a plain RNN."""
    steps = step.steps
    (hidden,) = states
    gate = steps.add(projected, steps.op("MatMul", hidden, step.recurrent))
    return (step.activate(0, gate),)
