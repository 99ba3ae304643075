"""Pooling over regions of interest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.ctext import C_TYPES, count, nest
from weft.ops.record import Call, Extern, ExternBody, Op, Param
from weft.ops.support import WITH_AUTODIFF, at_rank, integer, known


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


# Bins of a region along one axis; {low} and {high} are columns of rois.
_BINS = """\
start{axis} = (double)in1[r * 4 + {low}] * {scale} - {shift};
length = (double)in1[r * 4 + {high}] * {scale} - {shift} - start{axis};
{least}bin{axis} = length / {bins};
points{axis} = {ratio};
if (points{axis} == 0) {{
    points{axis} = length > 0.0 && bin{axis} < 1e6 ? (long)bin{axis} : 0;
    if (bin{axis} > 0.0 && (double)points{axis} < bin{axis})
        ++points{axis};
}}
"""

# Where a point lies along one axis: two neighbours and the weight of the second.
_POINT = """\
at = start{axis} + (double)p{axis} * bin{axis} + ((double)s{axis} + 0.5) * bin{axis} \
/ (double)points{axis};
if (!(at >= -1.0 && at <= {extent}.0))
    held = 0;
else {{
    at = at > 0.0 ? at : 0.0;
    low{axis} = (long)at;
    if (low{axis} >= {last}) {{
        low{axis} = {last};
        at = {last}.0;
    }}
    high{axis} = low{axis} < {last} ? low{axis} + 1 : {last};
    weight{axis} = at - (double)low{axis};
}}
"""

_AVERAGE = "sum += {first} + {second} + {third} + {fourth};\n"
_MEAN = "if (pointsy * pointsx > 1)\n    sum /= (double)(pointsy * pointsx);\n"
_LARGEST = """\
corner[0] = {first};
corner[1] = {second};
corner[2] = {third};
corner[3] = {fourth};
for (k = 0; k < 4; ++k) {{
    if (empty || corner[k] > sum)
        sum = corner[k];
    empty = 0;
}}
"""

# A point outside counts 0.
_OUTSIDE = """\
if (!held) {
    if (empty || sum < 0.0)
        sum = 0.0;
    empty = 0;
}
"""


def _align_body(call: Call) -> ExternBody:
    asked: RoiAlignAttributes = call.attributes
    n, c, h, w = _check_input(call)
    regions = known(call, call.type(1).shape[0])
    half = asked.coordinate_transformation_mode == "half_pixel"
    axes = (("y", 1, 3, asked.output_height, h), ("x", 0, 2, asked.output_width, w))
    bins = "".join(
        _BINS.format(
            axis=axis,
            low=low,
            high=high,
            bins=f"{size}.0",
            scale=repr(float(asked.spatial_scale)),
            shift="0.5" if half else "0.0",
            least="" if half else "if (length < 1.0)\n    length = 1.0;\n",
            ratio=asked.sampling_ratio,
        )
        for axis, low, high, size, _ in axes
    )
    points = "".join(
        _POINT.format(axis=axis, extent=extent, last=extent - 1) for axis, _, _, _, extent in axes
    )
    read = "({wy}) * ({wx}) * (double)in0[base + {y} * " + str(w) + " + {x}]"
    corners = {
        name: read.format(
            wy="weighty" if y == "highy" else "1.0 - weighty",
            wx="weightx" if x == "highx" else "1.0 - weightx",
            y=y,
            x=x,
        )
        for name, y, x in (
            ("first", "lowy", "lowx"),
            ("second", "lowy", "highx"),
            ("third", "highy", "lowx"),
            ("fourth", "highy", "highx"),
        )
    }
    average = asked.mode == "avg"
    outside = "" if average else _OUTSIDE
    gather = (
        f"held = 1;\n{points}if (held) {{\n"
        + (_AVERAGE if average else _LARGEST).format(**corners)
        + "}\n"
        + outside
    )
    mean = _MEAN if average else ""
    element = (
        "sum = 0.0;\nempty = 1;\n"
        + count("sy", "pointsy", count("sx", "pointsx", gather))
        + mean
        + f"out0[to++] = ({C_TYPES[call.type(0).dtype]})sum;\n"
    )
    planes = f"base = ((image < 0 || image >= {n} ? 0 : image) * {c} + plane) * {h * w};\n" + nest(
        ("py", "px"), (asked.output_height, asked.output_width), element
    )
    body = bins + "image = (long)in2[r];\n" + count("plane", c, planes)
    return ExternBody(
        "double starty, startx, biny, binx, length, at, sum, weighty = 0.0, weightx = 0.0;\n"
        + ("" if average else "double corner[4];\nint k;\n")
        + "long r, plane, py, px, sy, sx, pointsy, pointsx, image, base, to = 0;\n"
        "long lowy = 0, lowx = 0, highy = 0, highx = 0;\nint held, empty;\n"
        + count("r", regions, body)
        + ("(void)empty;\n" if average else "")
    )


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


_CORNER = """\
at = (double)in1[r * 5 + {column}] * {scale};
at = at > -1e6 ? (at < 1e6 ? at : 1e6) : -1e6;
{name} = at < 0.0 ? -(long)(0.5 - at) : (long)(at + 0.5);
"""

_RANGE = """\
from{axis} = low{axis} + p{axis} * size{axis} / {bins};
end{axis} = low{axis} + ((p{axis} + 1) * size{axis} + {bins} - 1) / {bins};
from{axis} = from{axis} < 0 ? 0 : from{axis};
end{axis} = end{axis} > {extent} ? {extent} : end{axis};
"""

_SCAN = """\
found = 0;
for (y = fromy; y < endy; ++y) {{
    for (x = fromx; x < endx; ++x) {{
        if (!found || in0[base + y * {width} + x] > out0[to])
            out0[to] = in0[base + y * {width} + x];
        found = 1;
    }}
}}
if (!found)
    out0[to] = 0;
++to;
"""


def _max_body(call: Call) -> ExternBody:
    n, c, h, w = _check_input(call)
    asked: MaxRoiPoolAttributes = call.attributes
    regions = known(call, call.type(1).shape[0])
    scale = repr(float(asked.spatial_scale))
    corners = "".join(
        _CORNER.format(column=column, scale=scale, name=name)
        for column, name in enumerate(("lowx", "lowy", "sizex", "sizey"), 1)
    )
    sizes = "".join(
        f"size{axis} = size{axis} - low{axis} + 1;\nsize{axis} = size{axis} < 1 ? 1 : size{axis};\n"
        for axis in "yx"
    )
    ranges = "".join(
        _RANGE.format(axis=axis, bins=bins, extent=extent)
        for axis, bins, extent in zip("yx", asked.pooled_shape, (h, w), strict=True)
    )
    planes = f"base = ((image < 0 || image >= {n} ? 0 : image) * {c} + plane) * {h * w};\n" + nest(
        ("py", "px"), asked.pooled_shape, ranges + _SCAN.format(width=w)
    )
    image = "at = (double)in1[r * 5];\nimage = at >= 0.0 && at < 1e6 ? (long)at : 0;\n"
    return ExternBody(
        "double at;\nlong r, plane, py, px, y, x, image, base, to = 0;\n"
        "long lowy, lowx, sizey, sizex, fromy, fromx, endy, endx;\nint found;\n"
        + count("r", regions, image + corners + sizes + count("plane", c, planes))
    )


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
        grad=WITH_AUTODIFF,
        attributes=RoiAlignAttributes,
        doc="Averages or maxima of interpolated points in the bins of regions.",
    ),
    Op(
        name="MaxRoiPool",
        inputs=(Param("x"), Param("rois")),
        infer=_infer_max,
        reference=_reference_max,
        compute=Extern(_max_body),
        grad=WITH_AUTODIFF,
        attributes=MaxRoiPoolAttributes,
        doc="The largest element in each bin of regions; NaN is passed over.",
    ),
)
