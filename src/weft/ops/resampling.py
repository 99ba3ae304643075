"""Resize and upsample, one axis at a time by tables made when the net is compiled.

The tables come from ``weft.ops.interpolation``.
"""

from __future__ import annotations

from math import floor

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import Dim, Symbol, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.ops.arithmetic import ClipAttributes
from weft.ops.cast import CastAttributes
from weft.ops.expr import binary, cast, clamp, total
from weft.ops.indexing import GatherAttributes
from weft.ops.interpolation import (
    COORDINATES,
    KERNELS,
    NEAREST,
    ResizeAttributes,
    Stretch,
    coordinates,
    nearest_places,
    reach_of,
    taps,
)
from weft.ops.ordering import ExpandAttributes
from weft.ops.record import Builder, Call, Define, Expand, Op, Param
from weft.ops.shape import ReshapeAttributes
from weft.ops.support import (
    axes_of,
    axis_of,
    check_table,
    each_point,
    known,
    not_concrete,
)
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class UpsampleAttributes(Attributes):
    """``scales`` for all axes."""

    scales: tuple[float, ...]
    mode: str = "nearest"


@dataclass(frozen=True, slots=True)
class ResampleAttributes(Attributes):
    """``axis`` that is resampled."""

    axis: int


LARGEST_WISH = 1 << 31


# --- resize -------------------------------------------------------------------------------


def _check_modes(call: Call, asked: ResizeAttributes) -> None:
    for name, allowed in (
        ("mode", ("nearest", *KERNELS)),
        ("coordinate_transformation_mode", tuple(COORDINATES)),
        ("nearest_mode", tuple(NEAREST)),
        ("keep_aspect_ratio_policy", ("stretch", "not_larger", "not_smaller")),
    ):
        if getattr(asked, name) not in allowed:
            raise call.error(
                f"{name} must be one of {', '.join(allowed)}", got=repr(getattr(asked, name))
            )


def _scales_and_sizes(
    call: Call, asked: ResizeAttributes, extents: list[int]
) -> list[tuple[float, int]]:
    """Scale and target length of each resized axis."""
    if asked.scales is not None:
        # Products are rounded to single precision as runtimes do: 10 * 0.7f is 7.
        return [
            (scale, floor(np.float32(scale) * np.float32(extent)))
            for scale, extent in zip(asked.scales, extents, strict=True)
        ]
    assert asked.sizes is not None
    scales = [size / extent for size, extent in zip(asked.sizes, extents, strict=True)]
    if asked.keep_aspect_ratio_policy == "stretch":
        return list(zip(scales, asked.sizes, strict=True))
    scale = min(scales) if asked.keep_aspect_ratio_policy == "not_larger" else max(scales)
    return [(scale, floor(scale * extent + 0.5)) for extent in extents]


def stretches(call: Call) -> dict[int, Stretch]:
    """The axes that change, and how."""
    asked: ResizeAttributes = call.attributes
    source = call.type(0)
    rank = len(source.shape)
    _check_modes(call, asked)
    chosen = axes_of(call, range(rank) if asked.axes is None else asked.axes, rank)
    wish = asked.sizes if asked.scales is None else asked.scales
    if (asked.sizes is None) == (asked.scales is None) or wish is None or len(wish) != len(chosen):
        raise call.error(
            f"either scales or sizes must name {len(chosen)} numbers",
            got=f"scales {asked.scales}, sizes {asked.sizes}",
        )
    if not all(0 < each < LARGEST_WISH for each in wish):
        raise call.error("scales and sizes must be positive numbers", got=str(list(wish)))
    roi = asked.roi or (0.0,) * len(chosen) + (1.0,) * len(chosen)
    if asked.coordinate_transformation_mode != "tf_crop_and_resize":
        roi = (0.0,) * len(chosen) + (1.0,) * len(chosen)
    if len(roi) != 2 * len(chosen):
        raise call.error(f"roi must name {2 * len(chosen)} numbers", got=str(list(roi)))
    extents = [_extent(call, place, axis) for place, axis in enumerate(chosen)]
    found: dict[int, Stretch] = {}
    for place, (scale, target) in enumerate(_scales_and_sizes(call, asked, extents)):
        ends = (roi[place], roi[place + len(chosen)])
        stretch = Stretch(extents[place], target, scale, *ends)
        if not stretch.is_identity:
            found[chosen[place]] = stretch
    return found


def _extent(call: Call, place: int, axis: int) -> int:
    """The length of an axis; the batch passes through if its scale is 1."""
    dim, asked = call.type(0).shape[axis], call.attributes
    if isinstance(dim, Symbol):
        if asked.scales is None or asked.scales[place] != 1:
            raise not_concrete(call)
        return 1
    if dim == 0:
        raise call.error("there is nothing to resize")
    return dim


def _infer_resize(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    shape: list[Dim] = list(source.shape)
    for axis, stretch in stretches(call).items():
        shape[axis] = stretch.target
        check_table(call, max(1, stretch.target) * reach_of(call.attributes, stretch))
    return (TensorType(source.dtype, tuple(shape)),)


def _outside(call: Call) -> np.ndarray | None:
    """Which elements of the target take the extrapolation value; broadcast to its shape."""
    asked: ResizeAttributes = call.attributes
    if asked.coordinate_transformation_mode != "tf_crop_and_resize":
        return None
    rank = len(call.type(0).shape)
    found = np.zeros((1,) * rank, np.bool_)
    for axis, stretch in stretches(call).items():
        at = coordinates(asked, stretch)
        beyond = (at < 0) | (at > stretch.source - 1)
        found = found | beyond.reshape([-1 if axis == place else 1 for place in range(rank)])
    return found if found.any() else None


def _reference_resize(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    asked: ResizeAttributes = call.attributes
    wide = x if asked.mode == "nearest" else x.astype(np.float64)
    for axis, stretch in stretches(call).items():
        if asked.mode == "nearest":
            wide = np.take(wide, nearest_places(asked, stretch), axis)
        else:
            wide = _mix(wide, *taps(asked, stretch), axis)
    beyond = _outside(call)
    if beyond is not None:
        wide = np.where(beyond, asked.extrapolation_value, wide)
    return (_fitted(wide, x.dtype),)


def _mix(x: np.ndarray, places: np.ndarray, weights: np.ndarray, axis: int) -> np.ndarray:
    """Weighted sums of the entries of an axis."""
    moved = np.moveaxis(x, axis, -1)
    return np.moveaxis((moved[..., places] * weights).sum(-1), -1, axis)


def _fitted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if x.dtype == dtype or dtype.kind not in "iu":
        return x.astype(dtype)
    info = np.iinfo(dtype)
    return np.clip(np.round(x), info.min, info.max).astype(dtype)


# --- resize by other ops ------------------------------------------------------------------


def _expand_resize(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    asked: ResizeAttributes = call.attributes
    interpolate = _copy if asked.mode == "nearest" else _mixed
    y = interpolate(call, build, inputs[0])
    beyond = _outside(call)
    if beyond is not None:
        dtype = call.type(0).dtype.numpy
        value = build.constant(np.array(asked.extrapolation_value).astype(dtype), "value")
        y = build.op("Where", build.constant(beyond, "outside"), value, y)
    return (y,)


def _copy(call: Call, build: Builder, x: str) -> str:
    """Nearest: whole repetitions by a view that is expanded, the rest by tables."""
    asked: ResizeAttributes = call.attributes
    repeats: dict[int, int] = {}
    for axis, stretch in stretches(call).items():
        places = nearest_places(asked, stretch)
        times = stretch.target // stretch.source
        if times and np.array_equal(places, np.arange(stretch.target) // times):
            repeats[axis] = times
            continue
        table = build.constant(places, "places")
        x = build.op("Gather", x, table, attributes=GatherAttributes(axis))
    return _repeat(build, x, repeats) if repeats else x


def _repeat(build: Builder, x: str, repeats: dict[int, int]) -> str:
    parted: list[int] = []
    wide: list[int] = []
    merged: list[int] = []
    for axis, dim in enumerate(build.types[x].shape):
        # 0 copies the batch; beyond it the places no longer line up.
        extent = 0 if isinstance(dim, Symbol) else dim
        parted += [extent, 1] if axis in repeats else [extent]
        wide += [1, repeats[axis]] if axis in repeats else [1]
        merged.append(extent * repeats.get(axis, 1))
    y = build.op("Reshape", x, attributes=ReshapeAttributes(tuple(parted)))
    y = build.op("Expand", y, attributes=ExpandAttributes(tuple(wide)))
    return build.op("Reshape", y, attributes=ReshapeAttributes(tuple(merged)))


def _mixed(call: Call, build: Builder, x: str) -> str:
    """Linear and cubic: one axis after the other, in a precision that holds the type."""
    dtype = call.type(0).dtype
    exact = dtype in (DType.F64, DType.I32, DType.I64, DType.U32, DType.U64)
    work = DType.F64 if exact else DType.F32
    y = x if work is dtype else build.op("Cast", x, attributes=CastAttributes(work))
    for axis, stretch in stretches(call).items():
        places, weights = taps(call.attributes, stretch)
        y = build.op(
            "Resample",
            y,
            build.constant(places.astype(np.int32), "places"),
            build.constant(weights.astype(work.numpy), "weights"),
            attributes=ResampleAttributes(axis),
        )
    if work is dtype:
        return y
    if dtype.is_integer:
        y = build.op("Clip", build.op("Round", y), attributes=ClipAttributes(*dtype.limits))
    return build.op("Cast", y, attributes=CastAttributes(dtype))


# --- resample -----------------------------------------------------------------------------


def _infer_resample(call: Call) -> tuple[TensorType, ...]:
    source, places, weights = call.type(0), call.type(1), call.type(2)
    axis = axis_of(call, call.attributes.axis, len(source.shape))
    known(call, source.shape[axis])
    if places.dtype is not DType.I32 or len(places.shape) != 2 or places.shape != weights.shape:
        raise call.error("places (i32) and weights must be matrices of one shape")
    if weights.dtype != source.dtype or not source.dtype.is_float:
        raise call.error("the input and the weights must be of one floating-point type")
    shape = (*source.shape[:axis], places.shape[0], *source.shape[axis + 1 :])
    return (TensorType(source.dtype, shape),)


def _define_resample(call: Call) -> tuple[Compute, ...]:
    dims, count = call.type(0).dims, call.type(1).dims[1]
    axis = axis_of(call, call.attributes.axis, len(dims))
    tap = Var("tap")

    def value(point: tuple[Expr, ...]) -> Expr:
        found = cast(DType.I64, call.load(1, point[axis], tap))
        place = clamp(found, 0, dims[axis] - 1)
        x = call.load(0, *point[:axis], place, *point[axis + 1 :])
        weighted = binary("mul", x, call.load(2, point[axis], tap))
        return total("sum", (Axis("tap", count),), weighted)

    return each_point(_infer_resample(call)[0].dims, value)


def _reference_resample(
    call: Call, x: np.ndarray, places: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, ...]:
    wide = _mix(x.astype(np.float64), places, weights.astype(np.float64), call.attributes.axis)
    return (wide.astype(x.dtype),)


# --- upsample -----------------------------------------------------------------------------


def _as_resize(call: Call) -> Call:
    asked: UpsampleAttributes = call.attributes
    found = ResizeAttributes(
        scales=asked.scales,
        mode=asked.mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return Call(call.op, found, call.inputs, call.outputs, call.where)


def _reference_upsample(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return _reference_resize(_as_resize(call), x)


OPS: tuple[Op, ...] = (
    Op(
        name="Resize",
        infer=_infer_resize,
        reference=_reference_resize,
        compute=Expand(_expand_resize),
        attributes=ResizeAttributes,
        implied={"axes": lambda call: tuple(range(len(call.type(0).shape)))},
        doc="The input at another resolution: nearest, linear or cubic along each axis.",
    ),
    Op(
        name="Upsample",
        infer=lambda call: _infer_resize(_as_resize(call)),
        reference=_reference_upsample,
        compute=Expand(lambda call, build, inputs: _expand_resize(_as_resize(call), build, inputs)),
        attributes=UpsampleAttributes,
        doc="Resize as it was before opset 10: asymmetric coordinates, rounded down.",
    ),
    Op(
        name="Resample",
        inputs=(Param("x"), Param("places"), Param("weights")),
        infer=_infer_resample,
        reference=_reference_resample,
        compute=Define(_define_resample),
        attributes=ResampleAttributes,
        doc="Weighted sums of the entries of an axis, by a table of places and weights.",
    ),
)
