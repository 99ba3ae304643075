# pyright: basic
"""Images at other resolutions, and at computed points.

Which elements are mixed, and with which weights, is worked out here as PyTorch does it: in
single precision, with the scale that the caller gave, or else with the quotient of the lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.records import dataclass
from weft.torch.aten.record import Emit, Row, aten

_CUBIC, _CUBIC_ANTIALIASED = -0.75, -0.5


@dataclass(frozen=True)
class Stretched:
    """An axis: its length, what it becomes, the scale if the caller gave one."""

    source: int
    target: int
    scale: float | None

    def steps(self, align_corners: bool = False) -> np.float32:
        """How far the source advances with each element of the target."""
        if align_corners:
            count = self.target - 1
            return np.float32(self.source - 1) / np.float32(count) if count else np.float32(0)
        if self.scale:
            return np.float32(1.0 / self.scale)
        return np.float32(self.source) / np.float32(self.target)

    def coordinates(self, align_corners: bool) -> np.ndarray:
        """Where every element of the target lies in the source."""
        at = np.arange(self.target, dtype=np.float32)
        steps = self.steps(align_corners)
        half = np.float32(0.5)
        return at * steps if align_corners else steps * (at + half) - half


def _nearest(axis: Stretched, exact: bool) -> np.ndarray:
    at = np.arange(axis.target, dtype=np.float32) + np.float32(0.5 if exact else 0)
    return np.minimum(np.floor(at * axis.steps()).astype(np.int64), axis.source - 1)


def _linear(axis: Stretched, align_corners: bool) -> tuple[np.ndarray, np.ndarray]:
    at = np.maximum(axis.coordinates(align_corners), np.float32(0))
    first = np.minimum(at.astype(np.int64), axis.source - 1)
    part = np.minimum(at - first.astype(np.float32), np.float32(1))
    places = np.stack([first, np.minimum(first + 1, axis.source - 1)], 1)
    return places, np.stack([1 - part, part], 1)


def _cubic(axis: Stretched, align_corners: bool) -> tuple[np.ndarray, np.ndarray]:
    at = axis.coordinates(align_corners)
    first = np.floor(at)
    places = first.astype(np.int64)[:, None] + np.arange(-1, 3)
    weights = _cubic_weight((at - first)[:, None] - np.arange(-1, 3), _CUBIC)
    return np.clip(places, 0, axis.source - 1), weights


def _cubic_weight(distance: np.ndarray, a: float) -> np.ndarray:
    x = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _linear_weight(distance: np.ndarray, _: float = 0) -> np.ndarray:
    return np.maximum(0, 1 - np.abs(distance))


def _antialiased(
    axis: Stretched, align_corners: bool, radius: int, weight: Callable[..., np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    steps = float(axis.steps(align_corners))
    stretch = max(steps, 1.0)
    reach = radius * stretch
    centers = steps * (np.arange(axis.target) + 0.5)
    low = np.maximum((centers - reach + 0.5).astype(np.int64), 0)
    high = np.minimum((centers + reach + 0.5).astype(np.int64), axis.source)
    places = low[:, None] + np.arange(ceil(reach) * 2 + 1)
    distances = (places - centers[:, None] + 0.5) / stretch
    weights = np.where(places < high[:, None], weight(distances, _CUBIC_ANTIALIASED), 0)
    total = weights.sum(1, keepdims=True)
    return np.minimum(places, axis.source - 1), weights / np.where(total == 0, 1, total)


_TAPS = {
    "linear1d": _linear,
    "bilinear2d": _linear,
    "trilinear3d": _linear,
    "bicubic2d": _cubic,
    "bilinear2d_aa": partial(_antialiased, radius=1, weight=_linear_weight),
    "bicubic2d_aa": partial(_antialiased, radius=2, weight=_cubic_weight),
}


# --- rows -------------------------------------------------------------------------------------


def _stretched(g: Emit, x: Tensor, scales: Sequence[float | None] | None) -> dict[int, Stretched]:
    """The axes of the image."""
    rank = x.rank - 2
    given = list(scales or (None,) * rank)
    return {
        axis: Stretched(x.shape[axis], g.result.dims[axis], scale)
        for axis, scale in zip(range(2, x.rank), given, strict=True)
    }


def _copied(g: Emit, x: Tensor, axes: dict[int, Stretched], exact: bool) -> Tensor:
    tables = {axis: _nearest(each, exact) for axis, each in axes.items()}
    times = {axis: each.target // each.source for axis, each in axes.items()}
    if all(
        times[axis] and np.array_equal(table, np.arange(len(table)) // times[axis])
        for axis, table in tables.items()
    ):
        # Whole repetitions: in any layout, without tables.
        scales = (1.0, 1.0, *map(float, times.values()))
        settings = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        made = g("Resize", x, scales=scales, **settings)
        if made.shape == g.result.dims:
            return made
    for axis, table in tables.items():
        if not np.array_equal(table, np.arange(x.shape[axis])):
            x = g("Gather", x, g.constant(table, "places"), axis=axis)
    return x


def _mixed(
    g: Emit, x: Tensor, axes: dict[int, Stretched], name: str, align_corners: bool
) -> Tensor:
    dtype = x.dtype
    if not dtype.is_float:
        g.refuse("interpolation of integers is not supported")
    work = dtype if dtype is DType.F64 else DType.F32
    y = g.cast(x, work)
    for axis, each in axes.items():
        places, weights = _TAPS[name](each, align_corners)
        if each.source == each.target and np.array_equal(weights[:, 0] * 0 + 1, weights.max(1)):
            continue
        table = g.constant(places.astype(np.int32), "places")
        y = g("Resample", y, table, g.constant(weights.astype(work.numpy), "weights"), axis=axis)
    return g.cast(y, dtype)


def _upsample(name: str, exact: bool = False) -> tuple[Row, Row]:
    def computed(g: Emit, x: Tensor, scales: Sequence[float | None] | None, align: bool) -> Tensor:
        axes = _stretched(g, x, scales)
        return _mixed(g, x, axes, name, align) if name in _TAPS else _copied(g, x, axes, exact)

    def by_factors(
        g: Emit,
        input: Tensor,
        output_size: Sequence[int] | None = None,
        scale_factors: Sequence[float] | None = None,
        align_corners: bool = False,
    ) -> Tensor:
        return computed(g, input, scale_factors, align_corners)

    def by_size(
        g: Emit,
        self: Tensor,
        output_size: Sequence[int],
        align_corners: bool = False,
        scales: float | None = None,
        scales_d: float | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Tensor:
        given = (scales_d, scales_h, scales_w if scales is None else scales)
        return computed(g, self, given[5 - self.rank :], align_corners)

    return by_factors, by_size


_NAMES = {
    **{f"upsample_nearest{rank}d": (f"nearest{rank}d", False) for rank in (1, 2, 3)},
    **{f"_upsample_nearest_exact{rank}d": (f"nearest{rank}d", True) for rank in (1, 2, 3)},
    **{
        f"_upsample_{name}" if "aa" in name else f"upsample_{name}": (name, False) for name in _TAPS
    },
}
for _name, _arguments in _NAMES.items():
    _by_factors, _by_size = _upsample(*_arguments)
    aten(f"{_name}.vec")(_by_factors)
    aten(f"{_name}.default")(_by_size)


_MODES, _PADDINGS = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")


@aten("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(
    g: Emit,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Tensor:
    return g(
        "GridSample",
        input,
        grid,
        mode=_MODES[interpolation_mode],
        padding_mode=_PADDINGS[padding_mode],
        align_corners=int(align_corners),
    )


@aten("affine_grid_generator.default")
def affine_grid(g: Emit, theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    return g("AffineGrid", theta, size=tuple(size), align_corners=int(align_corners))


@aten("torchvision::roi_align.default")
def roi_align(
    g: Emit,
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    images = g.reshape(g.slice(rois, 1, 0, 1), (rois.shape[0],))
    return g(
        "RoiAlign",
        input,
        g.slice(rois, 1, 1, 5),
        g.cast(images, DType.I64),
        output_height=pooled_height,
        output_width=pooled_width,
        sampling_ratio=max(sampling_ratio, 0),
        spatial_scale=spatial_scale,
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )
