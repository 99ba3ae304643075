# pyright: basic
"""Activations: functions by name, and the layers that apply them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.record import LAYERS, Config, Emit, Tensor, layer

# --- functions --------------------------------------------------------------------------------


def _plain(op: str, **attributes: Any) -> Callable[..., Tensor]:
    return lambda g, x: g(op, x, **attributes)


def clipped(g: Emit, x: Tensor, low: float | None, high: float | None) -> Tensor:
    """``x`` held within bounds."""
    return g("Clip", x, min=low, max=high)


def relu(
    g: Emit,
    x: Tensor,
    negative_slope: float = 0.0,
    max_value: float | None = None,
    threshold: float = 0.0,
) -> Tensor:
    """Keras's ``relu``: ``x`` from the threshold to the maximum, a slope below it."""
    if threshold == 0:
        if max_value is None:
            return g("LeakyRelu", x, alpha=negative_slope) if negative_slope else g("Relu", x)
        if not negative_slope:
            return clipped(g, x, 0.0, max_value)
        below = g("LeakyRelu", x, alpha=negative_slope)
        return clipped(g, below, None, max_value)
    kept = x if max_value is None else clipped(g, x, None, max_value)
    below = g.mul(g.add(x, -threshold), negative_slope) if negative_slope else 0.0
    return g.where(g.pair("GreaterOrEqual", x, threshold), kept, below)


def hard_sigmoid(g: Emit, x: Tensor) -> Tensor:
    """Keras 2 and Keras 3 have different ones."""
    if g.major < 3:
        return g("HardSigmoid", x, alpha=0.2, beta=0.5)
    return g("HardSigmoid", x, alpha=1 / 6, beta=0.5)


def _hard_silu(g: Emit, x: Tensor) -> Tensor:
    return g("HardSwish", x)


def _silu(g: Emit, x: Tensor) -> Tensor:
    return g("Swish", x)


def _glu(g: Emit, x: Tensor, axis: int = -1) -> Tensor:
    axis = g.axis(x, axis)
    half = x.shape[axis] // 2
    gate = g("Sigmoid", g.slice(x, axis, half, 2 * half))
    return g.mul(g.slice(x, axis, 0, half), gate)


def softmax(g: Emit, x: Tensor, axis: int = -1) -> Tensor:
    """Keras's ``softmax`` of one axis."""
    return g("Softmax", x, axis=axis)


def _soft_shrink(g: Emit, x: Tensor, threshold: float = 0.5) -> Tensor:
    return g("Shrink", x, lambd=threshold, bias=threshold)


def _hard_shrink(g: Emit, x: Tensor, threshold: float = 0.5) -> Tensor:
    return g.where(g.pair("Greater", g("Abs", x), threshold), x, 0.0)


def _sparse_plus(g: Emit, x: Tensor) -> Tensor:
    inner = g.mul(g("Pow", g.add(x, 1.0), g.cast(2.0, x.dtype)), 0.25)
    return g.where(g.pair("LessOrEqual", x, -1.0), 0.0, g.where(g.pair("Less", x, 1.0), inner, x))


def _sparse_sigmoid(g: Emit, x: Tensor) -> Tensor:
    return g("HardSigmoid", x, alpha=0.5, beta=0.5)


def _squareplus(g: Emit, x: Tensor, b: float = 4) -> Tensor:
    root = g("Sqrt", g.add(g.mul(x, x), float(b)))
    return g.mul(g.add(x, root), 0.5)


def sparsemax(g: Emit, x: Tensor, axis: int = -1) -> Tensor:
    """Keras's ``sparsemax``, which is not that of the paper that it cites.

    Martins and Astudillo, "From softmax to sparsemax", 2016, take the sum of the elements that
    are more than 0; Keras, with all of its backends, adds up the running sums that lead to it.
    """
    axis = g.axis(x, axis)
    largest, _ = g.several("TopK", x, outputs=2, k=x.shape[axis], axis=axis)
    sums = g("CumSum", largest, axis=axis)
    counts = np.arange(1, x.shape[axis] + 1, dtype=x.dtype.numpy)
    counts = counts.reshape([-1 if at == axis else 1 for at in range(x.rank)])
    thresholds = g("Div", g.add(sums, -1.0), g.held(counts, "counts"))
    supports = g("Greater", largest, thresholds)
    kept = g("ReduceSum", g.where(supports, sums, 0.0), axes=(axis,), keepdims=1)
    count = g("ReduceSum", g.cast(supports, x.dtype), axes=(axis,), keepdims=1)
    return g("Relu", g("Sub", x, g("Div", g.add(kept, -1.0), count)))


def _threshold(g: Emit, x: Tensor, threshold: float, default_value: float) -> Tensor:
    return g.where(g.pair("Greater", x, threshold), x, float(default_value))


def _gelu(g: Emit, x: Tensor, approximate: bool = False) -> Tensor:
    return g("Gelu", x, approximate="tanh" if approximate else "none")


FUNCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "celu": lambda g, x, alpha=1.0: g("Celu", x, alpha=alpha),
    "elu": lambda g, x, alpha=1.0: g("Elu", x, alpha=alpha),
    "exponential": _plain("Exp"),
    "gelu": _gelu,
    "glu": _glu,
    "hard_shrink": _hard_shrink,
    "hard_sigmoid": hard_sigmoid,
    "hard_silu": _hard_silu,
    "hard_swish": _hard_silu,
    "hard_tanh": lambda g, x: clipped(g, x, -1.0, 1.0),
    "leaky_relu": lambda g, x, negative_slope=0.2: g("LeakyRelu", x, alpha=negative_slope),
    "linear": lambda g, x: x,
    "log_sigmoid": lambda g, x: g("Neg", g("Softplus", g("Neg", x))),
    "log_softmax": lambda g, x, axis=-1: g("LogSoftmax", x, axis=axis),
    "mish": _plain("Mish"),
    "relu": relu,
    "relu6": lambda g, x: clipped(g, x, 0.0, 6.0),
    "selu": _plain("Selu"),
    "sigmoid": _plain("Sigmoid"),
    "silu": _silu,
    "soft_shrink": _soft_shrink,
    "softmax": softmax,
    "softplus": _plain("Softplus"),
    "softsign": _plain("Softsign"),
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": _sparse_sigmoid,
    "sparsemax": sparsemax,
    "squareplus": _squareplus,
    "swish": _silu,
    "tanh": _plain("Tanh"),
    "tanh_shrink": lambda g, x: g("Sub", x, g("Tanh", x)),
    "threshold": _threshold,
}
"""Functions of ``keras.activations`` by name."""


def named(found: Any) -> str:
    """The name of an activation in a configuration; empty for a layer as activation."""
    if found is None:
        return "linear"
    if isinstance(found, str):
        return found
    if isinstance(found, Mapping):
        inner = found.get("config")
        if found.get("class_name") == "function" and isinstance(inner, str):
            return inner
        if found.get("class_name") in FUNCTIONS:
            return str(found["class_name"])
    return ""


def is_known(found: Any) -> bool:
    """Whether an activation of a configuration is one that ``activated`` applies."""
    if named(found) in FUNCTIONS:
        return True
    return isinstance(found, Mapping) and found.get("class_name") in LAYERS


def activated(g: Emit, x: Tensor, found: Any) -> Tensor:
    """A tensor after an activation, as configurations state it: a name or a layer."""
    name = named(found)
    if name in FUNCTIONS:
        return FUNCTIONS[name](g, x)
    if isinstance(found, Mapping) and found.get("class_name") in LAYERS:
        kind, inner = str(found["class_name"]), found.get("config") or {}
        if kind == "PReLU":
            g.refuse("activation PReLU, which has weights, must be a layer of its own")
        return cast(Tensor, LAYERS[kind](g, Config(inner), x))
    g.refuse(f"activation {name or found} is not supported")


# --- layers ---------------------------------------------------------------------------------


@layer("Activation", masking=True)
def activation(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    return activated(g, inputs, c.get("activation"))


@layer("ReLU", masking=True)
def relu_layer(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    most = c.number("max_value") if c.has("max_value") else None
    c.heed("max_value")
    slope, threshold = c.number("negative_slope", 0.0), c.number("threshold", 0.0)
    return relu(g, inputs, slope, most, threshold)


@layer("LeakyReLU", masking=True)
def leaky_relu(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    slope = c.number("negative_slope", c.number("alpha", 0.3))
    return g("LeakyRelu", inputs, alpha=slope)


@layer("ELU", masking=True)
def elu(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    return g("Elu", inputs, alpha=c.number("alpha", 1.0))


@layer("ThresholdedReLU", masking=True)
def thresholded_relu(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    return g("ThresholdedRelu", inputs, alpha=c.number("theta", 1.0))


@layer("PReLU", masking=True)
def prelu(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    c.heed("shared_axes")
    (alpha,) = g.arrays_of("alpha")
    return g("PRelu", inputs, g.held(alpha, "alpha"))


@layer("Softmax", masking=True)
def softmax_layer(g: Emit, c: Config, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
    axes = sorted(g.axes(inputs, c.numbers("axis") if c.has("axis") else [-1]))
    c.heed("axis")
    if mask is None:
        return _over(g, inputs, axes)
    # As Keras: what is masked is far below everything else, then nothing.
    kept = mask if mask.dtype is DType.BOOL else g.pair("Greater", mask, 0.5)
    low = -3e4 if inputs.dtype is DType.F16 else -1e9
    return g.where(kept, _over(g, g.where(kept, inputs, low), axes), 0.0)


def _over(g: Emit, x: Tensor, axes: list[int]) -> Tensor:
    """Softmax over one or several axes."""
    if len(axes) == 1:
        return softmax(g, x, axes[0])
    highest = g("ReduceMax", x, axes=tuple(axes), keepdims=1)
    powers = g("Exp", g("Sub", x, highest))
    return g("Div", powers, g("ReduceSum", powers, axes=tuple(axes), keepdims=1))


def is_linear(found: Any) -> bool:
    """Whether an activation does nothing."""
    return named(found) == "linear"


def ones(g: Emit, shape: tuple[int, ...], name: str = "ones") -> Tensor:
    """A constant of ones in the type that the layer computes in."""
    return g.held(np.ones(shape, g.compute.numpy), name)
