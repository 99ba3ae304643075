"""Padding and cropping."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import Dim, TensorType
from weft.loops.definition import Compute
from weft.loops.guards import conjunction
from weft.loops.nodes import Expr
from weft.ops.expr import add, axes, binary, clamp, const, index, select, variables
from weft.ops.record import Call, Define, Op, Param
from weft.ops.support import axes_of, known
from weft.records import dataclass

MODES = ("constant", "edge", "reflect", "wrap")


@dataclass(frozen=True, slots=True)
class PadAttributes(Attributes):
    """``pads``: before every axis, then after every axis; negative ones crop (first).

    ``value`` fills in mode ``constant`` unless there is a second input.
    """

    pads: tuple[int, ...]
    mode: str = "constant"
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class CenterCropPadAttributes(Attributes):
    """``shape`` wanted along ``axes`` (``None``: all)."""

    shape: tuple[int, ...]
    axes: tuple[int, ...] | None = None


def pairs(pads: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Pads before and after for each axis."""
    rank = len(pads) // 2
    return tuple(zip(pads[:rank], pads[rank:], strict=True))


def _padded(call: Call, pads: tuple[tuple[int, int], ...]) -> TensorType:
    source = call.type(0)
    shape: list[Dim] = []
    for dim, (before, after) in zip(source.shape, pads, strict=True):
        if before == after == 0:
            shape.append(dim)
            continue
        length = known(call, dim) + before + after
        if length < 0:
            raise call.error(f"pads must leave 0 or more of {dim}", got=f"{before} and {after}")
        shape.append(length)
    return TensorType(source.dtype, tuple(shape))


def _infer_pad(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    asked: PadAttributes = call.attributes
    if len(asked.pads) != 2 * len(source.shape):
        raise call.error(
            "pads must name two numbers for each axis", got=f"{source}, pads {list(asked.pads)}"
        )
    if asked.mode not in MODES:
        raise call.error(f"mode must be one of {', '.join(MODES)}", got=repr(asked.mode))
    if call.has(1):
        fill = call.type(1)
        if fill.dtype != source.dtype or not fill.is_static or fill.size != 1:
            raise call.error("constant_value must be one element of the input's type")
    found = _padded(call, pairs(asked.pads))
    for dim, both in zip(source.shape, pairs(asked.pads), strict=True):
        kept = known(call, dim) + sum(min(0, each) for each in both) if any(both) else 1
        if asked.mode != "constant" and kept <= 0 and max(both) > 0:
            got = f"{source}, pads {list(asked.pads)}"
            raise call.error(f"mode {asked.mode} needs an element to repeat", got=got)
    return (found,)


def _fold(mode: str, place: Expr, extent: int, before: int, after: int) -> Expr:
    """Where a place left of 0 or right of ``extent`` is read; all inside."""
    last = extent - 1
    if mode == "edge" or last == 0:
        return clamp(place, 0, last)
    if mode == "wrap":
        return binary("mod", place, extent)
    if max(before, after) > last:
        turned = binary("mod", place, 2 * last)
    else:
        turned = select(binary("lt", place, 0), binary("sub", 0, place), place)
    mirrored = binary("sub", 2 * last, turned)
    return clamp(select(binary("gt", turned, last), mirrored, turned), 0, last)


def _define_padded(call: Call, pads: tuple[tuple[int, int], ...], mode: str, fill: Expr) -> Compute:
    ranges = axes(_padded(call, pads).dims)
    point = variables(ranges)
    where: list[Expr] = []
    guards: list[Expr] = []
    for at, extent, (before, after) in zip(point, call.type(0).dims, pads, strict=True):
        # What is cropped is gone: the rest starts at `low` and has `left` elements.
        low, left = max(0, -before), extent + min(before, 0) + min(after, 0)
        front, back = max(before, 0), max(after, 0)
        place = add(at, -front)
        if mode != "constant" and (front or back):
            place = _fold(mode, place, left, front, back)
        else:
            guards += [binary("le", 0, place)] * (front > 0)
            guards += [binary("lt", place, left)] * (back > 0)
        where.append(add(place, low))
    x = call.load(0, *where)
    return Compute(ranges, select(conjunction(guards), x, fill) if guards else x)


def _define_pad(call: Call) -> tuple[Compute, ...]:
    asked: PadAttributes = call.attributes
    if call.has(1):
        fill: Expr = call.load(1, *([index(0)] * len(call.type(1).shape)))
    else:
        fill = const(asked.value, call.type(0).dtype)
    return (_define_padded(call, pairs(asked.pads), asked.mode, fill),)


def _reference_pad(
    call: Call, x: np.ndarray, fill: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    asked: PadAttributes = call.attributes
    both = pairs(asked.pads)
    kept = tuple(
        slice(max(0, -before), max(0, extent - max(0, -after)))
        for extent, (before, after) in zip(x.shape, both, strict=True)
    )
    widths = [(max(before, 0), max(after, 0)) for before, after in both]
    if asked.mode == "constant":
        value = np.array(asked.value).astype(x.dtype) if fill is None else fill.reshape(())
        y = np.full([n + sum(each) for n, each in zip(x.shape, both, strict=True)], value)
        if x[kept].size:  # one end may remove all, and the other one add more
            ends = zip(kept, both, strict=True)
            there = tuple(slice(k.start + before, k.stop + before) for k, (before, _) in ends)
            y[there] = x[kept]
    else:
        mode: Any = asked.mode
        y = np.pad(x[kept], widths, mode)
    return (y,)


def _centered(call: Call) -> tuple[tuple[int, int], ...]:
    """The pads of a CenterCropPad; what is odd goes to the end (or is kept at the start)."""
    source = call.type(0)
    asked: CenterCropPadAttributes = call.attributes
    rank = len(source.shape)
    chosen = axes_of(call, range(rank) if asked.axes is None else asked.axes, rank)
    if len(chosen) != len(asked.shape) or min(asked.shape, default=0) < 0:
        raise call.error(
            "shape must name a size of 0 or more for each axis",
            got=f"{source}, shape {list(asked.shape)}, axes {list(chosen)}",
        )
    found = [(0, 0)] * rank
    for axis, wish in zip(chosen, asked.shape, strict=True):
        more = wish - known(call, source.shape[axis])
        before = more // 2 if more >= 0 else -(-more // 2)
        found[axis] = (before, more - before)
    return tuple(found)


def _reference_center(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    asked: CenterCropPadAttributes = call.attributes
    chosen = range(x.ndim) if asked.axes is None else asked.axes
    for axis, wish in zip(chosen, asked.shape, strict=True):
        have = x.shape[axis]
        if wish <= have:
            start = (have - wish) // 2
            x = np.take(x, range(start, start + wish), axis)
        else:
            widths = [(0, 0)] * x.ndim
            widths[axis] = ((wish - have) // 2, wish - have - (wish - have) // 2)
            x = np.pad(x, widths)
    return (x,)


def _define_center(call: Call) -> tuple[Compute, ...]:
    fill = const(0, call.type(0).dtype)
    return (_define_padded(call, _centered(call), "constant", fill),)


OPS: tuple[Op, ...] = (
    Op(
        name="Pad",
        inputs=(Param("x"), Param("constant_value", optional=True)),
        infer=_infer_pad,
        reference=_reference_pad,
        compute=Define(_define_pad),
        attributes=PadAttributes,
        doc="Adds elements before and after every axis, or takes some away.",
    ),
    Op(
        name="CenterCropPad",
        infer=lambda call: (_padded(call, _centered(call)),),
        reference=_reference_center,
        compute=Define(_define_center),
        attributes=CenterCropPadAttributes,
        implied={"axes": lambda call: tuple(range(len(call.type(0).shape)))},
        doc="Crops or pads with 0 on both sides to a shape.",
    ),
)
