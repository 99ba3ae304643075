"""Operators along an axis: softmax and norms."""

from __future__ import annotations

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, litert

_LEAST_NORM = 1e-6


@litert("SOFTMAX")
def softmax(g: Emit, x: Tensor, *, beta: float) -> Tensor:
    return g("Softmax", g.scaled(x, beta), axis=-1)


@litert("LOG_SOFTMAX")
def log_softmax(g: Emit, x: Tensor) -> Tensor:
    return g("LogSoftmax", x, axis=-1)


@litert("L2_NORMALIZATION")
def l2_normalization(g: Emit, x: Tensor, *, fused_activation_function: int = 0) -> Tensor:
    norm = g("ReduceL2", x, axes=(x.rank - 1,), keepdims=1)
    y = g("Div", x, g("Max", norm, g.number(_LEAST_NORM, x.dtype)))
    return g.activated(y, fused_activation_function)


@litert("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(
    g: Emit, x: Tensor, *, radius: int, bias: float, alpha: float, beta: float
) -> Tensor:
    g.require_rank(x, 4)
    if not 0 <= radius < 1 << 16:
        g.refuse(f"radius {radius} must not be negative")
    # Sums over neighbouring channels, as means of windows along the last axis.
    size = 2 * radius + 1
    rows = g.reshape(g("Mul", x, x), (x.type.size // x.shape[3], 1, x.shape[3]))
    means = g(
        "AveragePool", rows, kernel=(size,), strides=(1,), pads=(radius,) * 2, count_include_pad=1
    )
    sums = g.scaled(g.reshape(means, x.shape), alpha * size)
    power = g("Pow", g("Add", sums, g.number(bias, DType.F32)), g.number(-beta, DType.F32))
    return g("Mul", x, power)
