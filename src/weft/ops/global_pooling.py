"""Global pooling: one value for each channel."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.ops.accumulate import accumulator, narrowed, widened
from weft.ops.expr import binary, const, total, variables
from weft.ops.pooling import check_float, check_norm, norm, power_sum
from weft.ops.record import Call, Define, Op, Param
from weft.ops.support import known
from weft.ops.window import spatial_axes, spatial_dims, tap_axes
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class GlobalLpPoolAttributes(Attributes):
    """Of ``GlobalLpPool``."""

    p: int = 2


def _infer_global(call: Call) -> tuple[TensorType, ...]:
    x = call.type(0)
    extents = spatial_dims(call, x)
    known(call, x.shape[1])
    return (TensorType(x.dtype, (*x.shape[:2], *(1 for _ in extents))),)


def _infer_global_average(call: Call) -> tuple[TensorType, ...]:
    check_float(call)
    return _infer_global(call)


def _infer_global_lp(call: Call) -> tuple[TensorType, ...]:
    check_float(call)
    check_norm(call)
    return _infer_global(call)


def _define_global(
    call: Call, value: Callable[[Expr, tuple[Axis, ...], DType], Expr]
) -> tuple[Compute, ...]:
    """One value for each channel, of all its elements in the accumulator's type."""
    x = call.type(0)
    extents = x.dims[2:]
    points = spatial_axes([1] * len(extents))
    taps = tap_axes(extents)
    element = widened(call.load(0, Var("n"), Var("c"), *variables(taps)), x.dtype)
    found = value(element, taps, accumulator(x.dtype))
    axes = (Axis("n", x.dims[0]), Axis("c", x.dims[1]), *points)
    return (Compute(axes, narrowed(found, x.dtype)),)


def _mean(element: Expr, taps: tuple[Axis, ...], dtype: DType) -> Expr:
    count = prod(axis.extent for axis in taps)
    return binary("div", total("sum", taps, element), const(count, dtype))


def _reference_global(
    call: Call, x: np.ndarray, value: Callable[[np.ndarray, tuple[int, ...]], np.ndarray]
) -> tuple[np.ndarray, ...]:
    dtype = call.type(0).dtype
    axes = tuple(range(2, x.ndim))
    return (value(x.astype(accumulator(dtype).numpy), axes).astype(dtype.numpy),)


def _reference_global_lp(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    p = call.attributes.p
    return _reference_global(
        call, x, lambda x, axes: norm((np.abs(x) ** p).sum(axis=axes, keepdims=True), p)
    )


def _reference_global_average(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return _reference_global(call, x, lambda x, axes: x.mean(axis=axes, keepdims=True))


def _reference_global_max(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return _reference_global(call, x, lambda x, axes: np.fmax.reduce(x, axis=axes, keepdims=True))


X = (Param("x", role="image"),)

OPS: tuple[Op, ...] = (
    Op(
        name="GlobalAveragePool",
        inputs=X,
        infer=_infer_global_average,
        reference=_reference_global_average,
        compute=Define(lambda call: _define_global(call, _mean)),
        doc="The mean of each channel.",
    ),
    Op(
        name="GlobalMaxPool",
        inputs=X,
        infer=_infer_global,
        reference=_reference_global_max,
        compute=Define(lambda call: _define_global(call, lambda x, taps, _: total("max", taps, x))),
        doc="The largest element of each channel; NaN is passed over.",
    ),
    Op(
        name="GlobalLpPool",
        inputs=X,
        infer=_infer_global_lp,
        reference=_reference_global_lp,
        compute=Define(
            lambda call: _define_global(
                call,
                lambda x, taps, dtype: power_sum(
                    x, call.attributes.p, dtype, lambda each: total("sum", taps, each)
                ),
            )
        ),
        attributes=GlobalLpPoolAttributes,
        doc="The p-norm of each channel.",
    ),
)
