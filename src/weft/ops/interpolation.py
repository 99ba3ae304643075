"""Where a resized axis is read, and with which weights.

Both depend on the coordinate alone: they are worked out once, when the net is compiled.
Weights are worked out in double precision.  The nearest element is found in single precision,
as PyTorch and onnxruntime find it: rounding decides which element that is.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.ir.graph import Attributes
from weft.records import dataclass

Reals: TypeAlias = NDArray[np.floating[Any]]
Places: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ResizeAttributes(Attributes):
    """As ONNX has them; exactly one of ``scales`` and ``sizes`` is given.

    Those and ``roi`` (all starts, then all ends) are for ``axes``, or for all axes.
    """

    scales: tuple[float, ...] | None = None
    sizes: tuple[int, ...] | None = None
    roi: tuple[float, ...] | None = None
    axes: tuple[int, ...] | None = None
    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    antialias: int = 0
    keep_aspect_ratio_policy: str = "stretch"


# --- where an axis is read ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stretch:
    """The geometry of one axis: source and target lengths, scale, crop."""

    source: int
    target: int
    scale: float
    start: float
    end: float

    @property
    def is_identity(self) -> bool:
        """Whether nothing happens along this axis."""
        return self.scale == 1 and self.source == self.target and (self.start, self.end) == (0, 1)


# The length of the target is the whole number, as ONNX has it, not the product with the scale.


def _half_pixel(at: Reals, axis: Stretch) -> Reals:
    return (at + 0.5) / axis.scale - 0.5


def _half_pixel_symmetric(at: Reals, axis: Stretch) -> Reals:
    adjustment = at.dtype.type(axis.target) / (at.dtype.type(axis.scale) * axis.source)
    return _half_pixel(at, axis) + axis.source / 2 * (1 - adjustment)


def _crop_and_resize(at: Reals, axis: Stretch) -> Reals:
    last = axis.source - 1
    if axis.target == 1:
        return at * 0 + (axis.start + axis.end) / 2 * last
    return axis.start * last + at * (axis.end - axis.start) * last / (axis.target - 1)


COORDINATES: dict[str, Callable[[Reals, Stretch], Reals]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": lambda at, axis: at * 0 if axis.target == 1 else _half_pixel(at, axis),
    "align_corners": lambda at, axis: (
        at * 0 if axis.target == 1 else at * (axis.source - 1) / (axis.target - 1)
    ),
    "asymmetric": lambda at, axis: at / axis.scale,
    "tf_half_pixel_for_nn": lambda at, axis: (at + 0.5) / axis.scale,
    "tf_crop_and_resize": _crop_and_resize,
}


def _round_up(x: Reals) -> Reals:
    """Halves up; adding a half in single precision would take 0.49999997 to 1."""
    return np.floor(x) + (x - np.floor(x) >= 0.5)


NEAREST: dict[str, Callable[[Reals], Reals]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": _round_up,
    "floor": np.floor,
    "ceil": np.ceil,
}


def _linear_kernel(distance: Reals, _: float) -> Reals:
    return np.maximum(0, 1 - np.abs(distance))


def _cubic_kernel(distance: Reals, a: float) -> Reals:
    x = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


KERNELS: dict[str, tuple[int, Callable[[Reals, float], Reals]]] = {
    "linear": (1, _linear_kernel),
    "cubic": (2, _cubic_kernel),
}
"""Radius and weight by distance."""


def coordinates(
    asked: ResizeAttributes, axis: Stretch, precision: type[np.floating[Any]] = np.float64
) -> Reals:
    """Where every element of the target lies in the source."""
    return COORDINATES[asked.coordinate_transformation_mode](
        np.arange(axis.target, dtype=precision), axis
    )


def nearest_places(asked: ResizeAttributes, axis: Stretch) -> Places:
    """The source element that each target element copies."""
    found = NEAREST[asked.nearest_mode](coordinates(asked, axis, np.float32))
    return np.clip(found, 0, axis.source - 1).astype(np.int64)


def reach_of(asked: ResizeAttributes, axis: Stretch) -> int:
    """How many source elements a target element mixes."""
    if asked.mode == "nearest":
        return 1
    shrink = min(axis.scale, 1.0) if asked.antialias else 1.0
    return 2 * ceil(KERNELS[asked.mode][0] / shrink)


def taps(asked: ResizeAttributes, axis: Stretch) -> tuple[Places, Reals]:
    """The source elements that each target element mixes, and their weights."""
    _, kernel = KERNELS[asked.mode]
    # Antialiasing widens the kernel when the axis shrinks.
    shrink = min(axis.scale, 1.0) if asked.antialias else 1.0
    reach = reach_of(asked, axis) // 2
    at = coordinates(asked, axis)[:, None]
    places = np.floor(at).astype(np.int64) + np.arange(1 - reach, reach + 1)
    weights = kernel((places - at) * shrink, asked.cubic_coeff_a)
    if asked.exclude_outside:
        weights = np.where((places < 0) | (places >= axis.source), 0, weights)
    if asked.exclude_outside or asked.antialias:
        sums = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(sums == 0, 1, sums)
    return np.clip(places, 0, axis.source - 1), weights
