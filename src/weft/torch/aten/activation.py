# pyright: basic
"""Activation functions."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Number, Tensor
from weft.torch.aten.arithmetic import scaled
from weft.torch.aten.record import Emit, Row, aten


def _plain(op: str, **attributes: float) -> Row:
    def row(g: Emit, self: Tensor) -> Tensor:
        return g(op, self, **attributes)

    return row


aten("hardswish.default")(_plain("HardSwish"))
aten("hardsigmoid.default")(_plain("HardSigmoid", alpha=1 / 6, beta=0.5))
aten("mish.default")(_plain("Mish"))
aten("relu6.default")(_plain("Clip", min=0.0, max=6.0))
aten("selu.default")(_plain("Selu"))
aten("silu.default")(_plain("Swish"))


@aten("gelu.default")
def gelu(g: Emit, self: Tensor, approximate: str) -> Tensor:
    return g("Gelu", self, approximate=approximate)


@aten("elu.default")
def elu(g: Emit, self: Tensor, alpha: Number, scale: Number, input_scale: Number) -> Tensor:
    if scale == 1 and input_scale == 1:
        return g("Elu", self, alpha=float(alpha))
    below = scaled(g, g("Elu", scaled(g, self, input_scale), alpha=float(alpha)), scale)
    positive = g("Less", g.number(0, g.dtype), self)
    return g("Where", positive, scaled(g, self, scale), below)


@aten("celu.default")
def celu(g: Emit, self: Tensor, alpha: Number) -> Tensor:
    return g("Celu", self, alpha=float(alpha))


@aten("leaky_relu.default")
def leaky_relu(g: Emit, self: Tensor, negative_slope: Number) -> Tensor:
    return g("LeakyRelu", self, alpha=float(negative_slope))


def _rrelu(g: Emit, self: Tensor, lower: Number, upper: Number, training: bool) -> Tensor:
    if training:
        g.refuse("rrelu in training is not supported")
    return g("LeakyRelu", self, alpha=(lower + upper) / 2)


aten("rrelu.default")(_rrelu)


@aten("rrelu_with_noise.default")
def rrelu_with_noise(
    g: Emit, self: Tensor, noise: Tensor, lower: Number, upper: Number, training: bool
) -> Tensor:
    return _rrelu(g, self, lower, upper, training)


@aten("prelu.default", "_prelu_kernel.default")
def prelu(g: Emit, self: Tensor, weight: Tensor) -> Tensor:
    if weight.rank == 1 and self.rank > 2:
        weight = g.reshape(weight, (*weight.shape, *(1,) * (self.rank - 2)))
    return g("PRelu", self, weight)


@aten("softplus.default")
def softplus(g: Emit, self: Tensor, beta: Number, threshold: Number) -> Tensor:
    inner = scaled(g, self, beta)
    made = g("Softplus", inner)
    made = made if beta == 1 else g("Div", made, g.number(beta, g.dtype))
    if threshold >= 20 and g.dtype is not DType.F64:
        # So far out it is the identity to the last bit.
        return made
    return g("Where", g("Less", g.number(threshold, g.dtype), inner), self, made)


@aten("log_sigmoid.default")
def log_sigmoid(g: Emit, self: Tensor) -> Tensor:
    return g("Neg", g("Softplus", g("Neg", self)))


@aten("log_sigmoid_forward.default")
def log_sigmoid_forward(g: Emit, self: Tensor) -> tuple[Tensor | None, ...]:
    return (log_sigmoid(g, self), None)


@aten("softshrink.default")
def softshrink(g: Emit, self: Tensor, lambd: Number) -> Tensor:
    # A NaN stays one.
    return g("Sub", self, g("Clip", self, min=-float(lambd), max=float(lambd)))


@aten("hardshrink.default")
def hardshrink(g: Emit, self: Tensor, lambd: Number) -> Tensor:
    # What is no farther from zero than lambd; a NaN is neither and stays.
    near = g("LessOrEqual", g("Abs", self), g.number(lambd, g.dtype))
    return g("Where", near, g.number(0, g.dtype), self)


@aten("threshold.default")
def threshold(g: Emit, self: Tensor, threshold: Number, value: Number) -> Tensor:
    below = g("LessOrEqual", self, g.number(threshold, g.dtype))
    return g("Where", below, g.number(value, g.dtype), self)


@aten("glu.default")
def glu(g: Emit, self: Tensor, dim: int) -> Tensor:
    axis = g.axis(self, dim)
    half = self.shape[axis] // 2
    value, gate = g.slice(self, axis, 0, half), g.slice(self, axis, half, 2 * half)
    return g("Mul", value, g("Sigmoid", gate))


# --- along an axis ----------------------------------------------------------------------------


def _normalized(op: str) -> Row:
    def row(g: Emit, self: Tensor, dim: int, **_: object) -> Tensor:
        x = g.cast(self, g.dtype)
        if not x.rank:
            return g.reshape(g(op, g.reshape(x, (1,)), axis=0), ())
        return g(op, x, axis=g.axis(x, dim))

    return row


aten("softmax.int", "_softmax.default", "special_softmax.int")(_normalized("Softmax"))
aten("log_softmax.int", "_log_softmax.default", "special_log_softmax.int")(
    _normalized("LogSoftmax")
)


@aten("_safe_softmax.default")
def safe_softmax(g: Emit, self: Tensor, dim: int) -> Tensor:
    x = g.cast(self, g.dtype)
    axis = g.axis(x, dim)
    lowest = g.number(-np.inf, g.dtype)
    none = g("Equal", g("ReduceMax", x, axes=(axis,), keepdims=1), lowest)
    return g("Where", none, g.number(0, g.dtype), g("Softmax", x, axis=axis))
