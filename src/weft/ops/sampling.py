"""Reading between the elements, at computed coordinates: grids, deformable convolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.guards import conjunction
from weft.loops.nodes import Expr
from weft.loops.walk import dtype_of
from weft.ops.accumulate import accumulator
from weft.ops.elementwise import like, plus, times
from weft.ops.expr import (
    add,
    axes,
    binary,
    cast,
    clamp,
    index,
    inside,
    select,
    total,
    unary,
    variables,
)
from weft.ops.record import Call, Define, Op, Param
from weft.ops.support import each_point, known
from weft.records import dataclass

FAR = 1e6
"""Coordinates are held within this: beyond it lies nothing, and integers stay exact."""


@dataclass(frozen=True, slots=True)
class GridSampleAttributes(Attributes):
    """``mode`` nearest, linear or cubic (or bilinear, bicubic); ``padding_mode`` zeros,
    border or reflection; ``align_corners``: -1 and 1 are centres, not edges, of elements.
    """

    mode: str = "linear"
    padding_mode: str = "zeros"
    align_corners: int = 0


@dataclass(frozen=True, slots=True)
class AffineGridAttributes(Attributes):
    """``size`` of the sampled array, batch and channels in front."""

    size: tuple[int, ...]
    align_corners: int = 0


# --- arithmetic on coordinates --------------------------------------------------------------


def bounded(x: Expr) -> Expr:
    """A coordinate without infinities; what is not a number becomes far outside."""
    low, high = like(x, -FAR), like(x, FAR)
    return binary("min", binary("max", low, x), high)


def linear_weight(distance: Expr) -> Expr:
    """``max(0, 1 - |d|)`` for distances of at most 1."""
    return binary("sub", like(distance, 1), unary("abs", distance))


def cubic_weight(distance: Expr) -> Expr:
    """Keys' kernel with a = -0.75 for distances of at most 2."""
    x = unary("abs", distance)
    square = binary("mul", x, x)
    near = plus(binary("mul", plus(times(x, 1.25), -2.25), square), 1)
    far = plus(binary("mul", plus(binary("mul", plus(times(x, -0.75), 3.75), x), -6), x), 3)
    return select(binary("le", x, like(x, 1)), near, far)


WEIGHTS: dict[str, tuple[int, Callable[[Expr], Expr]]] = {
    "nearest": (1, lambda distance: like(distance, 1)),
    "linear": (2, linear_weight),
    "cubic": (4, cubic_weight),
}
"""Taps along each axis, and the weight by distance."""
ALIASES = {"bilinear": "linear", "bicubic": "cubic"}
PADDINGS = ("zeros", "border", "reflection")


def interpolated(
    coordinates: Sequence[Expr],
    extents: Sequence[int],
    mode: str,
    read: Callable[[tuple[Expr, ...]], Expr],
    places: Callable[[Expr, int], Expr] | None = None,
) -> Expr:
    """The weighted sum of the elements around a point.

    Args:
        coordinates: of the point, in elements.
        extents: of the array along the same axes.
        mode: a key of ``WEIGHTS``.
        read: the element at given places, in the type of the result.
        places: brings a place inside the array; ``None``: what is outside counts 0.
    """
    count, weight = WEIGHTS[mode]
    taps = axes((count,) * len(extents) if count > 1 else (), "tap")
    offsets = variables(taps) or (index(0),) * len(extents)
    where: list[Expr] = []
    guards: list[Expr] = []
    weights: list[Expr] = []
    for x, extent, tap in zip(coordinates, extents, offsets, strict=True):
        base = unary("floor", x)
        moved = add(tap, 1 - max(1, count // 2))
        place = binary("add", cast(DType.I64, base), moved)
        weights.append(weight(binary("sub", x, binary("add", base, cast(dtype_of(x), moved)))))
        if places is None:
            guards.append(inside(place, extent))
            where.append(clamp(place, 0, extent - 1))
        else:
            where.append(places(place, extent))
    value = read(tuple(where))
    if guards:
        value = select(conjunction(guards), value, like(value, 0))
    for each in weights if taps else ():
        value = binary("mul", value, cast(dtype_of(value), each))
    return total("sum", taps, value)


# --- grid sample --------------------------------------------------------------------------


def _mode(call: Call) -> str:
    asked: GridSampleAttributes = call.attributes
    return ALIASES.get(asked.mode, asked.mode)


def _infer_grid_sample(call: Call) -> tuple[TensorType, ...]:
    x, grid = call.type(0), call.type(1)
    if _mode(call) not in WEIGHTS or call.attributes.padding_mode not in PADDINGS:
        raise call.error(
            "mode must be nearest, linear or cubic and padding_mode zeros, border or reflection",
            got=f"{call.attributes.mode!r} and {call.attributes.padding_mode!r}",
        )
    rank = len(x.shape) - 2
    if rank < 1 or len(grid.shape) != rank + 2 or grid.shape[-1] != rank:
        raise call.error("the grid must have a point of the input's spatial rank at each place")
    if x.shape[0] != grid.shape[0] or not grid.dtype.is_float:
        raise call.error("input and grid must have one batch, and the grid floating-point values")
    if 0 in x.shape[2:]:
        raise call.error("there is nothing to sample")
    if not x.dtype.is_float and _mode(call) != "nearest":
        raise call.error(f"mode {_mode(call)} needs a floating-point input")
    return (TensorType(x.dtype, (*x.shape[:2], *grid.shape[1:-1])),)


def _denormalized(x: Expr, extent: int, align: bool) -> Expr:
    """From -1..1 to elements."""
    if align:
        return times(plus(x, 1), (extent - 1) / 2)
    return times(plus(times(plus(x, 1), extent), -1), 0.5)


def _borders(extent: int, align: bool) -> tuple[float, float]:
    return (0.0, extent - 1.0) if align else (-0.5, extent - 0.5)


def _held(x: Expr, extent: int, align: bool, mode: str, padding: str) -> Expr:
    """A coordinate brought between the borders, if the padding asks for it.

    Cubic weights are those of the point outside; only what they weigh comes from the border.
    """
    low, high = _borders(extent, align)
    if padding == "zeros" or (mode == "cubic" and padding == "border"):
        return x
    if padding == "border":
        beyond = binary("or", binary("lt", x, like(x, low)), binary("gt", x, like(x, high)))
        return select(beyond, clamp(x, like(x, 0), like(x, extent - 1)), x)
    if low == high:
        return like(x, low)
    span = high - low
    distance = unary("abs", plus(x, -low))
    turned = binary("fmod", distance, like(x, 2 * span))
    back = binary("sub", like(x, 2 * span), turned)
    return plus(select(binary("gt", turned, like(x, span)), back, turned), low)


def _border_place(place: Expr, extent: int) -> Expr:
    return clamp(place, 0, extent - 1)


def _mirrored_place(align: bool) -> Callable[[Expr, int], Expr]:
    def held(place: Expr, extent: int) -> Expr:
        if extent == 1:
            return index(0)
        period, edge = (2 * extent - 2, 0) if align else (2 * extent, 1)
        turned = binary("mod", place, period)
        back = binary("sub", period - edge, turned)
        return clamp(binary("min", turned, back), 0, extent - 1)

    return held


def _define_grid_sample(call: Call) -> tuple[Compute, ...]:
    asked: GridSampleAttributes = call.attributes
    extents = call.type(0).dims[2:]
    align, mode = bool(asked.align_corners), _mode(call)
    dtype = call.type(0).dtype
    work = accumulator(dtype)
    places = {
        "zeros": None,
        "border": _border_place,
        "reflection": _mirrored_place(align),
    }[asked.padding_mode]

    def value(point: tuple[Expr, ...]) -> Expr:
        coordinates: list[Expr] = []
        for axis, extent in enumerate(extents):
            # The grid names the last axis first.
            load = call.load(1, point[0], *point[2:], index(len(extents) - 1 - axis))
            wide = accumulator(load.dtype)
            x = _denormalized(cast(wide, load), extent, align)
            if mode == "nearest":
                x = unary("round", x)
            coordinates.append(_held(bounded(x), extent, align, mode, asked.padding_mode))
        found = interpolated(
            coordinates,
            extents,
            mode,
            lambda where: _as(work, call.load(0, point[0], point[1], *where)),
            places,
        )
        return _as(dtype, found)

    return each_point(_infer_grid_sample(call)[0].dims, value)


def _as(dtype: DType, x: Expr) -> Expr:
    return x if dtype_of(x) is dtype else cast(dtype, x)


def _reference_grid_sample(call: Call, x: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, ...]:
    asked: GridSampleAttributes = call.attributes
    align, mode, padding = bool(asked.align_corners), _mode(call), asked.padding_mode
    extents = x.shape[2:]
    wide = x.astype(np.float64) if mode != "nearest" else x
    columns: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = []
    for axis, extent in enumerate(extents):
        at: np.ndarray = grid[..., len(extents) - 1 - axis]
        at = at.astype(np.result_type(at.dtype, np.float32))
        at = (at + 1) / 2 * (extent - 1) if align else ((at + 1) * extent - 1) / 2
        at = np.rint(at) if mode == "nearest" else at
        columns.append(_reference_taps(at, extent, align, mode, padding))
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), wide.dtype)
    batch: np.ndarray = np.arange(len(x)).reshape(-1, *(1,) * len(extents))
    for taps in product(*columns):
        where: tuple[np.ndarray, ...] = (batch, *(place for place, _, _ in taps))
        term: np.ndarray = np.moveaxis(wide, 1, -1)[where]
        for _, weight, held in taps:
            weighted = term if mode == "nearest" else term * weight[..., None]
            term = np.where(held[..., None], weighted, 0)
        y += np.moveaxis(term, -1, 1)
    return (y.astype(x.dtype),)


def _reference_taps(
    at: np.ndarray, extent: int, align: bool, mode: str, padding: str
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Places, weights and validity of each tap along one axis."""
    low, high = _borders(extent, align)
    if padding == "border" and mode != "cubic":
        at = np.where((at < low) | (at > high), np.clip(at, 0, extent - 1), at)
    if padding == "reflection":
        at = _fold(at, low, high)
    count = WEIGHTS[mode][0]
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for tap in range(count):
        place = np.floor(at) + tap + 1 - max(1, count // 2)
        distance = np.abs(at - place)
        weight = np.maximum(0, 1 - distance)
        if mode == "cubic":
            near = 1.25 * distance**3 - 2.25 * distance**2 + 1
            far = -0.75 * (distance**3 - 5 * distance**2 + 8 * distance - 4)
            weight = np.where(distance <= 1, near, far)
        held = (place >= 0) & (place < extent) | (padding != "zeros")
        place = _fold(place, low, high) if padding == "reflection" else place
        found.append((np.clip(place, 0, extent - 1).astype(np.int64), weight, held))
    return found


def _fold(at: np.ndarray, low: float, high: float) -> np.ndarray:
    """Reflection at both borders, as often as needed."""
    if low == high:
        return at * 0 + low
    span = high - low
    turned = np.mod(at - low, 2 * span)
    return low + np.minimum(turned, 2 * span - turned)


# --- affine grid --------------------------------------------------------------------------


def _infer_affine_grid(call: Call) -> tuple[TensorType, ...]:
    theta, size = call.type(0), call.attributes.size
    rank = len(size) - 2
    if rank not in (2, 3) or theta.shape[1:] != (rank, rank + 1) or len(theta.shape) != 3:
        raise call.error(
            "theta must hold a matrix [2,3] for a size of 4 numbers, or [3,4] for 5",
            got=f"{theta}, size {list(size)}",
        )
    if known(call, theta.shape[0]) != size[0]:
        raise call.error("theta and size must have one batch", got=f"{theta}, size {list(size)}")
    if not theta.dtype.is_float or min(size) < 1:
        raise call.error("theta must hold floating-point values, size positive numbers")
    return (TensorType(theta.dtype, (theta.shape[0], *size[2:], rank)),)


def _steps(extent: int, align: bool) -> tuple[float, float]:
    """Scale and offset from elements to -1..1."""
    if align:
        return (2 / (extent - 1), -1.0) if extent > 1 else (0.0, 0.0)
    return 2 / extent, 1 / extent - 1


def _define_affine_grid(call: Call) -> tuple[Compute, ...]:
    spatial = call.attributes.size[2:]
    dtype = call.type(0).dtype
    work = accumulator(dtype)

    def value(point: tuple[Expr, ...]) -> Expr:
        row = (point[0], point[-1])
        found = _as(work, call.load(0, *row, index(len(spatial))))
        for column, axis in enumerate(reversed(range(len(spatial)))):
            scale, start = _steps(spatial[axis], bool(call.attributes.align_corners))
            at = plus(times(cast(work, point[1 + axis]), scale), start)
            term = binary("mul", _as(work, call.load(0, *row, index(column))), at)
            found = binary("add", term, found)
        return _as(dtype, found)

    return each_point(_infer_affine_grid(call)[0].dims, value)


def _reference_affine_grid(call: Call, theta: np.ndarray) -> tuple[np.ndarray, ...]:
    spatial: tuple[int, ...] = call.attributes.size[2:]
    lines: list[np.ndarray] = []
    for extent in spatial:
        scale, start = _steps(extent, bool(call.attributes.align_corners))
        lines.append(np.arange(extent) * scale + start)
    mesh = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*reversed(mesh), np.ones(spatial)], -1)
    return (np.einsum("nrc,...c->n...r", theta, points).astype(theta.dtype),)


OPS: tuple[Op, ...] = (
    Op(
        name="GridSample",
        inputs=(Param("x"), Param("grid")),
        infer=_infer_grid_sample,
        reference=_reference_grid_sample,
        compute=Define(_define_grid_sample),
        attributes=GridSampleAttributes,
        doc="The input read at the points of a grid, by interpolation.",
    ),
    Op(
        name="AffineGrid",
        inputs=(Param("theta"),),
        outputs=(Param("grid"),),
        infer=_infer_affine_grid,
        reference=_reference_affine_grid,
        compute=Define(_define_affine_grid),
        attributes=AffineGridAttributes,
        doc="The grid of sampling points that an affine map gives.",
    ),
)
