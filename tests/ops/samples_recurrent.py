"""Samples of the recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.ops.recurrent import GRUAttributes, LSTMAttributes, RecurrentAttributes

CLOSE = 2e-5
CLASSES: dict[str, Any] = {
    "LSTM": LSTMAttributes,
    "GRU": GRUAttributes,
    "RNN": RecurrentAttributes,
}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
TIME, BATCH, FEATURES, HIDDEN = 4, 2, 3, 5


def layer(
    op: str,
    *,
    bias: bool = False,
    lengths: tuple[int, ...] = (),
    states: bool = False,
    peephole: bool = False,
    dtype: str = "f32",
    tolerance: float = CLOSE,
    **fields: Any,
) -> Sample:
    """A layer with small weights and these optional inputs."""
    count = 2 if fields.get("direction") == "bidirectional" else 1
    rows = GATES[op] * HIDDEN
    batch_first = fields.get("layout")
    x = (BATCH, TIME, FEATURES) if batch_first else (TIME, BATCH, FEATURES)
    state = (BATCH, count, HIDDEN) if batch_first else (count, BATCH, HIDDEN)

    def tensor(wanted: bool, *shape: int) -> np.ndarray | None:
        text = f"{dtype}[{','.join(str(size) for size in shape)}]"
        return random(text, -0.8, 0.8) if wanted else None

    inputs = [
        tensor(True, *x),
        tensor(True, count, rows, FEATURES),
        tensor(True, count, rows, HIDDEN),
        tensor(bias, count, 2 * rows),
        np.array(lengths, np.int32) if lengths else None,
        tensor(states, *state),
    ]
    if op == "LSTM":
        inputs += [tensor(states, *state), tensor(peephole, count, 3 * HIDDEN)]
    outputs = 3 if op == "LSTM" else 2
    return Sample(op, tuple(inputs), CLASSES[op](**fields), tolerance, outputs)


EVERYTHING: dict[str, Any] = {"bias": True, "lengths": (4, 2), "states": True}
SAMPLES = [
    *(
        sample
        for op in ("LSTM", "GRU", "RNN")
        for sample in (
            layer(op),
            layer(op, bias=True, hidden_size=HIDDEN),
            layer(op, direction="reverse", **EVERYTHING),
            layer(op, direction="bidirectional", **EVERYTHING),
            layer(op, direction="bidirectional", layout=1, **EVERYTHING),
            layer(op, bias=True, clip=0.3),
            layer(op, dtype="f16", bias=True, tolerance=4e-3),
        )
    ),
    layer("LSTM", peephole=True, **EVERYTHING),
    layer("LSTM", direction="bidirectional", peephole=True, input_forget=1, **EVERYTHING),
    layer(
        "LSTM",
        activations=("HardSigmoid", "ScaledTanh", "Elu"),
        activation_alpha=(0.3, 0.9, 0.7),
        activation_beta=(0.4, 1.1),
    ),
    layer("GRU", linear_before_reset=1, bias=True),
    layer("GRU", linear_before_reset=1, direction="bidirectional", layout=1, **EVERYTHING),
    layer("GRU", activations=("softsign", "LeakyRelu"), activation_alpha=(0.1,)),
    layer("GRU", activations=("Softplus", "Affine"), activation_alpha=(0.5,)),
    layer("RNN", activations=("Relu",)),
    layer("RNN", activations=("ThresholdedRelu",), activation_alpha=(0.1,)),
    # One unit with all weights one: the running sum of the input.
    Sample(
        "RNN",
        (
            np.array([1, 2, 3], np.float32).reshape(3, 1, 1),
            np.ones((1, 1, 1), np.float32),
            np.ones((1, 1, 1), np.float32),
        ),
        RecurrentAttributes(activations=("Affine",)),
        outputs=2,
        expected=(np.array([1, 3, 6]).reshape(3, 1, 1, 1), [[[6]]]),
    ),
]
BAD: list[Bad] = [
    Bad(
        "LSTM",
        ("f32[4,2,3]", "f32[1,20,4]", "f32[1,20,5]"),
        "lstm: w must be [1,20,3]; got w f32[1,20,4] (node bad)",
        LSTMAttributes(),
    ),
    Bad(
        "GRU",
        ("f32[4,2,3]", "f32[1,15,3]", "f32[1,15,5]"),
        "gru: direction must be forward, reverse, bidirectional; got backward (node bad)",
        GRUAttributes(direction="backward"),
    ),
    Bad(
        "RNN",
        ("f32[4,2,3]", "f32[1,5,3]", "f32[1,5,5]"),
        "rnn: activations must be of Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, "
        "Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu; got Swish (node bad)",
        RecurrentAttributes(activations=("Swish",)),
    ),
    Bad(
        "RNN",
        ("f32[4,2,3]", "f32[2,5,3]", "f32[2,5,5]"),
        "rnn: there must be 1 activations for each direction; got Tanh (node bad)",
        RecurrentAttributes(activations=("Tanh",), direction="bidirectional"),
    ),
    Bad(
        "RNN",
        ("f32[4,3]", "f32[1,5,3]", "f32[1,5,5]"),
        "rnn: input must be [time, batch, features]; got x f32[4,3] (node bad)",
        RecurrentAttributes(),
    ),
]
TYPES: list[Typed] = [
    Typed(
        "LSTM",
        ("f32[N,4,3]", "f32[1,20,3]", "f32[1,20,5]"),
        ("f32[N,4,1,5]", "f32[N,1,5]", "f32[N,1,5]"),
        LSTMAttributes(layout=1),
    ),
]
