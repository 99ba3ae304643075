"""Parts of tensors, and padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, Kind, litert

_REFLECT, _SYMMETRIC = 0, 1
_MOST = 1 << 22  # places that are listed


@litert("SLICE", kind=Kind.STORED)
def slice_(g: Emit, x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    begins, sizes = g.ints(begin, "the begin"), g.ints(size, "the size")
    if len(begins) != x.rank or len(sizes) != x.rank:
        g.refuse(f"a begin and a size for each axis of {x.type} are needed")
    ends: list[int] = []
    for extent, first, count in zip(x.shape, begins, sizes, strict=True):
        last = extent if count == -1 else first + count
        if not 0 <= first <= last <= extent:
            g.refuse(f"{first} to {last} must lie within 0 to {extent}")
        ends.append(last)
    if not x.rank or (tuple(ends) == x.shape and not any(begins)):
        return g("Identity", x)
    return g("Slice", x, starts=begins, ends=tuple(ends))


@litert("STRIDED_SLICE", kind=Kind.STORED)
def strided_slice(
    g: Emit,
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    strides: Tensor,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    offset: bool = False,
) -> Tensor:
    begins, ends = g.ints(begin, "the begin"), g.ints(end, "the end")
    steps = g.ints(strides, "the strides")
    if not len(begins) == len(ends) == len(steps) or 0 in steps:
        g.refuse("begin, end and strides must be as many, and no stride 0")
    marks = {"...": ellipsis_mask, "new": new_axis_mask, "shrink": shrink_axis_mask}
    kinds = _kinds(len(begins), marks)
    taken = sum(kind not in ("...", "new") for kind in kinds)
    if taken > x.rank or kinds.count("...") != 1:
        g.refuse(f"{taken} axes and one ellipsis at most must fit {x.type}")
    parts: list[tuple[int, int, int]] = []
    shape: list[int] = []
    for at, kind in enumerate(kinds):
        if kind == "new":
            shape.append(1)
        elif kind == "...":
            for _ in range(x.rank - taken):
                parts.append((0, x.shape[len(parts)], 1))
                shape.append(parts[-1][1])
        elif kind == "shrink":
            parts.append(_single(g, begins[at], x.shape[len(parts)]))
        else:
            first = None if begin_mask >> at & 1 else begins[at]
            last = None if end_mask >> at & 1 else ends[at] + begins[at] * offset
            parts.append(slice(first, last, steps[at]).indices(x.shape[len(parts)]))
            shape.append(len(range(*parts[-1])))
    return _stepped(g, x, parts, shape)


def _kinds(count: int, marks: Mapping[str, int]) -> list[str]:
    """What each entry of a slice stands for; an ellipsis at the end if there is none."""
    found = [
        next((kind for kind, mask in marks.items() if mask >> at & 1), "") for at in range(count)
    ]
    return found if "..." in found else [*found, "..."]


def _single(g: Emit, index: int, extent: int) -> tuple[int, int, int]:
    """One place along an axis."""
    place = index + extent * (index < 0)
    if not 0 <= place < extent:
        g.refuse(f"index {index} must lie within an axis of {extent}")
    return place, place + 1, 1


def _stepped(
    g: Emit, x: Tensor, parts: Sequence[tuple[int, int, int]], shape: Sequence[int]
) -> Tensor:
    """A slice by begins, ends and steps as Python's ``range`` takes them."""
    axes = [at for at, part in enumerate(parts) if part != (0, x.shape[at], 1)]
    if axes:
        starts, ends, steps = zip(*(parts[at] for at in axes), strict=True)
        # A negative end would count from the back.
        ends = [-x.shape[at] - 1 if end < 0 else end for at, end in zip(axes, ends, strict=True)]
        x = g("Slice", x, starts=starts, ends=tuple(ends), axes=tuple(axes), steps=steps)
    made = g.reshape(x, shape)
    return g("Identity", x) if made is x and not axes else made


@litert("SPLIT", kind=Kind.STORED)
def split(g: Emit, axis: Tensor, x: Tensor, *, num_splits: int) -> Sequence[Tensor]:
    (at,) = g.ints(axis, "the axis")
    at = g.axis(x, at)
    if num_splits < 1 or num_splits != len(g.given) or not x.rank or x.shape[at] % num_splits:
        g.refuse(f"{num_splits} parts must divide axis {at} of {x.type}")
    return _parts(g, x, at, (x.shape[at] // num_splits,) * num_splits)


@litert("SPLIT_V", kind=Kind.STORED)
def split_v(
    g: Emit, x: Tensor, sizes: Tensor, axis: Tensor, *, num_splits: int
) -> Sequence[Tensor]:
    (at,) = g.ints(axis, "the axis")
    at = g.axis(x, at)
    parts = list(g.ints(sizes, "the sizes"))
    if not x.rank or len(parts) != num_splits or num_splits != len(g.given):
        g.refuse(f"{num_splits} parts must have sizes")
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = x.shape[at] - sum(parts) - 1
    if min(parts, default=-1) < 0 or sum(parts) != x.shape[at]:
        g.refuse(f"sizes {parts} must add up to axis {at} of {x.type}")
    return _parts(g, x, at, tuple(parts))


def _parts(g: Emit, x: Tensor, axis: int, sizes: tuple[int, ...]) -> Sequence[Tensor]:
    if len(sizes) == 1:
        return (g("Identity", x),)
    return g.several("Split", x, outputs=len(sizes), axis=axis, split=sizes)


# --- padding ----------------------------------------------------------------------------------


def _pads(g: Emit, x: Tensor, paddings: Tensor) -> tuple[int, ...]:
    """Elements before every axis, then after every axis."""
    flat = g.ints(paddings, "the paddings")
    if len(flat) != 2 * x.rank or min(flat, default=0) < 0:
        g.refuse(f"paddings {list(flat)} must be two for each axis of {x.type}")
    return (*flat[::2], *flat[1::2])


@litert("PAD", kind=Kind.STORED)
def pad(g: Emit, x: Tensor, paddings: Tensor) -> Tensor:
    pads = _pads(g, x, paddings)
    return g("Pad", x, g.stored_zero(x), pads=pads) if any(pads) else g("Identity", x)


@litert("PADV2", kind=Kind.STORED)
def padv2(g: Emit, x: Tensor, paddings: Tensor, value: Tensor) -> Tensor:
    pads = _pads(g, x, paddings)
    return g("Pad", x, g.reshape(value, ()), pads=pads) if any(pads) else g("Identity", x)


@litert("MIRROR_PAD", kind=Kind.STORED)
def mirror_pad(g: Emit, x: Tensor, paddings: Tensor, *, mode: int) -> Tensor:
    pads = _pads(g, x, paddings)
    if mode not in (_REFLECT, _SYMMETRIC):
        g.refuse(f"mode {mode} is not supported")
    for axis, size in enumerate(x.shape):
        before, after = pads[axis], pads[x.rank + axis]
        if max(before, after) > size - (mode == _REFLECT):
            g.refuse(f"paddings {before} and {after} must not exceed {x.type}")
    if mode == _REFLECT:
        return g("Pad", x, pads=pads, mode="reflect") if any(pads) else g("Identity", x)
    for axis, size in enumerate(x.shape):
        before, after = pads[axis], pads[x.rank + axis]
        if before or after:
            if before + size + after > _MOST:
                g.refuse(f"an axis of {size} is too long")
            places = np.pad(np.arange(size), (before, after), "symmetric")
            x = g("Gather", x, g.constant(places), axis=axis)
    return x
