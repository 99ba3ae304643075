"""Pooling over regions of interest."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.ctext import C_TYPES, body_text
from weft.ops.record import Call, Extern, ExternBody, Op, Param
from weft.ops.support import at_rank, integer, known
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class RoiAlignAttributes(Attributes):
    """As ONNX has them; a ``sampling_ratio`` of 0 takes as many points as a bin is long."""

    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0
    coordinate_transformation_mode: str = "half_pixel"


@dataclass(frozen=True, slots=True)
class MaxRoiPoolAttributes(Attributes):
    """``pooled_shape``: height and width of the result."""

    pooled_shape: tuple[int, ...]
    spatial_scale: float = 1.0


def _check_input(call: Call) -> tuple[int, int, int, int]:
    x = at_rank(call, 0, 4)
    if x.dtype not in (DType.F32, DType.F64):
        raise call.error("the input must be f32 or f64")
    n, c, h, w = (known(call, dim) for dim in x.shape)
    if min(n, h, w) < 1:
        raise call.error("there is nothing to pool")
    return n, c, h, w


# --- align --------------------------------------------------------------------------------


def _infer_align(call: Call) -> tuple[TensorType, ...]:
    asked: RoiAlignAttributes = call.attributes
    channels = _check_input(call)[1]
    x, rois, batch = call.type(0), at_rank(call, 1, 2), integer(call, 2)
    if rois.shape[1] != 4 or batch.shape != rois.shape[:1] or rois.dtype != x.dtype:
        raise call.error("rois must be [regions,4] of the input's type, batch_indices [regions]")
    if asked.mode not in ("avg", "max") or asked.coordinate_transformation_mode not in (
        "half_pixel",
        "output_half_pixel",
    ):
        raise call.error(
            "mode must be avg or max and coordinate_transformation_mode half_pixel or "
            "output_half_pixel",
            got=f"{asked.mode!r} and {asked.coordinate_transformation_mode!r}",
        )
    if min(asked.output_height, asked.output_width) < 1:
        raise call.error(
            "output_height and output_width must be at least 1",
            got=f"{asked.output_height} and {asked.output_width}",
        )
    shape = (rois.shape[0], channels, asked.output_height, asked.output_width)
    return (TensorType(x.dtype, shape),)


def _align_body(call: Call) -> ExternBody:
    asked: RoiAlignAttributes = call.attributes
    sizes = dict(zip("nchw", _check_input(call), strict=True))
    half = asked.coordinate_transformation_mode == "half_pixel"
    shared = {"scale": float(asked.spatial_scale), "shift": 0.5 if half else 0.0, "half": half}
    bins = points = ""
    for axis, low, high, count, extent in (
        ("y", 1, 3, asked.output_height, sizes["h"]),
        ("x", 0, 2, asked.output_width, sizes["w"]),
    ):
        own = {"axis": axis, "low": low, "high": high, "bins": count, "ratio": asked.sampling_ratio}
        bins += body_text("regions", "bins", **own, **shared)
        points += body_text("regions", "point", axis=axis, extent=extent)
    words = {"height": asked.output_height, "width": asked.output_width, "bins": bins}
    regions = known(call, call.type(1).shape[0])
    kind, average = C_TYPES[call.type(0).dtype], asked.mode == "avg"
    words |= {"points": points, "regions": regions, "average": average, "type": kind}
    return ExternBody(body_text("regions", "align", **words, **sizes))


def _axis_points(
    low: float, high: float, bins: int, asked: RoiAlignAttributes
) -> tuple[np.ndarray, int]:
    """Where the points of every bin lie along an axis: ``[bins, points]``, and how many."""
    shift = 0.5 if asked.coordinate_transformation_mode == "half_pixel" else 0.0
    start = low * asked.spatial_scale - shift
    length = high * asked.spatial_scale - shift - start
    if not shift:
        length = max(length, 1.0)
    size = length / bins
    points = asked.sampling_ratio or max(0, int(np.ceil(size)))
    steps = (np.arange(points) + 0.5) * size / max(points, 1)
    return start + np.arange(bins)[:, None] * size + steps, points


def _neighbours(at: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """The two places around each point and their weights (0 for points outside)."""
    held = (at >= -1) & (at <= extent)
    at = np.clip(at, 0, extent - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, extent - 1)
    weights = np.stack([1 - (at - low), at - low]) * held
    return np.stack([low, high]), weights


def _reference_align(
    call: Call, x: np.ndarray, rois: np.ndarray, batch: np.ndarray
) -> tuple[np.ndarray, ...]:
    asked: RoiAlignAttributes = call.attributes
    bins = (asked.output_height, asked.output_width)
    y = np.zeros((len(rois), x.shape[1], *bins))
    for number, (roi, image) in enumerate(zip(rois.astype(np.float64), batch, strict=True)):
        ys, rows = _axis_points(roi[1], roi[3], bins[0], asked)
        xs, columns = _axis_points(roi[0], roi[2], bins[1], asked)
        if rows * columns == 0:
            continue
        y_at, y_weight = _neighbours(ys, x.shape[2])
        x_at, x_weight = _neighbours(xs, x.shape[3])
        for bin_y, bin_x in np.ndindex(*bins):
            corners = np.stack(
                [
                    x[image][:, y_at[j, bin_y][:, None], x_at[i, bin_x]]
                    * np.outer(y_weight[j, bin_y], x_weight[i, bin_x])
                    for j in range(2)
                    for i in range(2)
                ]
            )
            # Maxima are taken over the weighted corners, as ONNX defines it.
            found = corners.sum(0).mean((1, 2)) if asked.mode == "avg" else corners.max((0, 2, 3))
            y[number, :, bin_y, bin_x] = found
    return (y.astype(x.dtype),)


# --- maximum ------------------------------------------------------------------------------


def _infer_max(call: Call) -> tuple[TensorType, ...]:
    channels = _check_input(call)[1]
    x, rois = call.type(0), at_rank(call, 1, 2)
    pooled = call.attributes.pooled_shape
    if rois.shape[1] != 5 or rois.dtype != x.dtype:
        raise call.error("rois must be [regions,5] of the input's type: batch, x, y, x, y")
    if len(pooled) != 2 or min(pooled) < 1:
        raise call.error("pooled_shape must be two positive numbers", got=str(list(pooled)))
    return (TensorType(x.dtype, (rois.shape[0], channels, *pooled)),)


def _max_body(call: Call) -> ExternBody:
    sizes = dict(zip("nchw", _check_input(call), strict=True))
    asked: MaxRoiPoolAttributes = call.attributes
    height, width = asked.pooled_shape
    corners = (
        body_text("regions", "corner", column=column, scale=float(asked.spatial_scale), name=name)
        for column, name in enumerate(("lowx", "lowy", "sizex", "sizey"), 1)
    )
    ranges = (
        body_text("regions", "range", axis=axis, bins=bins, extent=extent)
        for axis, bins, extent in (("y", height, sizes["h"]), ("x", width, sizes["w"]))
    )
    words = {"corners": "".join(corners), "ranges": "".join(ranges), "height": height}
    regions = known(call, call.type(1).shape[0])
    return ExternBody(body_text("regions", "max", **words, **sizes, width=width, regions=regions))


def _reference_max(call: Call, x: np.ndarray, rois: np.ndarray) -> tuple[np.ndarray, ...]:
    asked: MaxRoiPoolAttributes = call.attributes
    bins = asked.pooled_shape
    y = np.zeros((len(rois), x.shape[1], *bins), x.dtype)
    for number, roi in enumerate(rois.astype(np.float64)):
        scaled = roi[1:] * asked.spatial_scale
        corners = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(int)
        low = (corners[1], corners[0])
        size = (max(1, corners[3] - low[0] + 1), max(1, corners[2] - low[1] + 1))
        for at in np.ndindex(*bins):
            window = tuple(
                slice(
                    max(0, low[axis] + at[axis] * size[axis] // bins[axis]),
                    max(0, low[axis] - (-(at[axis] + 1) * size[axis] // bins[axis])),
                )
                for axis in range(2)
            )
            part = x[int(roi[0])][(slice(None), *window)]
            if part.size:
                y[(number, slice(None), *at)] = part.max((1, 2))
    return (y,)


OPS: tuple[Op, ...] = (
    Op(
        name="RoiAlign",
        inputs=(Param("x"), Param("rois"), Param("batch_indices")),
        infer=_infer_align,
        reference=_reference_align,
        compute=Extern(_align_body),
        attributes=RoiAlignAttributes,
        doc="Averages or maxima of interpolated points in the bins of regions.",
    ),
    Op(
        name="MaxRoiPool",
        inputs=(Param("x"), Param("rois")),
        infer=_infer_max,
        reference=_reference_max,
        compute=Extern(_max_body),
        attributes=MaxRoiPoolAttributes,
        doc="The largest element in each bin of regions; NaN is passed over.",
    ),
)
