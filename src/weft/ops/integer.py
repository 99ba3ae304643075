"""Products of quantized tensors: sums in ``i32``, requantized in ``f32``.

Operands come with zero points and, for the ops that requantize, scales: one number, or
one for each row of the left factor, column of the right, output channel of a convolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.ir.types import Dim, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.loops.walk import dtype_of
from weft.ops.convolution import (
    ConvAttributes,
    check_bias,
    conv_compute,
    conv_shape,
    conv_window,
    convolve,
)
from weft.ops.elementwise import FLOATS, Domain, checked, fitted
from weft.ops.expr import binary, broadcast, cast, const, index, total, unary
from weft.ops.linear import matmul_points, matmul_shape
from weft.ops.quantization import is_single, saturate, saturated
from weft.ops.record import Call, Define, NoGrad, Op, Param
from weft.ops.window import implied_window

BYTES = Domain("i8 or u8", frozenset({DType.I8, DType.U8}))
NARROW = Domain("i8, u8 or i16", frozenset({DType.I8, DType.U8, DType.I16}))


@dataclass(frozen=True, slots=True)
class IntegerProducts:
    """Positions of the inputs of an op that sums products of integers; -1 for one it lacks.

    Attributes:
        data: the left factor.
        data_zero: its zero point.
        weight: the right factor.
        weight_zero: its zero point.
        outputs: the axis of the weight with one line for each output; the next one (cyclically,
            of the first two) is summed over.
        bias: the input that is added to the sums.
        is_sum: whether the output is the sum.
    """

    data: int
    data_zero: int
    weight: int
    weight_zero: int
    outputs: int
    bias: int
    is_sum: bool


PRODUCTS: Mapping[str, IntegerProducts] = {
    "MatMulInteger": IntegerProducts(0, 2, 1, 3, 1, -1, True),
    "QLinearMatMul": IntegerProducts(0, 2, 3, 5, 1, -1, False),
    "ConvInteger": IntegerProducts(0, 2, 1, 3, 0, -1, True),
    "QLinearConv": IntegerProducts(0, 2, 3, 5, 0, 8, False),
}
"""The ops of this file by their names in ONNX, for what changes their weights."""
INTEGERS_ONLY = NoGrad("integers have no derivative")
ACCUMULATED = TensorType(DType.I32, ())


def _single(call: Call, position: int) -> Expr:
    """The one number of an input."""
    return call.load(position, *(index(0) for _ in call.type(position).shape))


def _check_zero_point(call: Call, operand: int, position: int) -> None:
    if call.has(position) and call.type(position).dtype is not call.type(operand).dtype:
        raise call.error(
            f"input {position}, a zero point, must have the element type of input {operand}"
        )


def _check_single(call: Call, position: int) -> None:
    if call.has(position) and not is_single(call.type(position)):
        raise call.error(f"input {position} must be one number", got=str(call.type(position)))


def _as_f32(x: Expr) -> Expr:
    return fitted(DType.F32, x, dtype_of(x))


def _requantized(value: Expr, lhs: Expr, rhs: Expr, result: Expr, zero_point: Expr) -> Expr:
    """``round(value * lhs * rhs / result) + zero point`` of an ``i32`` value, saturated."""
    scales = binary("div", binary("mul", _as_f32(lhs), _as_f32(rhs)), _as_f32(result))
    scaled = binary("mul", cast(DType.F32, value), scales)
    return saturate(unary("round", scaled), zero_point, dtype_of(zero_point))


def _requantize(
    value: np.ndarray, lhs: np.ndarray, rhs: np.ndarray, result: np.ndarray, zero: np.ndarray
) -> np.ndarray:
    narrow = np.float32
    scales = lhs.astype(narrow) * rhs.astype(narrow) / result.astype(narrow).reshape(())
    whole = np.rint(value.astype(narrow) * scales)
    return saturated(whole, zero.reshape(()), DType.of(zero.dtype))


# --- matrix products ------------------------------------------------------------------------
# Positions of a matrix product's inputs: factor, scale (-1: none), zero point.

_Operand = tuple[int, int, int]
_PLAIN: tuple[_Operand, _Operand] = ((0, -1, 2), (1, -1, 3))
_SCALED: tuple[_Operand, _Operand] = ((0, 1, 2), (3, 4, 5))


def _check_lines(call: Call, operand: _Operand, axis: int) -> None:
    """Scale and zero point are single, or one for each line along ``axis`` (-2 or -1)."""
    factor = call.type(operand[0])
    _check_zero_point(call, operand[0], operand[2])
    for position in operand[1:]:
        if position < 0 or not call.has(position):
            continue
        found = call.type(position)
        if is_single(found):
            continue
        lines = factor.shape[axis] if len(factor.shape) > 1 else 1
        other = -1 if axis == -2 else -2
        whole = list(factor.shape)
        whole[other] = 1
        if found.shape not in ((lines,), tuple(whole)):
            raise call.error(
                f"input {position} must be one number or one for each of {lines} "
                + ("rows" if axis == -2 else "columns"),
                got=str(found),
            )


def _line(call: Call, position: int, dims: Sequence[int], point: Sequence[Expr], axis: int) -> Expr:
    """The scale or zero point that belongs to an element of a factor."""
    found = call.type(position)
    if is_single(found):
        return _single(call, position)
    if len(found.shape) == 1:
        return call.load(position, point[axis])
    return call.load(position, *broadcast(found.dims, dims, point))


def _lines(values: np.ndarray, axis: int) -> np.ndarray:
    """The same for whole arrays: shaped to broadcast along the factor."""
    if values.size == 1:
        return values.reshape(())
    return values.reshape(-1, 1) if values.ndim == 1 and axis == -2 else values


def _infer_matmul(call: Call, operands: tuple[_Operand, _Operand]) -> tuple[Dim, ...]:
    factors = [checked(call, operand[0], BYTES) for operand in operands]
    shape = matmul_shape(call, *factors)
    for operand, axis in zip(operands, (-2, -1), strict=True):
        _check_lines(call, operand, axis)
    return shape


def _centred_product(
    call: Call, operands: tuple[_Operand, _Operand]
) -> tuple[tuple[Axis, ...], Expr, list[tuple[Expr, ...]]]:
    """Axes and ``i32`` value of a product, and where both factors are read."""
    dims = [call.type(operand[0]).dims for operand in operands]
    ranges, left, right = matmul_points(dims[0], dims[1])
    factors: list[Expr] = []
    for operand, shape, point, axis in zip(operands, dims, (left, right), (-2, -1), strict=True):
        factor: Expr = cast(DType.I32, call.load(operand[0], *point))
        if call.has(operand[2]):
            zero_point = _line(call, operand[2], shape, point, axis)
            factor = binary("sub", factor, cast(DType.I32, zero_point))
        factors.append(factor)
    value = total("sum", (Axis("k", dims[0][-1]),), binary("mul", factors[0], factors[1]))
    return ranges, value, [left, right]


def _centred(values: np.ndarray, zero_point: np.ndarray | None, axis: int) -> np.ndarray:
    """In ``f64``, where sums of 8-bit products are exact (and fast)."""
    wide = values.astype(np.float64)
    return wide if zero_point is None else wide - _lines(zero_point, axis)


def _wrapped(value: np.ndarray) -> np.ndarray:
    return np.asarray(value).astype(np.int64).astype(np.int32)


def _matmul_integer(
    call: Call,
    a: np.ndarray,
    b: np.ndarray,
    a_zero: np.ndarray | None = None,
    b_zero: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    return (_wrapped(np.matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1))),)


def _define_matmul_integer(call: Call) -> tuple[Compute, ...]:
    ranges, value, _ = _centred_product(call, _PLAIN)
    return (Compute(ranges, value),)


def _infer_qlinear_matmul(call: Call) -> tuple[TensorType, ...]:
    shape = _infer_matmul(call, _SCALED)
    for position in (1, 4, 6):
        checked(call, position, FLOATS)
    for position in (6, 7):
        _check_single(call, position)
    return (TensorType(checked(call, 7, BYTES).dtype, shape),)


def _qlinear_matmul(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = inputs
    value = _wrapped(np.matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1)))
    lhs, rhs = _lines(a_scale, -2), _lines(b_scale, -1)
    return (_requantize(value, lhs, rhs, scale, zero),)


def _define_qlinear_matmul(call: Call) -> tuple[Compute, ...]:
    ranges, value, (left, right) = _centred_product(call, _SCALED)
    lhs = _line(call, 1, call.type(0).dims, left, -2)
    rhs = _line(call, 4, call.type(3).dims, right, -1)
    y = _requantized(value, lhs, rhs, _single(call, 6), _single(call, 7))
    return (Compute(ranges, y),)


# --- convolutions ---------------------------------------------------------------------------


def _infer_conv(
    call: Call, w: int, x_zero: int, w_zero: int, data_types: Domain = BYTES
) -> tuple[Dim, ...]:
    data, weight = checked(call, 0, data_types), checked(call, w, BYTES)
    shape = conv_shape(call, data, weight)
    _check_zero_point(call, 0, x_zero)
    _check_zero_point(call, w, w_zero)
    _check_single(call, x_zero)
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
    return _single(call, position) if is_single(found) else call.load(position, channel)


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
        return binary("sub", value, cast(DType.I32, _single(call, x_zero)))

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
    return _wrapped(found) if x.dtype.itemsize == 1 else found.astype(np.int64)


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
        _check_single(call, position)
    _check_channels(call, 4, channels)
    check_bias(call, 8, channels, ACCUMULATED)
    return (TensorType(checked(call, 7, NARROW).dtype, shape),)


def _qlinear_conv(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = inputs[:8]
    value = _convolved(call, x, w, x_zero, w_zero)
    if call.has(8):
        value = value + _along_channels(inputs[8], x.ndim)
    rhs = _along_channels(w_scale, x.ndim)
    return (_requantize(value, x_scale.reshape(()), rhs, scale, zero),)


def _define_qlinear_conv(call: Call) -> tuple[Compute, ...]:
    ranges, value = _conv_sum(call, 3, 2, 5)
    channel = Var(ranges[1].var)
    if call.has(8):
        added = _channel(call, 8, channel)
        value = binary("add", value, fitted(_sums(call, 3), added, DType.I32))
    y = _requantized(
        value,
        _single(call, 1),
        _channel(call, 4, channel),
        _single(call, 6),
        _single(call, 7),
    )
    return (Compute(ranges, y),)


_QUANTIZED_INPUTS = "{0} {0}_scale {0}_zero_point {1} {1}_scale {1}_zero_point y_scale y_zero_point"


def _params(left: str, right: str) -> tuple[Param, ...]:
    return tuple(Param(name) for name in _QUANTIZED_INPUTS.format(left, right).split())


def _with_zero_points(left: str, right: str) -> tuple[Param, ...]:
    return (
        Param(left),
        Param(right),
        Param(f"{left}_zero_point", optional=True),
        Param(f"{right}_zero_point", optional=True),
    )


OPS: tuple[Op, ...] = (
    Op(
        name="MatMulInteger",
        inputs=_with_zero_points("a", "b"),
        infer=lambda call: (TensorType(DType.I32, _infer_matmul(call, _PLAIN)),),
        reference=_matmul_integer,
        compute=Define(_define_matmul_integer),
        grad=INTEGERS_ONLY,
        doc="The matrix product of a and b less their zero points, in i32.",
    ),
    Op(
        name="QLinearMatMul",
        inputs=_params("a", "b"),
        infer=_infer_qlinear_matmul,
        reference=_qlinear_matmul,
        compute=Define(_define_qlinear_matmul),
        grad=INTEGERS_ONLY,
        rounding="onnx",
        doc="The matrix product of quantized a and b, quantized.",
    ),
    Op(
        name="ConvInteger",
        inputs=_with_zero_points("x", "w"),
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
        inputs=(*_params("x", "w"), Param("b", optional=True)),
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
