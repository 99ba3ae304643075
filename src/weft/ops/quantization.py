"""Quantize and dequantize.

A scale (and its zero point) is one number for the whole tensor, one for each position
along ``axis``, or one for each block of ``block_size`` positions along ``axis``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.loops.walk import dtype_of
from weft.ops.accumulate import accumulator
from weft.ops.cast import CastAttributes
from weft.ops.elementwise import FLOATS, Domain, checked, fitted
from weft.ops.expr import axes, binary, cast, const, index, unary, variables
from weft.ops.record import Builder, Call, Define, Expand, NoGrad, Op, Param
from weft.ops.reduction import ReduceAttributes
from weft.ops.support import axis_of
from weft.records import dataclass

QUANTIZED = Domain(
    "an integer type of 8 or 16 bits", frozenset({DType.I8, DType.U8, DType.I16, DType.U16})
)
STORED = Domain(
    "an integer type of 8 or 16 bits, i32 or i64", QUANTIZED.dtypes | {DType.I32, DType.I64}
)
SCALES = Domain("f32, f16, bf16 or i32", FLOATS.dtypes - {DType.F64} | {DType.I32})


@dataclass(frozen=True, slots=True)
class QuantizeAttributes(Attributes):
    """Attributes of ``QuantizeLinear``.

    Attributes:
        axis: of the scales, if there are several.
        block_size: positions along the axis that share a scale; 0: not in blocks.
        output_dtype: the type to quantize to, if no zero point says so (``u8``).
        precision: the type of the division, if not the scale's.
    """

    axis: int = 1
    block_size: int = 0
    output_dtype: DType | None = None
    precision: DType | None = None


@dataclass(frozen=True, slots=True)
class DequantizeAttributes(Attributes):
    """Attributes of ``DequantizeLinear``.

    Attributes:
        axis: of the scales, if there are several.
        block_size: positions along the axis that share a scale; 0: not in blocks.
        output_dtype: the type of the output, if not the scale's.
    """

    axis: int = 1
    block_size: int = 0
    output_dtype: DType | None = None


def is_single(found: TensorType) -> bool:
    """Whether there is one element, whatever the rank."""
    return found.is_static and prod(found.dims) == 1


def _check_granularity(call: Call) -> None:
    """The scale's shape is one of the three that are allowed, the zero point's the same."""
    x, scale, block = call.type(0), call.type(1), call.attributes.block_size
    single = is_single(scale)
    if call.has(2):
        zero_point = call.type(2)
        if zero_point.shape != scale.shape and not (single and is_single(zero_point)):
            raise call.error("the scale and the zero point must have the same shape")
    if single:
        return
    axis = axis_of(call, call.attributes.axis, len(x.shape))
    if len(scale.shape) == 1:
        if scale.shape[0] != x.shape[axis]:
            raise call.error(f"there must be one scale for each of {x.shape[axis]} positions")
        return
    extent = x.shape[axis]
    if block < 1 or not isinstance(extent, int):
        raise call.error("scales in blocks need a block_size, and a known extent of the axis")
    wanted = (*x.shape[:axis], -(-extent // block), *x.shape[axis + 1 :])
    if scale.shape != wanted:
        raise call.error(f"blocks of {block} along axis {axis} need scales {list(wanted)}")


def _scale_at(call: Call, position: int, point: Sequence[Expr]) -> Expr:
    """The scale or zero point for an element of x."""
    found = call.type(position)
    if is_single(found):
        return call.load(position, *(index(0) for _ in found.shape))
    axis = int(call.attributes.axis) % len(point)
    if len(found.shape) == 1:
        return call.load(position, point[axis])
    where = list(point)
    where[axis] = binary("floordiv", point[axis], int(call.attributes.block_size))
    return call.load(position, *where)


def _spread(call: Call, values: np.ndarray) -> np.ndarray:
    """Scales or zero points, one for each element of x (or broadcasting to that)."""
    if values.size == 1:
        return values.reshape(())
    shape = call.type(0).dims
    axis = int(call.attributes.axis) % len(shape)
    if values.ndim == 1:
        return values.reshape((-1,) + (1,) * (len(shape) - 1 - axis))
    whole = np.repeat(values, call.attributes.block_size, axis)
    return whole.take(range(shape[axis]), axis)


def saturate(value: Expr, zero_point: Expr | None, dtype: DType) -> Expr:
    """A whole ``f32`` plus the zero point, held within an integer type of up to 16 bits.

    A NaN becomes the type's smallest value: it stands on the right of ``max``, which
    passes it over.
    """
    low, high = dtype.limits
    if zero_point is not None:
        value = binary("add", value, cast(DType.F32, zero_point))
    held = binary("max", const(low, DType.F32), value)
    return cast(dtype, binary("min", held, const(high, DType.F32)))


def saturated(value: np.ndarray, zero_point: np.ndarray | None, dtype: DType) -> np.ndarray:
    """The same as ``saturate``, in NumPy."""
    low, high = dtype.limits
    value = value.astype(np.float32)
    if zero_point is not None:
        value = value + zero_point.astype(np.float32)
    held = np.fmin(np.fmax(value, np.float32(low)), np.float32(high))
    return held.astype(dtype.numpy)


# --- QuantizeLinear -------------------------------------------------------------------------


def _infer_quantize(call: Call) -> tuple[TensorType, ...]:
    x, given = checked(call, 0, SCALES), call.attributes
    checked(call, 1, SCALES)
    _check_granularity(call)
    dtype = given.output_dtype or DType.U8
    if call.has(2):
        dtype = call.type(2).dtype
        if given.output_dtype not in (None, dtype):
            raise call.error(
                f"output_dtype {given.output_dtype.value} must be the zero point's type"
            )
    if dtype not in QUANTIZED.dtypes:
        raise call.error(f"the output must be of {QUANTIZED.words}", got=dtype.value)
    return (TensorType(dtype, x.shape),)


def _precision(call: Call) -> DType:
    """The type of the division: the scale's, ``f64`` for integer scales."""
    chosen = call.attributes.precision or call.type(1).dtype
    return chosen if chosen.is_float else DType.F64


def _quantize(
    call: Call, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    dtype = _precision(call).numpy
    whole = np.rint(x.astype(dtype) / _spread(call, scale).astype(dtype))
    zero = None if zero_point is None else _spread(call, zero_point)
    return (saturated(whole, zero, _infer_quantize(call)[0].dtype),)


def _define_quantize(call: Call) -> tuple[Compute, ...]:
    found = _infer_quantize(call)[0]
    precision = _precision(call)
    ranges = axes(found.dims)
    point = variables(ranges)
    x, scale = call.load(0, *point), _scale_at(call, 1, point)
    quotient = binary(
        "div", fitted(precision, x, x.dtype), fitted(precision, scale, dtype_of(scale))
    )
    whole = fitted(DType.F32, unary("round", quotient), precision)
    zero_point = _scale_at(call, 2, point) if call.has(2) else None
    return (Compute(ranges, saturate(whole, zero_point, found.dtype)),)


# --- DequantizeLinear -----------------------------------------------------------------------


def _infer_dequantize(call: Call) -> tuple[TensorType, ...]:
    x, scale = checked(call, 0, STORED), checked(call, 1, FLOATS)
    if call.has(2) and call.type(2).dtype is not x.dtype:
        raise call.error("x and its zero point must have the same element type")
    _check_granularity(call)
    return (TensorType(call.attributes.output_dtype or scale.dtype, x.shape),)


def _whole(call: Call) -> DType:
    """The type in which a zero point is subtracted."""
    return DType.I64 if call.type(0).dtype is DType.I64 else DType.I32


def _dequantize(
    call: Call, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    dtype = _infer_dequantize(call)[0].dtype
    wide = accumulator(dtype).numpy
    whole = _whole(call)
    centred = x.astype(whole.numpy)
    if zero_point is not None:
        centred = centred - _spread(call, zero_point).astype(whole.numpy)
    product = centred.astype(wide) * _spread(call, scale).astype(wide)
    return (np.asarray(product).astype(dtype.numpy),)


def _define_dequantize(call: Call) -> tuple[Compute, ...]:
    found = _infer_dequantize(call)[0]
    wide = accumulator(found.dtype)
    ranges = axes(found.dims)
    point = variables(ranges)
    x, scale = call.load(0, *point), _scale_at(call, 1, point)
    whole = _whole(call)
    centred = fitted(whole, x, x.dtype)
    if call.has(2):
        zero_point = fitted(whole, _scale_at(call, 2, point), x.dtype)
        centred = binary("sub", centred, zero_point)
    product = binary("mul", cast(wide, centred), fitted(wide, scale, dtype_of(scale)))
    return (Compute(ranges, fitted(found.dtype, product, wide)),)


# --- DynamicQuantizeLinear ------------------------------------------------------------------


def _infer_dynamic(call: Call) -> tuple[TensorType, ...]:
    x = call.type(0)
    if x.dtype is not DType.F32:
        raise call.error("x must be f32", got=str(x))
    return (
        TensorType(DType.U8, x.shape),
        TensorType(DType.F32, ()),
        TensorType(DType.U8, ()),
    )


def _dynamic(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    low = np.minimum(x.min(initial=0), np.float32(0))
    spread = np.maximum(x.max(initial=0), np.float32(0)) - low
    # All zeros: any scale will do.
    scale = np.asarray(spread / np.float32(255) if spread else 1, np.float32)
    zero_point = np.rint(np.clip(-low / scale, 0, 255)).astype(np.uint8)
    return saturated(np.rint(x / scale), zero_point, DType.U8), scale, zero_point


def _expand_dynamic(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    whole = ReduceAttributes(keepdims=0)
    zero = builder.constant(np.array(0, np.float32))
    low = builder.op("Min", builder.op("ReduceMin", inputs[0], attributes=whole), zero)
    high = builder.op("Max", builder.op("ReduceMax", inputs[0], attributes=whole), zero)
    spread = builder.op("Sub", high, low)
    even = builder.op("Div", spread, builder.constant(np.array(255, np.float32)))
    nothing = builder.op("Equal", spread, zero)
    scale = builder.op("Where", nothing, builder.constant(np.array(1, np.float32)), even)
    shift = builder.op("Div", builder.op("Neg", low), scale)
    bounds = builder.ops["Clip"].attributes(min=0.0, max=255.0)
    held = builder.op("Round", builder.op("Clip", shift, attributes=bounds))
    zero_point = builder.op("Cast", held, attributes=CastAttributes(DType.U8))
    y = builder.op("QuantizeLinear", inputs[0], scale, zero_point, attributes=QuantizeAttributes())
    return y, scale, zero_point


OPS: tuple[Op, ...] = (
    Op(
        name="QuantizeLinear",
        inputs=(Param("x"), Param("scale"), Param("zero_point", optional=True)),
        infer=_infer_quantize,
        reference=_quantize,
        compute=Define(_define_quantize),
        grad=NoGrad("the derivative is zero wherever there is one"),
        doc="round(x / scale) + zero point, halves to even, held within the integer type.",
        attributes=QuantizeAttributes,
    ),
    Op(
        name="DequantizeLinear",
        inputs=(Param("x"), Param("scale"), Param("zero_point", optional=True)),
        infer=_infer_dequantize,
        reference=_dequantize,
        compute=Define(_define_dequantize),
        doc="(x - zero point) * scale.",
        attributes=DequantizeAttributes,
    ),
    Op(
        name="DynamicQuantizeLinear",
        infer=_infer_dynamic,
        reference=_dynamic,
        compute=Expand(_expand_dynamic),
        grad=NoGrad("the derivative is zero wherever there is one"),
        doc="x quantized to u8 by the scale and zero point that just hold it and 0.",
        outputs=(Param("y"), Param("scale"), Param("zero_point")),
    ),
)
