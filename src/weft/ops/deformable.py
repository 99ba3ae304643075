"""Deformable convolution: the taps of the window are moved by learnt offsets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.ops.accumulate import accumulator, exact, floating, narrowed, widened
from weft.ops.convolution import check_bias, check_same_dtype, conv_shape, conv_window
from weft.ops.expr import (
    add,
    all_of,
    binary,
    cast,
    clamp,
    const,
    inside,
    mul,
    select,
    total,
    unary,
)
from weft.ops.record import Call, Define, NoGrad, Op, Param
from weft.ops.window import Window, names, spatial_axes, tap_axes

X, W, OFFSET, B, MASK = range(5)
"""Positions of the inputs."""


@dataclass(frozen=True, slots=True)
class DeformConvAttributes(Attributes):
    """Of ``DeformConv``: those of ``Conv``, and how many groups of channels share offsets."""

    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    groups: int = 1
    offset_group: int = 1


def _infer(call: Call) -> tuple[TensorType, ...]:
    x, w = floating(call), call.type(W)
    if len(x.shape) != 4:
        raise call.error("input must be [batch, channels, height, width]", got=f"x {x}")
    shape = conv_shape(call, x, w)
    check_same_dtype(call, "x", "w", "offset", "b", "mask")
    check_bias(call, B, w.dims[0], x)
    shared, taps = call.attributes.offset_group, w.dims[2] * w.dims[3]
    if shared < 1 or int(w.dims[1] * call.attributes.groups) % shared:
        raise call.error(f"offset_group={shared} must divide the channels", got=f"x {x}")
    for position, name, count in ((OFFSET, "offset", 2), (MASK, "mask", 1)):
        wanted = (shape[0], shared * taps * count, *shape[2:])
        if call.has(position) and call.type(position).shape != wanted:
            text = ",".join(str(dim) for dim in wanted)
            raise call.error(f"{name} must be [{text}]", got=f"{name} {call.type(position)}")
    return (TensorType(x.dtype, shape),)


# --- definition -----------------------------------------------------------------------------


def _moved(call: Call, window: Window, axis: int, points: tuple[Expr, ...], place: Expr) -> Expr:
    """Where a tap reads along an axis, in the accumulator's type."""
    dtype = call.type(X).dtype
    taps = names(tap_axes(window.kernel))
    fixed = window.positions(points, taps)[axis]
    offset = call.load(OFFSET, Var("n"), add(mul(place, 2), axis), *points)
    return binary("add", cast(accumulator(dtype), fixed), widened(offset, dtype))


def _corner(call: Call, channel: Expr, places: tuple[Expr, ...], corner: tuple[int, ...]) -> Expr:
    """The share of one of the four elements around a fractional place."""
    x = call.type(X)
    wide = accumulator(x.dtype)
    share: Expr | None = None
    conditions: list[Expr] = []
    position: list[Expr] = []
    for place, side, extent in zip(places, corner, x.dims[2:], strict=True):
        low = unary("floor", place)
        fraction = binary("sub", place, low)
        if not side:
            fraction = binary("sub", const(1, wide), fraction)
        share = fraction if share is None else binary("mul", share, fraction)
        at = add(cast(DType.I64, low), side)
        conditions.append(inside(at, extent))
        position.append(clamp(at, 0, extent - 1))
    element = widened(call.load(X, Var("n"), channel, *position), x.dtype)
    assert share is not None
    return select(all_of(conditions), binary("mul", element, share), const(0, wide))


def _define(call: Call) -> tuple[Compute, ...]:
    x, w, a = call.type(X), call.type(W), call.attributes
    window = conv_window(call, w)
    points = spatial_axes(window.outputs(x.dims[2:]))
    taps = tap_axes(window.kernel)
    group = binary("floordiv", Var("c"), w.dims[0] // a.groups)
    channel = add(mul(group, w.dims[1]), Var("k"))
    shared = binary("floordiv", channel, x.dims[1] // a.offset_group)
    i, j = names(taps)
    place = add(mul(add(mul(shared, taps[0].extent), i), taps[1].extent), j)
    moved = tuple(_moved(call, window, axis, names(points), place) for axis in range(2))
    value: Expr | None = None
    for corner in product((0, 1), repeat=2):
        part = _corner(call, channel, moved, corner)
        value = part if value is None else binary("add", value, part)
    assert value is not None
    if call.has(MASK):
        mask = widened(call.load(MASK, Var("n"), place, *names(points)), x.dtype)
        value = binary("mul", value, mask)
    weight = widened(call.load(W, Var("c"), Var("k"), i, j), x.dtype)
    value = total("sum", (Axis("k", w.dims[1]), *taps), binary("mul", value, weight))
    if call.has(B):
        value = binary("add", value, widened(call.load(B, Var("c")), x.dtype))
    axes = (Axis("n", x.dims[0]), Axis("c", w.dims[0]), *points)
    return (Compute(axes, narrowed(value, x.dtype)),)


# --- reference ------------------------------------------------------------------------------


def _sample(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """``x[n, c, h, w]`` at fractional ``(y, z)[n, outputs...]``, zero outside."""
    found = np.zeros((*x.shape[:2], *y.shape[1:]), x.dtype)
    number: np.ndarray = np.arange(x.shape[0])
    number = number.reshape(-1, *(1,) * (y.ndim - 1))
    for down, right in product((0, 1), repeat=2):
        top, left = np.floor(y), np.floor(z)
        share = (y - top if down else 1 - (y - top)) * (z - left if right else 1 - (z - left))
        rows, columns = (top + down).astype(np.int64), (left + right).astype(np.int64)
        height, width = x.shape[2:]
        valid = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        element = x[number, :, np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]
        found += np.moveaxis(element, -1, 1) * (share * valid)[:, None]
    return found


def _reference(
    call: Call,
    x: np.ndarray,
    w: np.ndarray,
    offset: np.ndarray,
    bias: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    a, dtype = call.attributes, x.dtype
    window = conv_window(call, call.type(W))
    outputs = window.outputs(x.shape[2:])
    x, w, offset = exact(x), exact(w), exact(offset)
    taps = list(product(*(range(extent) for extent in window.kernel)))
    moves = offset.reshape(x.shape[0], a.offset_group, len(taps), 2, *outputs)
    shares = np.ones((1, a.offset_group, len(taps), 1, 1), x.dtype)
    if mask is not None:
        shares = exact(mask).reshape(x.shape[0], a.offset_group, len(taps), *outputs)
    size = x.shape[1] // a.offset_group
    columns = np.empty((*x.shape[:2], len(taps), *outputs), x.dtype)
    starts = [
        np.arange(count) * stride - begin
        for count, stride, begin in zip(outputs, window.strides, window.begins, strict=True)
    ]
    for group, (number, (i, j)) in product(range(a.offset_group), enumerate(taps)):
        y = starts[0][:, None] + i * window.dilations[0] + moves[:, group, number, 0]
        z = starts[1][None, :] + j * window.dilations[1] + moves[:, group, number, 1]
        channels = slice(group * size, (group + 1) * size)
        sampled = _sample(x[:, channels], y, z)
        columns[:, channels, number] = sampled * shares[:, group, number][:, None]
    per_group = columns.reshape(x.shape[0], a.groups, -1, *outputs)
    weights = w.reshape(a.groups, w.shape[0] // a.groups, -1)
    value = np.einsum("ngkyx,gok->ngoyx", per_group, weights)
    value = value.reshape(x.shape[0], w.shape[0], *outputs)
    if bias is not None:
        value = value + exact(bias)[:, None, None]
    return (value.astype(dtype),)


OPS: tuple[Op, ...] = (
    Op(
        name="DeformConv",
        inputs=(
            Param("x"),
            Param("w"),
            Param("offset"),
            Param("b", optional=True),
            Param("mask", optional=True),
        ),
        infer=_infer,
        reference=_reference,
        compute=Define(_define),
        grad=NoGrad("gradients come with autodiff"),
        attributes=DeformConvAttributes,
        doc="A convolution whose taps are moved by offsets and read by linear interpolation.",
    ),
)
