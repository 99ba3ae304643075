"""Convolution and transposed convolution.

Spatial attributes have one entry for each spatial axis; ``()`` stands for ones (strides,
dilations), zeros (pads, output padding) and the weight's extents (kernel).  ``pads`` are
all the begins, then all the ends.  ONNX's ``auto_pad`` and ``output_shape`` are expressed
by ``pads``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import Dim, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.ops.accumulate import accumulator, narrowed, widened
from weft.ops.expr import add, binary, cast, const, index, mul, total, variables
from weft.ops.record import Call, Define, Op, Param
from weft.ops.window import (
    Window,
    described,
    guarded,
    implied_window,
    spatial_axes,
    spatial_dims,
    tap_axes,
    window_of,
    window_shape,
)
from weft.records import dataclass

Element: TypeAlias = Callable[[tuple[Expr, ...]], Expr]
"""The value of an operand at an index, as the sum uses it."""


@dataclass(frozen=True, slots=True)
class ConvAttributes(Attributes):
    """Of ``Conv`` and the integer convolutions."""

    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    groups: int = 1


@dataclass(frozen=True, slots=True)
class ConvTransposeAttributes(Attributes):
    """Of ``ConvTranspose``."""

    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    output_padding: tuple[int, ...] = ()
    groups: int = 1


# --- convolution ----------------------------------------------------------------------------


def conv_window(call: Call, w: TensorType) -> Window:
    """The window of a convolution whose attributes are ``ConvAttributes``."""
    a = call.attributes
    kernel = w.dims[2:]
    if a.kernel and tuple(a.kernel) != kernel:
        raise call.error(
            f"kernel is {list(a.kernel)}, weight has {list(kernel)}", got=described(call, "x", "w")
        )
    return window_of(call, kernel, a.strides, a.dilations, a.pads)


def conv_shape(call: Call, x: TensorType, w: TensorType) -> tuple[Dim, ...]:
    """The output's shape of a convolution, or what is wrong with it."""
    groups, got = call.attributes.groups, f"x {x}, w {w}"
    spatial_dims(call, x)
    if len(w.shape) != len(x.shape):
        raise call.error("input and weight must have the same number of dimensions", got=got)
    if not w.is_static:
        raise call.error("the weight's shape must be known", got=got)
    out, per_group = w.dims[:2]
    if groups < 1 or x.shape[1] != per_group * groups:
        raise call.error(
            f"weight has {per_group} input channels per group, input has {x.shape[1]} "
            f"and groups={groups}",
            got=got,
        )
    if out % groups:
        raise call.error(f"groups={groups} must divide the {out} output channels", got=got)
    return window_shape(call, x, out, conv_window(call, w))


def check_bias(call: Call, position: int, channels: int, like: TensorType) -> None:
    """An absent bias, or one number for each output channel."""
    if not call.has(position):
        return
    bias = call.type(position)
    if bias != TensorType(like.dtype, (channels,)):
        raise call.error(f"bias must be {TensorType(like.dtype, (channels,))}", got=f"b {bias}")


def check_same_dtype(call: Call, *names: str) -> None:
    """All present inputs have one element type."""
    if len({type.dtype for type in call.inputs if type is not None}) > 1:
        raise call.error("inputs must have one element type", got=described(call, *names))


def _infer_conv(call: Call) -> tuple[TensorType, ...]:
    x, w = call.type(0), call.type(1)
    shape = conv_shape(call, x, w)
    check_same_dtype(call, "x", "w", "b")
    check_bias(call, 2, w.dims[0], x)
    return (TensorType(x.dtype, shape),)


def conv_compute(
    x: tuple[int, ...],
    w: tuple[int, ...],
    window: Window,
    groups: int,
    *,
    activation: Element,
    weight: Element,
    outside: Expr,
    sums: DType | None = None,
) -> tuple[tuple[Axis, ...], Expr]:
    """The contraction of a convolution, for ``Conv`` and its integer kin.

    Args:
        x: shape of the activation ``[n, c, spatial...]``.
        w: shape of the weight ``[out, c / groups, spatial...]``.
        window: how it slides.
        groups: of channels.
        activation: the left factor at an index of ``x`` that is inside.
        weight: the right factor at an index of ``w``.
        outside: what padding contributes instead of ``activation``.
        sums: the type that products are added in, if it is not theirs.

    Returns:
        The output's axes ``n, c, y, x`` and the sum over ``k, i, j``, without bias.
    """
    outputs = window.outputs(x[2:])
    points, taps = spatial_axes(outputs), tap_axes(window.kernel)
    channel = Var("c")
    reduced, k = _input_channel(w[0] // groups, w[1], groups, channel)
    positions = window.positions(variables(points), variables(taps))
    conditions = window.conditions(positions, x[2:], outputs)
    inside = activation((Var("n"), k, *positions))
    weights = weight((channel, Var("k") if reduced else index(0), *variables(taps)))
    value = binary("mul", guarded(conditions, inside, outside), weights)
    if sums is not None:
        value = cast(sums, value)
    axes = (Axis("n", x[0]), Axis("c", w[0]), *points)
    return axes, total("sum", (*reduced, *taps), value)


def _input_channel(
    multiplier: int, per_group: int, groups: int, channel: Expr
) -> tuple[tuple[Axis, ...], Expr]:
    """The axis reduced over, if any, and the input channel read for an output channel."""
    if groups == 1:
        return (Axis("k", per_group),), Var("k")
    group = channel if multiplier == 1 else binary("floordiv", channel, multiplier)
    if per_group == 1:
        return (), group
    return (Axis("k", per_group),), add(mul(group, per_group), Var("k"))


def _define_conv(call: Call) -> tuple[Compute, ...]:
    x, w = call.type(0), call.type(1)
    exact = accumulator(x.dtype)
    axes, value = conv_compute(
        x.dims,
        w.dims,
        conv_window(call, w),
        call.attributes.groups,
        activation=lambda at: widened(call.load(0, *at), x.dtype),
        weight=lambda at: widened(call.load(1, *at), w.dtype),
        outside=const(0, exact),
    )
    return (Compute(axes, _with_bias(call, value)),)


def _with_bias(call: Call, value: Expr) -> Expr:
    """Adds input 2 along ``c`` outside of the sum, and rounds to the output's type."""
    x = call.type(0)
    if call.has(2):
        value = binary("add", value, widened(call.load(2, Var("c")), x.dtype))
    return narrowed(value, x.dtype)


def convolve(x: np.ndarray, w: np.ndarray, window: Window, groups: int) -> np.ndarray:
    """A convolution without bias in the arrays' type (NumPy, for references)."""
    outputs = window.outputs(x.shape[2:])
    x = window.padded(x, outputs, 0)
    per_group = w.shape[1]
    if per_group == 1:
        return _convolve_depthwise(x, w, window, outputs)
    # im2col, one group at a time: [n, k, taps..., outputs...] against [out, k, taps...].
    results: list[np.ndarray] = []
    for group in range(groups):
        part = x[:, group * per_group : (group + 1) * per_group]
        step = w.shape[0] // groups
        terms = per_group * prod(window.kernel)  # not -1: a batch of 0 would leave it open
        weights = w[group * step : (group + 1) * step].reshape(step, terms)
        columns = np.empty((*part.shape[:2], prod(window.kernel), *outputs), x.dtype)
        for place, (_, region) in enumerate(window.slices(outputs)):
            columns[:, :, place] = part[:, :, *region]
        flat = columns.reshape(x.shape[0], terms, prod(outputs))
        results.append(np.matmul(weights, flat).reshape(x.shape[0], step, *outputs))
    return np.concatenate(results, axis=1)


def _convolve_depthwise(
    x: np.ndarray, w: np.ndarray, window: Window, outputs: tuple[int, ...]
) -> np.ndarray:
    """One input channel for each output channel: no sum over channels, so tap by tap."""
    wide = x if x.shape[1] == w.shape[0] else np.repeat(x, w.shape[0] // x.shape[1], axis=1)
    result = np.zeros((x.shape[0], w.shape[0], *outputs), x.dtype)
    for tap, region in window.slices(outputs):
        scale = w[:, 0, *tap].reshape(-1, *(1,) * len(outputs))
        result += wide[:, :, *region] * scale
    return result


def _finish(call: Call, value: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    if bias is not None:
        value = value + bias.astype(value.dtype).reshape(-1, *(1,) * (value.ndim - 2))
    return value.astype(call.type(0).dtype.numpy)


def _reference_conv(
    call: Call, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    exact = accumulator(call.type(0).dtype).numpy
    window = conv_window(call, call.type(1))
    value = convolve(x.astype(exact), w.astype(exact), window, call.attributes.groups)
    return (_finish(call, value, bias),)


# --- transposed convolution -----------------------------------------------------------------


def _transpose_window(call: Call) -> tuple[Window, tuple[int, ...]]:
    """The window that slides over the *output*, and the output's spatial sizes."""
    a, x, w = call.attributes, call.type(0), call.type(1)
    kernel = w.dims[2:]
    if a.kernel and tuple(a.kernel) != kernel:
        raise call.error(
            f"kernel is {list(a.kernel)}, weight has {list(kernel)}", got=described(call, "x", "w")
        )
    window = window_of(call, kernel, a.strides, a.dilations, a.pads)
    extra = a.output_padding or (0,) * len(kernel)
    if len(extra) != len(kernel):
        raise call.error(f"output_padding must have {len(kernel)} numbers", got=str(list(extra)))
    sizes = tuple(
        (extent - 1) * window.strides[axis]
        + window.spans[axis]
        + extra[axis]
        - window.begins[axis]
        - window.ends[axis]
        for axis, extent in enumerate(spatial_dims(call, x))
    )
    return window, sizes


def _infer_conv_transpose(call: Call) -> tuple[TensorType, ...]:
    x, w, groups = call.type(0), call.type(1), call.attributes.groups
    got = described(call, "x", "w")
    spatial_dims(call, x)
    if len(w.shape) != len(x.shape) or not w.is_static:
        raise call.error(
            "input and weight must have the same number of dimensions, the weight's known", got=got
        )
    check_same_dtype(call, "x", "w", "b")
    if x.shape[1] != w.dims[0]:
        raise call.error(f"weight has {w.dims[0]} input channels, input has {x.shape[1]}", got=got)
    if groups < 1 or w.dims[0] % groups:
        raise call.error(f"groups={groups} must divide the {w.dims[0]} input channels", got=got)
    channels = w.dims[1] * groups
    check_bias(call, 2, channels, x)
    _, sizes = _transpose_window(call)
    if min(sizes) < 1:
        raise call.error(f"output would have the spatial sizes {list(sizes)}", got=got)
    return (TensorType(x.dtype, (x.shape[0], channels, *sizes)),)


def _transposed_axis(
    window: Window, axis: int, point: Expr, extent: int, size: int
) -> tuple[Axis, Expr, Expr, list[Expr]]:
    """One spatial axis of the gather form of a transposed convolution.

    The taps that meet an output ``y`` are those with ``(y + begin - tap * dilation)``
    divisible by the stride.  Without dilation they are ``phase + stride * t``, so only
    they are visited; with both stride and dilation all are, and tested.

    Returns:
        The reduced axis, the tap, the input coordinate, and what must hold.
    """
    kernel, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
    begin = window.begins[axis]
    name = tap_axes(window.kernel)[axis].var
    moved = add(point, begin)
    conditions: list[Expr] = []
    if stride == 1 or dilation > 1:
        taps = Axis(name, kernel)
        tap: Expr = Var(name)
        reach = binary("sub", moved, mul(tap, dilation))
        if stride > 1:
            conditions.append(binary("eq", binary("mod", reach, stride), 0))
        position = reach if stride == 1 else binary("floordiv", reach, stride)
        low, high = begin - (kernel - 1) * dilation, size - 1 + begin
    else:
        taps = Axis(name, -(-kernel // stride))
        tap = add(binary("mod", moved, stride), mul(Var(name), stride))
        if kernel % stride:
            conditions.append(binary("lt", tap, kernel))
        position = binary("sub", binary("floordiv", moved, stride), Var(name))
        low, high = begin - (taps.extent - 1) * stride, size - 1 + begin
    if low < 0:
        conditions.append(binary("le", 0, position))
    if high // stride >= extent:
        conditions.append(binary("lt", position, extent))
    return taps, tap, position, conditions


def _define_conv_transpose(call: Call) -> tuple[Compute, ...]:
    x, w, groups = call.type(0), call.type(1), call.attributes.groups
    exact = accumulator(x.dtype)
    window, sizes = _transpose_window(call)
    points = spatial_axes(sizes)
    parts = [
        _transposed_axis(window, axis, point, x.dims[2 + axis], sizes[axis])
        for axis, point in enumerate(variables(points))
    ]
    per_group, channels = w.dims[0] // groups, w.dims[1]
    channel: Expr = Var("c")
    k: Expr = Var("k")
    if groups > 1:
        k = add(mul(binary("floordiv", channel, channels), per_group), k)
        channel = binary("mod", channel, channels)
    conditions = [condition for *_, found in parts for condition in found]
    inside = widened(call.load(0, Var("n"), k, *(part[2] for part in parts)), x.dtype)
    weight = widened(call.load(1, k, channel, *(part[1] for part in parts)), w.dtype)
    # A tap past the kernel is out of the weight's bounds too, so the guard is around both.
    value = guarded(conditions, binary("mul", inside, weight), const(0, exact))
    reduced = (Axis("k", per_group), *(part[0] for part in parts))
    axes = (Axis("n", x.dims[0]), Axis("c", channels * groups), *points)
    return (Compute(axes, _with_bias(call, total("sum", reduced, value))),)


def _reference_conv_transpose(
    call: Call, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    exact = accumulator(call.type(0).dtype).numpy
    groups = call.attributes.groups
    window, sizes = _transpose_window(call)
    x, w = x.astype(exact), w.astype(exact)
    per_group, channels = w.shape[0] // groups, w.shape[1]
    # Scatter into the uncropped output, then crop (or extend) by the pads.
    whole = tuple(
        max((extent - 1) * stride + span, size + begin)
        for extent, stride, span, size, begin in zip(
            x.shape[2:], window.strides, window.spans, sizes, window.begins, strict=True
        )
    )
    result = np.zeros((x.shape[0], channels * groups, *whole), exact)
    for tap, region in window.slices(x.shape[2:]):
        for group in range(groups):
            part = slice(group * per_group, (group + 1) * per_group)
            product = np.tensordot(w[part, :, *tap], x[:, part], axes=((0,), (1,)))
            to = slice(group * channels, (group + 1) * channels)
            result[:, to, *region] += np.moveaxis(product, 0, 1)
    crop = tuple(
        slice(max(0, begin), max(0, begin) + size - max(0, -begin))
        for begin, size in zip(window.begins, sizes, strict=True)
    )
    result = result[:, :, *crop]
    widths = [(0, 0), (0, 0), *((max(0, -begin), 0) for begin in window.begins)]
    return (_finish(call, np.pad(result, widths), bias),)


INPUTS = (
    Param("x", role="image"),
    Param("w", role="filter"),
    Param("b", optional=True, role="bias"),
)

OPS: tuple[Op, ...] = (
    Op(
        name="Conv",
        inputs=INPUTS,
        infer=_infer_conv,
        reference=_reference_conv,
        compute=Define(_define_conv),
        attributes=ConvAttributes,
        implied=implied_window(weight=1),
        doc="Sums windows of all channels of a group times a weight, for any number of axes.",
    ),
    Op(
        name="ConvTranspose",
        inputs=INPUTS,
        infer=_infer_conv_transpose,
        reference=_reference_conv_transpose,
        compute=Define(_define_conv_transpose),
        attributes=ConvTransposeAttributes,
        implied={
            **implied_window(weight=1),
            "output_padding": lambda call: (0,) * (len(call.type(0).shape) - 2),
        },
        doc="The transpose of a convolution: every input element adds a scaled window.",
    ),
)
