"""Products of quantized tensors: sums in ``i32``, requantized in ``f32``.

Operands come with zero points and, for the ops that requantize, scales: one number, or
one for each row of the left factor, column of the right, output channel of a convolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.dtypes import DType
from weft.ir.types import Dim, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr
from weft.ops.elementwise import FLOATS, checked
from weft.ops.expr import binary, broadcast, cast, total
from weft.ops.integer_convolution import CONVOLUTIONS
from weft.ops.integer_operands import (
    BYTES,
    INTEGERS_ONLY,
    check_single,
    check_zero_point,
    params_with_zero_points,
    quantized_params,
    requantize,
    requantized,
    single,
    wrapped,
)
from weft.ops.linear import matmul_points, matmul_shape
from weft.ops.quantization import is_single
from weft.ops.record import Call, Define, Op
from weft.records import dataclass


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
"""Products of integers by their names in ONNX, for what changes their weights."""
# Positions of a matrix product's inputs: factor, scale (-1: none), zero point.

_Operand = tuple[int, int, int]
_PLAIN: tuple[_Operand, _Operand] = ((0, -1, 2), (1, -1, 3))
_SCALED: tuple[_Operand, _Operand] = ((0, 1, 2), (3, 4, 5))


def _check_lines(call: Call, operand: _Operand, axis: int) -> None:
    """Scale and zero point are single, or one for each line along ``axis`` (-2 or -1)."""
    factor = call.type(operand[0])
    check_zero_point(call, operand[0], operand[2])
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
        return single(call, position)
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


def _matmul_integer(
    call: Call,
    a: np.ndarray,
    b: np.ndarray,
    a_zero: np.ndarray | None = None,
    b_zero: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    return (wrapped(np.matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1))),)


def _define_matmul_integer(call: Call) -> tuple[Compute, ...]:
    ranges, value, _ = _centred_product(call, _PLAIN)
    return (Compute(ranges, value),)


def _infer_qlinear_matmul(call: Call) -> tuple[TensorType, ...]:
    shape = _infer_matmul(call, _SCALED)
    for position in (1, 4, 6):
        checked(call, position, FLOATS)
    for position in (6, 7):
        check_single(call, position)
    return (TensorType(checked(call, 7, BYTES).dtype, shape),)


def _qlinear_matmul(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = inputs
    value = wrapped(np.matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1)))
    lhs, rhs = _lines(a_scale, -2), _lines(b_scale, -1)
    return (requantize(value, lhs, rhs, scale, zero),)


def _define_qlinear_matmul(call: Call) -> tuple[Compute, ...]:
    ranges, value, (left, right) = _centred_product(call, _SCALED)
    lhs = _line(call, 1, call.type(0).dims, left, -2)
    rhs = _line(call, 4, call.type(3).dims, right, -1)
    y = requantized(value, lhs, rhs, single(call, 6), single(call, 7))
    return (Compute(ranges, y),)


OPS: tuple[Op, ...] = (
    Op(
        name="MatMulInteger",
        inputs=params_with_zero_points("a", "b"),
        infer=lambda call: (TensorType(DType.I32, _infer_matmul(call, _PLAIN)),),
        reference=_matmul_integer,
        compute=Define(_define_matmul_integer),
        grad=INTEGERS_ONLY,
        doc="The matrix product of a and b less their zero points, in i32.",
    ),
    Op(
        name="QLinearMatMul",
        inputs=quantized_params("a", "b"),
        infer=_infer_qlinear_matmul,
        reference=_qlinear_matmul,
        compute=Define(_define_qlinear_matmul),
        grad=INTEGERS_ONLY,
        rounding="onnx",
        doc="The matrix product of quantized a and b, quantized.",
    ),
    *CONVOLUTIONS,
)
