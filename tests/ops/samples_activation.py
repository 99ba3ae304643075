"""Samples of the activation functions."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.activation import (
    CeluAttributes,
    EluAttributes,
    GeluAttributes,
    HardSigmoidAttributes,
    LeakyReluAttributes,
    SeluAttributes,
    ShrinkAttributes,
    SwishAttributes,
    ThresholdedReluAttributes,
)

EXTREMES = np.array([-np.inf, -90, -1.5, -1e-4, -0.0, 0, 1e-4, 1.5, 90, np.inf], np.float32)
CLOSE = 3e-7
SMOOTH = {
    "Celu": CeluAttributes(0.7),
    "Elu": EluAttributes(1.3),
    "Gelu": GeluAttributes(),
    "HardSigmoid": HardSigmoidAttributes(0.3, 0.4),
    "HardSwish": None,
    "LeakyRelu": LeakyReluAttributes(0.1),
    "Mish": None,
    "Selu": SeluAttributes(),
    "Sigmoid": None,
    "Softplus": None,
    "Softsign": None,
    "Swish": SwishAttributes(1.2),
    "ThresholdedRelu": ThresholdedReluAttributes(0.5),
}


def smooth(name: str, inputs: tuple[np.ndarray | str], tolerance: float) -> Sample:
    attributes = SMOOTH[name]
    if attributes is None:
        return Sample(name, inputs, tolerance=tolerance)
    return Sample(name, inputs, attributes, tolerance)


SAMPLES = [
    Sample("Relu", ("f32[2,3]",)),
    Sample("Relu", (np.array([-1.0, 0.0, 2.0, np.nan], np.float32),)),
    Sample("Relu", ("i8[7]",)),
    Sample("Relu", ("f16[2,0]",)),
    Sample("Relu", ("bf16[5]",)),
    Sample("PRelu", ("f32[2,3,4]", "f32[3,1]")),
    Sample("PRelu", ("i32[2,3]", "i32[]")),
    Sample("PRelu", ("f16[6]", "f16[6]")),
    Sample("SwiGLU", ("f32[2,7]", "f32[2,7]"), SwishAttributes(1.2), CLOSE),
    Sample("Gelu", ("f32[9]",), GeluAttributes("tanh"), CLOSE),
    Sample("Gelu", ("bf16[9]",), GeluAttributes("tanh"), 1e-2),
    Sample(
        "Gelu",
        (np.array([-1, 0, 1], np.float32),),
        GeluAttributes(),
        CLOSE,
        expected=([-0.15865526, 0, 0.84134474],),
    ),
    Sample("Shrink", ("f32[12]",), ShrinkAttributes(0.5, 1.5)),
    Sample("Shrink", ("i8[12]",), ShrinkAttributes(0.5, 1.5)),
    Sample(
        "Shrink",
        (np.array([0, 1, 2], np.uint8),),
        ShrinkAttributes(1.0, 1.0),
        expected=([0, 0, 1],),
    ),
    *(smooth(name, ("f32[3,7]",), CLOSE) for name in SMOOTH),
    *(smooth(name, ("f64[5]",), 1e-14) for name in SMOOTH if name != "Gelu"),
    *(smooth(name, ("f16[11]",), 1e-3) for name in SMOOTH),
    *(smooth(name, ("bf16[11]",), 1e-2) for name in SMOOTH),
    *(smooth(name, (EXTREMES[1:-1],), CLOSE) for name in SMOOTH),
]
BAD: list[Bad] = [
    Bad("Relu", (), "relu: input 0 is required; got none (node bad)"),
    Bad("Relu", ("u8[2]",), "relu: input 0 must be of a signed type; got u8[2] (node bad)"),
    Bad(
        "Sigmoid",
        ("i32[2]",),
        "sigmoid: input 0 must be of a floating-point type; got i32[2] (node bad)",
    ),
    Bad(
        "Gelu",
        ("f32[2]",),
        "gelu: approximate must be none or tanh; got 'fast' (node bad)",
        GeluAttributes("fast"),
    ),
    Bad(
        "PRelu",
        ("f32[3]", "f32[2,3]"),
        "prelu: the slope must broadcast to the shape of x; got f32[3], f32[2,3] (node bad)",
    ),
]
TYPES: list[Typed] = [
    Typed("Relu", ("f32[N,3]",), ("f32[N,3]",)),
    Typed("PRelu", ("f32[N,3,4]", "f32[3,1]"), ("f32[N,3,4]",)),
]
