"""Convolutions of quantized tensors: sums in ``i32``, or ``i64`` where 16 bits might not fit."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.dtypes import DType
from weft.ir.types import Dim, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.ops.convolution import (
    ConvAttributes,
    check_bias,
    conv_compute,
    conv_shape,
    conv_window,
    convolve,
)
from weft.ops.elementwise import FLOATS, Domain, checked, fitted
from weft.ops.expr import binary, cast, const
from weft.ops.integer_operands import (
    ACCUMULATED,
    BYTES,
    INTEGERS_ONLY,
    NARROW,
    check_single,
    check_zero_point,
    params_with_zero_points,
    quantized_params,
    requantize,
    requantized,
    single,
    wrapped,
)
from weft.ops.quantization import is_single
from weft.ops.record import Call, Define, Op, Param
from weft.ops.window import implied_window


def _infer_conv(
    call: Call, w: int, x_zero: int, w_zero: int, data_types: Domain = BYTES
) -> tuple[Dim, ...]:
    data, weight = checked(call, 0, data_types), checked(call, w, BYTES)
    shape = conv_shape(call, data, weight)
    check_zero_point(call, 0, x_zero)
    check_zero_point(call, w, w_zero)
    check_single(call, x_zero)
    _check_channels(call, w_zero, weight.dims[0])
    return shape


def _check_channels(call: Call, position: int, channels: int) -> None:
    if not call.has(position):
        return
    found = call.type(position)
    if not is_single(found) and found.shape != (channels,):
        raise call.error(
            f"input {position} must be one number or one for each of {channels} channels",
            got=str(found),
        )


def _channel(call: Call, position: int, channel: Expr) -> Expr:
    found = call.type(position)
    return single(call, position) if is_single(found) else call.load(position, channel)


def _sums(call: Call, w: int) -> DType:
    """The type of a convolution's sums: ``i64`` where those of 16 bits might not fit ``i32``."""
    count = prod(call.type(w).dims[1:])
    wide = call.type(0).dtype is DType.I16 and count << 24 >= 1 << 31
    return DType.I64 if wide else DType.I32


def _conv_sum(call: Call, w: int, x_zero: int, w_zero: int) -> tuple[tuple[Axis, ...], Expr]:
    """Axes and sum; padding counts as the zero point, that is as nothing."""
    sums = _sums(call, w)

    def activation(at: tuple[Expr, ...]) -> Expr:
        value = cast(DType.I32, call.load(0, *at))
        if not call.has(x_zero):
            return value
        return binary("sub", value, cast(DType.I32, single(call, x_zero)))

    def weight(at: tuple[Expr, ...]) -> Expr:
        value = cast(DType.I32, call.load(w, *at))
        if not call.has(w_zero):
            return value
        return binary("sub", value, cast(DType.I32, _channel(call, w_zero, at[0])))

    return conv_compute(
        call.type(0).dims,
        call.type(w).dims,
        conv_window(call, call.type(w)),
        call.attributes.groups,
        activation=activation,
        weight=weight,
        outside=const(0, DType.I32),
        sums=None if sums is DType.I32 else sums,
    )


def _along_channels(values: np.ndarray, rank: int) -> np.ndarray:
    """A number, or one for each channel of ``[n, c, spatial...]``."""
    return values.reshape(() if values.size == 1 else (-1,) + (1,) * (rank - 2))


def _convolved(
    call: Call,
    x: np.ndarray,
    w: np.ndarray,
    x_zero: np.ndarray | None,
    w_zero: np.ndarray | None,
) -> np.ndarray:
    data, weight = x.astype(np.float64), w.astype(np.float64)
    if x_zero is not None:
        data = data - x_zero.reshape(())
    if w_zero is not None:
        weight = weight - _along_channels(w_zero, w.ndim + 1)
    window = conv_window(call, TensorType(DType.of(w.dtype), w.shape))
    found = convolve(data, weight, window, call.attributes.groups)
    return wrapped(found) if x.dtype.itemsize == 1 else found.astype(np.int64)


def _conv_integer(
    call: Call,
    x: np.ndarray,
    w: np.ndarray,
    x_zero: np.ndarray | None = None,
    w_zero: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    return (_convolved(call, x, w, x_zero, w_zero),)


def _infer_qlinear_conv(call: Call) -> tuple[TensorType, ...]:
    shape = _infer_conv(call, 3, 2, 5, NARROW)
    channels = call.type(3).dims[0]
    for position in (1, 4, 6):
        checked(call, position, FLOATS)
    for position in (1, 6, 7):
        check_single(call, position)
    _check_channels(call, 4, channels)
    check_bias(call, 8, channels, ACCUMULATED)
    return (TensorType(checked(call, 7, NARROW).dtype, shape),)


def _qlinear_conv(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = inputs[:8]
    value = _convolved(call, x, w, x_zero, w_zero)
    if call.has(8):
        value = value + _along_channels(inputs[8], x.ndim)
    rhs = _along_channels(w_scale, x.ndim)
    return (requantize(value, x_scale.reshape(()), rhs, scale, zero),)


def _define_qlinear_conv(call: Call) -> tuple[Compute, ...]:
    ranges, value = _conv_sum(call, 3, 2, 5)
    channel = Var(ranges[1].var)
    if call.has(8):
        added = _channel(call, 8, channel)
        value = binary("add", value, fitted(_sums(call, 3), added, DType.I32))
    y = requantized(
        value,
        single(call, 1),
        _channel(call, 4, channel),
        single(call, 6),
        single(call, 7),
    )
    return (Compute(ranges, y),)


CONVOLUTIONS: tuple[Op, ...] = (
    Op(
        name="ConvInteger",
        inputs=params_with_zero_points("x", "w"),
        infer=lambda call: (TensorType(DType.I32, _infer_conv(call, 1, 2, 3)),),
        reference=_conv_integer,
        compute=Define(lambda call: (Compute(*_conv_sum(call, 1, 2, 3)),)),
        grad=INTEGERS_ONLY,
        doc="The convolution of x and w less their zero points, in i32.",
        attributes=ConvAttributes,
        implied=implied_window(weight=1),
    ),
    Op(
        name="QLinearConv",
        inputs=(*quantized_params("x", "w"), Param("b", optional=True)),
        infer=_infer_qlinear_conv,
        reference=_qlinear_conv,
        compute=Define(_define_qlinear_conv),
        grad=INTEGERS_ONLY,
        rounding="onnx",
        doc="The convolution of quantized x and w, plus an i32 bias, quantized. Beside ONNX's "
        "types x and y may be i16.",
        attributes=ConvAttributes,
        implied=implied_window(weight=3),
    ),
)
