"""Pooling.

Spatial attributes are those of convolutions; a window that sticks out past the padding
(``ceil_mode``) reads nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Const, Expr, Var
from weft.ops.accumulate import accumulator, narrowed, widened
from weft.ops.expr import add, binary, cast, const, mul, select, total, unary, variables
from weft.ops.record import Call, Define, NoGrad, Op, Param
from weft.ops.requantization import DOMAIN
from weft.ops.window import (
    Window,
    guarded,
    implied_window,
    spatial_axes,
    spatial_dims,
    tap_axes,
    window_of,
    window_shape,
)
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class PoolAttributes(Attributes):
    """Of every pool."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    ceil_mode: int = 0


@dataclass(frozen=True, slots=True)
class MaxPoolAttributes(PoolAttributes):
    """Of ``MaxPool``; ``storage_order`` 1 numbers the indices column by column."""

    storage_order: int = 0


@dataclass(frozen=True, slots=True)
class AveragePoolAttributes(PoolAttributes):
    """Of ``AveragePool``; ``count_include_pad`` 1 divides by padding elements too."""

    count_include_pad: int = 0


@dataclass(frozen=True, slots=True)
class LpPoolAttributes(PoolAttributes):
    """Of ``LpPool``: the ``p``-norm of each window."""

    p: int = 2


# --- what the pools share -------------------------------------------------------------------


def pool_window(call: Call) -> Window:
    """The window of a pool."""
    a = call.attributes
    if min(a.pads, default=0) < 0:
        raise call.error("pads must not be negative", got=f"pads {list(a.pads)}")
    return window_of(call, tuple(a.kernel), a.strides, a.dilations, a.pads, bool(a.ceil_mode))


def _infer_pool(call: Call) -> tuple[TensorType, ...]:
    x = call.type(0)
    spatial_dims(call, x)
    return (TensorType(x.dtype, window_shape(call, x, x.shape[1], pool_window(call))),)


@dataclass(frozen=True, slots=True)
class _Pool:
    """The loops of one pool: output axes, taps, what a tap reads and when it is inside."""

    axes: tuple[Axis, ...]
    taps: tuple[Axis, ...]
    position: tuple[Expr, ...]
    conditions: tuple[Expr, ...]
    load: Expr


def _pool(call: Call, prefix: str = "") -> _Pool:
    dims, window = call.type(0).dims, pool_window(call)
    outputs = window.outputs(dims[2:])
    points = spatial_axes(outputs)
    taps = tuple(Axis(prefix + axis.var, axis.extent) for axis in tap_axes(window.kernel))
    position = window.positions(variables(points), variables(taps))
    return _Pool(
        (Axis("n", dims[0]), Axis("c", dims[1]), *points),
        taps,
        position,
        tuple(window.conditions(position, dims[2:], outputs)),
        call.load(0, Var("n"), Var("c"), *position),
    )


def _lowest(dtype: DType) -> float | int:
    return -np.inf if dtype.is_float else dtype.limits[0]


def check_float(call: Call) -> None:
    """The input of a mean or norm is floating-point."""
    if not call.type(0).dtype.is_float:
        raise call.error("input must be of a floating-point type")


# --- MaxPool --------------------------------------------------------------------------------


def _infer_max_pool(call: Call) -> tuple[TensorType, ...]:
    (value,) = _infer_pool(call)
    return (value, TensorType(DType.I64, value.shape))[: max(1, call.outputs)]


def _flat(position: Sequence[Expr], extents: Sequence[int], column_major: bool) -> Expr:
    """The number of a spatial position among all of its image."""
    pairs = list(zip(position, extents, strict=True))
    first, *rest = pairs[::-1] if column_major else pairs
    found = first[0]
    for each, extent in rest:
        found = add(mul(found, extent), each)
    return found


def _define_max_pool(call: Call) -> tuple[Compute, ...]:
    x = call.type(0)
    pool = _pool(call)
    lowest = const(_lowest(x.dtype), x.dtype)
    value = total("max", pool.taps, guarded(pool.conditions, pool.load, lowest))
    found = Compute(pool.axes, value)
    return (found, _define_indices(call, value)) if call.outputs > 1 else (found,)


def _define_indices(call: Call, largest: Expr) -> Compute:
    """The number of the first element of each window that equals its largest."""
    dims = call.type(0).dims
    extents = dims[2:]
    pool = _pool(call, prefix="at_")
    none = const(DType.I64.limits[1], DType.I64)
    same = binary("eq", pool.load, largest)
    size = prod(extents)
    number = _flat(pool.position, extents, False)
    if call.attributes.storage_order:
        # The first is found row by row, so that number leads; the other one is kept.
        number = add(mul(number, size), _flat(pool.position, extents, True))
    hit = guarded(pool.conditions, select(same, number, none), none)
    place = total("min", pool.taps, hit)
    # Where all are NaN nothing equals the largest.
    place = select(binary("eq", place, none), const(0, DType.I64), place)
    if call.attributes.storage_order:
        place = binary("mod", place, size)
    image = mul(add(mul(Var("n"), dims[1]), Var("c")), size)
    return Compute(pool.axes, add(image, place))


def _reference_max_pool(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    window = pool_window(call)
    outputs = window.outputs(x.shape[2:])
    lowest = _lowest(call.type(0).dtype)
    padded = window.padded(x, outputs, lowest)
    found = np.full((*x.shape[:2], *outputs), lowest, x.dtype)
    places = np.full(found.shape, -1)
    extents = x.shape[2:]
    order = "F" if call.attributes.storage_order else "C"
    numbers = np.arange(prod(extents)).reshape(extents, order=order)[None, None]
    numbers = window.padded(numbers, outputs, -1)
    for _, region in window.slices(outputs):
        tap, number = padded[:, :, *region], numbers[:, :, *region]
        # The lowest number is found where nothing else is, but never in the padding.
        better = (found < tap) | ((places < 0) & (number >= 0) & (found == tap))
        found = np.where(better, tap, found)
        places = np.where(better, number, places)
    places = np.maximum(places, 0)
    images = np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *(1,) * len(extents))
    return (found, places + images * prod(extents))[: max(1, call.outputs)]


# --- AveragePool ----------------------------------------------------------------------------


def _count(window: Window, axis: int, point: Expr, extent: int, output: int, pad: bool) -> Expr:
    """How many taps of an axis count at an output point."""
    taps, dilation = window.kernel[axis], window.dilations[axis]
    begin, end = window.begins[axis], window.ends[axis]
    # Coordinates run from the first tap that may count: of the padding or of the input.
    low, high = (-begin, extent + end) if pad else (0, extent)
    last = (output - 1) * window.strides[axis] - begin
    start = add(mul(point, window.strides[axis]), -begin)
    stop: Expr = const(taps, DType.I64)
    if last + window.spans[axis] > high:
        reach = binary("sub", high + dilation - 1, start)
        stop = binary("min", stop, binary("floordiv", reach, dilation))
    if -begin >= low:
        return stop
    skipped = binary("floordiv", binary("sub", low + dilation - 1, start), dilation)
    return binary("sub", stop, binary("max", skipped, 0))


def _define_average_pool(call: Call) -> tuple[Compute, ...]:
    x = call.type(0)
    pool, window = _pool(call), pool_window(call)
    exact = accumulator(x.dtype)
    inside = guarded(pool.conditions, widened(pool.load, x.dtype), const(0, exact))
    extents = x.dims[2:]
    outputs = window.outputs(extents)
    pad = bool(call.attributes.count_include_pad)
    counts = [
        _count(window, axis, point, extents[axis], outputs[axis], pad)
        for axis, point in enumerate(variables(pool.axes[2:]))
    ]
    value = binary("div", total("sum", pool.taps, inside), _divisor(counts, exact))
    return (Compute(pool.axes, narrowed(value, x.dtype)),)


def _divisor(counts: Sequence[Expr], dtype: DType) -> Expr:
    """The product of counts as a number of ``dtype``; a literal if all are."""
    fixed = prod(int(count.value) for count in counts if isinstance(count, Const))
    moving = [count for count in counts if not isinstance(count, Const)]
    if not moving:
        return const(fixed, dtype)
    return cast(dtype, mul(reduce(mul, moving), fixed))


def _reference_average_pool(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    window, dtype = pool_window(call), call.type(0).dtype
    outputs = window.outputs(x.shape[2:])
    exact = accumulator(dtype).numpy
    padded = window.padded(x.astype(exact), outputs, 0)
    # What counts is 1: the input, and the padding where it is included.
    ones = np.ones((1, 1, *x.shape[2:]), exact)
    if call.attributes.count_include_pad:
        pairs = zip(window.begins, window.ends, strict=True)
        ones = np.pad(ones, [(0, 0), (0, 0), *pairs], constant_values=1)
        pairs = zip(padded.shape, ones.shape, strict=True)
        beyond = [(0, max(0, need - have)) for need, have in pairs]
        ones = np.pad(ones, [(0, 0), (0, 0), *beyond[2:]])
    else:
        ones = window.padded(ones, outputs, 0)
    sums = np.zeros((*x.shape[:2], *outputs), exact)
    counts = np.zeros((1, 1, *outputs), exact)
    for _, region in window.slices(outputs):
        sums += padded[:, :, *region]
        counts += ones[:, :, *region]
    return ((sums / counts).astype(dtype.numpy),)


# --- integers -------------------------------------------------------------------------------


def _infer_integer_pool(call: Call) -> tuple[TensorType, ...]:
    if call.type(0).dtype not in (DType.I8, DType.U8, DType.I16):
        raise call.error("input must be of i8, u8 or i16")
    return _infer_pool(call)


def _define_integer_pool(call: Call) -> tuple[Compute, ...]:
    x, sums = call.type(0), DType.I32
    pool, window = _pool(call), pool_window(call)
    extents = x.dims[2:]
    outputs = window.outputs(extents)
    counts = [
        _count(window, axis, point, extents[axis], outputs[axis], False)
        for axis, point in enumerate(variables(pool.axes[2:]))
    ]
    count, none = _divisor(counts, sums), const(0, sums)
    value = total("sum", pool.taps, guarded(pool.conditions, cast(sums, pool.load), none))
    half = binary("div", count, const(2, sums))
    moved = select(binary("gt", value, none), half, unary("neg", half))
    return (Compute(pool.axes, cast(x.dtype, binary("div", binary("add", value, moved), count))),)


def _reference_integer_pool(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    window = pool_window(call)
    outputs = window.outputs(x.shape[2:])
    padded = window.padded(x.astype(np.int32), outputs, 0)
    ones = window.padded(np.ones((1, 1, *x.shape[2:]), np.int32), outputs, 0)
    regions = [region for _, region in window.slices(outputs)]
    sums = sum((padded[:, :, *each] for each in regions), np.zeros((), np.int32))
    count = sum((ones[:, :, *each] for each in regions), np.zeros((), np.int32))
    away = np.sign(sums) * ((np.abs(sums) + count // 2) // count)
    return (np.broadcast_to(away, (*x.shape[:2], *outputs)).astype(x.dtype),)


# --- LpPool ---------------------------------------------------------------------------------


def power_sum(value: Expr, p: int, dtype: DType, sum_up: Callable[[Expr], Expr]) -> Expr:
    """The ``p``-norm of what ``sum_up`` sums."""
    if p == 1:
        return sum_up(unary("abs", value))
    if p == 2:
        return unary("sqrt", sum_up(binary("mul", value, value)))
    powers = sum_up(binary("pow", unary("abs", value), const(p, dtype)))
    return binary("pow", powers, const(1 / p, dtype))


def check_norm(call: Call) -> None:
    """``p`` makes a norm."""
    if call.attributes.p < 1:
        raise call.error("p must be at least 1", got=str(call.attributes.p))


def _infer_average_pool(call: Call) -> tuple[TensorType, ...]:
    check_float(call)
    return _infer_pool(call)


def _infer_lp_pool(call: Call) -> tuple[TensorType, ...]:
    check_float(call)
    check_norm(call)
    return _infer_pool(call)


def _define_lp_pool(call: Call) -> tuple[Compute, ...]:
    x, pool = call.type(0), _pool(call)
    exact = accumulator(x.dtype)
    inside = guarded(pool.conditions, widened(pool.load, x.dtype), const(0, exact))
    value = power_sum(inside, call.attributes.p, exact, lambda each: total("sum", pool.taps, each))
    return (Compute(pool.axes, narrowed(value, x.dtype)),)


def norm(sums: np.ndarray, p: int) -> np.ndarray:
    """The root of sums of ``p``-th powers."""
    return np.sqrt(sums) if p == 2 else sums ** sums.dtype.type(1 / p)


def _reference_lp_pool(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    window, dtype, p = pool_window(call), call.type(0).dtype, call.attributes.p
    outputs = window.outputs(x.shape[2:])
    exact = accumulator(dtype).numpy
    powers = np.abs(window.padded(x.astype(exact), outputs, 0)) ** p
    sums = np.zeros((*x.shape[:2], *outputs), exact)
    for _, region in window.slices(outputs):
        sums += powers[:, :, *region]
    return (norm(sums, p).astype(dtype.numpy),)


X = (Param("x", role="image"),)

OPS: tuple[Op, ...] = (
    Op(
        name="MaxPool",
        inputs=X,
        outputs=(Param("y"), Param("indices", optional=True)),
        infer=_infer_max_pool,
        reference=_reference_max_pool,
        compute=Define(_define_max_pool),
        attributes=MaxPoolAttributes,
        implied=implied_window(),
        doc="The largest element of each window, and its number in the whole input; NaN is passed "
        "over.",
    ),
    Op(
        name="AveragePool",
        inputs=X,
        infer=_infer_average_pool,
        reference=_reference_average_pool,
        compute=Define(_define_average_pool),
        attributes=AveragePoolAttributes,
        implied=implied_window(),
        doc="The mean of each window, over the input alone or over the padding too.",
    ),
    Op(
        name="IntegerAveragePool",
        inputs=X,
        infer=_infer_integer_pool,
        reference=_reference_integer_pool,
        compute=Define(_define_integer_pool),
        attributes=PoolAttributes,
        implied=implied_window(),
        grad=NoGrad("integers have no derivative"),
        domain=DOMAIN,
        rounding="litert",
        doc="The mean of each window of integers, over the input alone; halves away from zero.",
    ),
    Op(
        name="LpPool",
        inputs=X,
        infer=_infer_lp_pool,
        reference=_reference_lp_pool,
        compute=Define(_define_lp_pool),
        attributes=LpPoolAttributes,
        implied=implied_window(),
        doc="The p-norm of each window.",
    ),
)
