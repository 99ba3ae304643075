"""Reductions.

Sums over ``f16`` and ``bf16`` are taken in ``f32``.  The extremes pass over NaN, as the
loop language's ``min`` and ``max`` do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import Dim, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.loops.walk import dtype_of, substitute
from weft.ops.accumulate import accumulator
from weft.ops.arithmetic import magnitude
from weft.ops.elementwise import (
    FLOATS,
    Domain,
    checked,
    fitted,
    like,
    widened,
)
from weft.ops.expr import axes, binary, select, total, unary
from weft.ops.record import Call, Define, Op
from weft.ops.support import axes_of
from weft.records import dataclass

SUMMED = Domain(
    "a floating-point or wide integer type",
    FLOATS.dtypes | {DType.I32, DType.I64, DType.U32, DType.U64},
)
ORDERED = Domain(
    "a floating-point, byte, wide integer or bool type",
    SUMMED.dtypes | {DType.I8, DType.U8, DType.BOOL},
)


@dataclass(frozen=True, slots=True)
class ReduceAttributes(Attributes):
    """Attributes of every reduction.

    Attributes:
        axes: which axes are reduced; none named means all of them.
        keepdims: 1: reduced axes stay, with extent 1.
        noop_with_empty_axes: 1: no axes named means none of them.
    """

    axes: tuple[int, ...] = ()
    keepdims: int = 1
    noop_with_empty_axes: int = 0


def reduced_axes(call: Call) -> tuple[int, ...]:
    """The axes that a reduction runs over, counted from the front, in order."""
    attributes: ReduceAttributes = call.attributes
    rank = len(call.type(0).shape)
    if attributes.axes:
        return tuple(sorted(axes_of(call, attributes.axes, rank)))
    return () if attributes.noop_with_empty_axes else tuple(range(rank))


def without(shape: tuple[Dim, ...], over: tuple[int, ...], keepdims: int) -> tuple[Dim, ...]:
    """A shape whose axes ``over`` are reduced."""
    if keepdims:
        return tuple(1 if place in over else dim for place, dim in enumerate(shape))
    return tuple(dim for place, dim in enumerate(shape) if place not in over)


Prepare: TypeAlias = Callable[[Expr], Expr]
Finish: TypeAlias = Callable[[Expr, int], Expr]
"""``finish(total, count)``."""
Function: TypeAlias = Callable[[np.ndarray, tuple[int, ...]], np.ndarray]
"""``function(x, axes)``, keeping the reduced axes."""


def _reduction_infer(domain: Domain) -> Callable[[Call], tuple[TensorType, ...]]:
    def infer(call: Call) -> tuple[TensorType, ...]:
        found = checked(call, 0, domain)
        shape = without(found.shape, reduced_axes(call), call.attributes.keepdims)
        return (TensorType(found.dtype, shape),)

    return infer


def _reduction(
    name: str,
    domain: Domain,
    op: str,
    function: Function,
    doc: str,
    *,
    prepare: Prepare = lambda x: x,
    finish: Finish = lambda value, count: value,
) -> Op:
    """The record of ``finish(op over the axes of prepare(x))``."""
    infer = _reduction_infer(domain)

    def reference(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
        value = function(widened(x), reduced_axes(call))
        return (value.reshape(infer(call)[0].dims).astype(x.dtype, copy=False),)

    def define(call: Call) -> tuple[Compute, ...]:
        found = call.type(0)
        ranges, inner, point = _points(call, infer(call)[0].dims)
        x = fitted(accumulator(found.dtype), call.load(0, *point), found.dtype)
        count = prod(axis.extent for axis in inner)
        value = finish(total(_logical(op, found.dtype), inner, prepare(x)), count)
        return (Compute(ranges, fitted(found.dtype, value, accumulator(found.dtype))),)

    return Op(
        name=name,
        infer=infer,
        reference=reference,
        compute=Define(define),
        doc=doc,
        attributes=ReduceAttributes,
        implied={"axes": reduced_axes},
    )


def _points(call: Call, shape: tuple[int, ...]) -> tuple[tuple[Axis, ...], list[Axis], list[Expr]]:
    """Axes of the output, axes that are reduced, and where x is read."""
    dims, over = call.type(0).dims, reduced_axes(call)
    ranges = axes(shape)
    inner = [Axis(f"r{place}", dims[axis]) for place, axis in enumerate(over)]
    kept = [
        axis for place, axis in enumerate(ranges) if len(shape) != len(dims) or place not in over
    ]
    remaining, reduced = iter(kept), iter(inner)
    point: list[Expr] = [
        Var(next(reduced if place in over else remaining).var) for place in range(len(dims))
    ]
    return ranges, inner, point


def _logical(op: str, dtype: DType) -> str:
    if dtype is not DType.BOOL:
        return op
    return {"max": "or", "min": "and"}[op]


def _sum(x: np.ndarray, over: tuple[int, ...]) -> np.ndarray:
    return np.sum(x, axis=over, keepdims=True, dtype=x.dtype)


def _count(x: np.ndarray, over: tuple[int, ...]) -> int:
    return prod(x.shape[axis] for axis in over)


def _mean(x: np.ndarray, over: tuple[int, ...]) -> np.ndarray:
    if x.dtype.kind == "f":
        return _sum(x, over) / x.dtype.type(_count(x, over))
    return np.trunc(_sum(x, over) / max(_count(x, over), 1))


def _mean_formula(value: Expr, count: int) -> Expr:
    whole = not dtype_of(value).is_float
    return binary("div", value, like(value, max(count, 1) if whole else count))


def extreme_of(x: np.ndarray, over: tuple[int, ...], largest: bool) -> np.ndarray:
    """The largest or smallest over axes that are kept; NaN is passed over."""
    if not over:  # of one element, be it NaN
        return x
    if x.dtype == np.bool_:
        function = np.logical_or if largest else np.logical_and
        return np.asarray(function.reduce(x, axis=over, keepdims=True))
    if x.dtype.kind == "f":
        start = -np.inf if largest else np.inf
    else:
        start = DType.of(x.dtype).limits[0 if largest else 1]
    function = np.fmax if largest else np.fmin
    return np.asarray(function.reduce(x, axis=over, keepdims=True, initial=start))


def _square(x: Expr) -> Expr:
    return binary("mul", x, x)


def _root(value: Expr, count: int) -> Expr:
    dtype = dtype_of(value)
    wider = dtype if dtype.is_float else DType.F64
    return fitted(dtype, unary("sqrt", fitted(wider, value, dtype)), wider)


def _log(value: Expr, count: int) -> Expr:
    dtype = dtype_of(value)
    wider = dtype if dtype.is_float else DType.F64
    return fitted(dtype, unary("log", fitted(wider, value, dtype)), wider)


_infer_summed = _reduction_infer(SUMMED)


def _log_sum_exp(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    over, values = reduced_axes(call), widened(x).astype(np.float64)
    largest = extreme_of(values, over, True)
    shift = np.where(np.isinf(largest), 0.0, largest)
    value = np.log(np.sum(np.exp(values - shift), axis=over, keepdims=True)) + shift
    return (value.reshape(_infer_summed(call)[0].dims).astype(x.dtype),)


def _define_log_sum_exp(call: Call) -> tuple[Compute, ...]:
    dtype = call.type(0).dtype
    wide = accumulator(dtype) if dtype.is_float else DType.F64
    ranges, inner, point = _points(call, _infer_summed(call)[0].dims)
    x = fitted(wide, call.load(0, *point), dtype)
    peak_axes, peak_x = renamed(inner, x)
    peak = total("max", peak_axes, peak_x)
    # An infinite maximum would give infinity minus infinity.
    shift = select(unary("isinf", peak), like(peak, 0), peak)
    value = unary("log", total("sum", inner, unary("exp", binary("sub", x, shift))))
    return (Compute(ranges, fitted(dtype, binary("add", value, shift), wide)),)


def renamed(inner: Sequence[Axis], x: Expr) -> tuple[list[Axis], Expr]:
    """The same elements under axes of their own, for a reduction within a reduction."""
    fresh = [Axis(f"q{place}", axis.extent) for place, axis in enumerate(inner)]
    names = {old.var: Var(new.var) for old, new in zip(inner, fresh, strict=True)}
    return fresh, substitute(x, names)


OPS: tuple[Op, ...] = (
    _reduction("ReduceSum", SUMMED, "sum", _sum, "The sum over the axes."),
    _reduction(
        "ReduceMean",
        SUMMED,
        "sum",
        _mean,
        "The mean over the axes; integers truncate.",
        finish=_mean_formula,
    ),
    _reduction(
        "ReduceProd",
        SUMMED,
        "prod",
        lambda x, over: np.prod(x, axis=over, keepdims=True, dtype=x.dtype),
        "The product over the axes.",
    ),
    _reduction(
        "ReduceMax",
        ORDERED,
        "max",
        lambda x, over: extreme_of(x, over, True),
        "The largest over the axes; NaN is passed over.",
    ),
    _reduction(
        "ReduceMin",
        ORDERED,
        "min",
        lambda x, over: extreme_of(x, over, False),
        "The smallest over the axes; NaN is passed over.",
    ),
    _reduction(
        "ReduceL1",
        SUMMED,
        "sum",
        lambda x, over: _sum(np.abs(x), over),
        "The sum of magnitudes over the axes.",
        prepare=magnitude,
    ),
    _reduction(
        "ReduceL2",
        SUMMED,
        "sum",
        lambda x, over: np.sqrt(_sum(x * x, over)),
        "The square root of the sum of squares over the axes.",
        prepare=_square,
        finish=_root,
    ),
    _reduction(
        "ReduceLogSum",
        SUMMED,
        "sum",
        lambda x, over: np.log(_sum(x, over)),
        "The logarithm of the sum over the axes; integers truncate.",
        finish=_log,
    ),
    _reduction(
        "ReduceSumSquare",
        SUMMED,
        "sum",
        lambda x, over: _sum(x * x, over),
        "The sum of squares over the axes.",
        prepare=_square,
    ),
    Op(
        name="ReduceLogSumExp",
        infer=_infer_summed,
        reference=_log_sum_exp,
        compute=Define(_define_log_sum_exp),
        doc="The logarithm of the sum of exponentials over the axes, without overflow; "
        "integers truncate.",
        attributes=ReduceAttributes,
        implied={"axes": reduced_axes},
    ),
)
