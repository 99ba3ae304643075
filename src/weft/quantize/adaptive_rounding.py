"""Weights rounded up or down as the layer's output is best, not each to the nearest.

Nagel et al., *Up or down? Adaptive rounding for post-training quantization* (ICML 2020). The error
of a layer's output is quadratic in the error of its weights: for a row d of it, ``d H d'``, where H
is the mean product of the layer's columns. Whether a weight is rounded up is relaxed to a rectified
sigmoid, which a regularizer drives to 0 or 1, and minimized by Adam (Kingma and Ba, 2015).
Single changes that make the error smaller come last, so the result is never worse than rounding to
the nearest.
"""

from __future__ import annotations

import numpy as np

from weft.quantize.scheme import QuantizationParameters
from weft.records import dataclass

STEPS, _LEAST_STEPS = 1000, 100
_WORK = 400_000_000_000
"""Multiply-accumulates that the optimizer may take for one layer; large layers take fewer steps."""
_ZETA, _GAMMA = 1.1, -0.1
_WARM, _BETA = 0.2, (20.0, 2.0)
_RATE, _WEIGHT = 0.02, 0.1
_FLIPS = 20
"""Passes of single changes, as many for each row as it has weights, at the most."""


@dataclass(frozen=True)
class RoundingResult:
    """How the weights of a layer are rounded.

    Attributes:
        integers: [groups, outputs, depth].
        nearest: mean squared error of the layer's output with weights rounded to the nearest.
        adapted: the same with these.
    """

    integers: np.ndarray
    nearest: float
    adapted: float


def adapted_rows(
    rows: np.ndarray,
    scale: np.ndarray,
    limits: tuple[int, int],
    second: np.ndarray,
    *,
    steps: int | None = None,
) -> RoundingResult:
    """Rounds the rows of a layer's weight.

    Args:
        rows: in floating point, [groups, outputs, depth].
        scale: of the integers; broadcasts to the rows.
        limits: the smallest and the largest integer.
        second: mean product of the columns, [groups, depth, depth].
        steps: of the optimizer; 1000, or fewer for large layers, if not given.
    """
    if steps is None:
        each = rows.size * rows.shape[-1]
        steps = max(_LEAST_STEPS, min(STEPS, _WORK // max(each, 1)))
    exact = rows.astype(np.float64) / scale
    nearest = np.clip(np.rint(exact), *limits)
    # In units of integers, each row's error weighs as that with nearest rounding.
    before = _errors(nearest - exact, second)
    relaxed = _relaxed(exact, limits, second, before, steps)
    tried = [_improved(each, exact, limits, second) for each in (relaxed, nearest)]
    first, other = (_errors(each - exact, second) for each in tried)
    best = np.where((first <= other)[..., None], *tried)
    weigh = np.broadcast_to(scale, rows.shape)[..., 0] ** 2
    after = _errors(best - exact, second)
    return RoundingResult(
        best.astype(np.int64), float(np.sum(before * weigh)), float(np.sum(after * weigh))
    )


def _errors(difference: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The squared error of each output, [groups, outputs]."""
    return np.maximum(np.sum((difference @ second) * difference, axis=-1), 0.0)


def _relaxed(
    exact: np.ndarray,
    limits: tuple[int, int],
    second: np.ndarray,
    before: np.ndarray,
    steps: int,
) -> np.ndarray:
    """What the relaxation settles for."""
    floor = np.floor(exact)
    part = np.clip((exact - floor - _GAMMA) / (_ZETA - _GAMMA), 1e-6, 1 - 1e-6)
    v = np.log(part / (1 - part)).astype(np.float32)
    weigh = (1 / np.maximum(before, 1e-12))[..., None].astype(np.float32)
    # f32 is enough for gradients, and twice as fast.
    products, offset = second.astype(np.float32), (floor - exact).astype(np.float32)
    inside = (floor >= limits[0]) & (floor < limits[1])
    m, n = np.zeros_like(v), np.zeros_like(v)
    for step in range(1, steps + 1):
        sigmoid = 1 / (1 + np.exp(-v))
        h = np.clip(sigmoid * (_ZETA - _GAMMA) + _GAMMA, 0, 1)
        gradient = 2 * weigh * ((offset + h) @ products)
        progress = (step / steps - _WARM) / (1 - _WARM)
        if progress > 0:
            beta = _BETA[1] + (_BETA[0] - _BETA[1]) * 0.5 * (1 + np.cos(np.pi * progress))
            away = 2 * h - 1
            gradient -= _WEIGHT * beta * 2 * np.sign(away) * np.abs(away) ** (beta - 1)
        slope = np.where((h > 0) & (h < 1), sigmoid * (1 - sigmoid) * (_ZETA - _GAMMA), 0)
        gradient = gradient * slope
        m += 0.1 * (gradient - m)
        n += 0.001 * (gradient**2 - n)
        corrected = (m / (1 - 0.9**step)) / (np.sqrt(n / (1 - 0.999**step)) + 1e-12)
        v -= np.float32(_RATE) * corrected
    up = np.clip(1 / (1 + np.exp(-v)) * (_ZETA - _GAMMA) + _GAMMA, 0, 1) >= 0.5
    return np.clip(floor + (up & inside), *limits)


def _improved(
    whole: np.ndarray, exact: np.ndarray, limits: tuple[int, int], second: np.ndarray
) -> np.ndarray:
    """The integers after single changes between the two neighbours of the exact number.

    In every pass each row makes the one change that reduces its error most.
    """
    low = np.clip(np.floor(exact), *limits)
    high = np.clip(np.ceil(exact), *limits)
    diagonal = np.diagonal(second, axis1=1, axis2=2)[:, None, :]
    found = whole.copy()
    slope = 2 * ((found - exact) @ second)
    groups, outputs = np.indices(found.shape[:2])
    for _ in range(_FLIPS * int(np.sqrt(found.shape[-1])) + _FLIPS):
        change = np.where(found <= low, high - found, low - found)
        gain = change * slope + change**2 * diagonal
        place = gain.argmin(axis=-1)
        best = np.take_along_axis(gain, place[..., None], -1)[..., 0]
        made = np.where(best < -1e-12, change[groups, outputs, place], 0.0)
        if not made.any():
            break
        found[groups, outputs, place] += made
        slope += 2 * made[..., None] * second[groups, place]
    return found


def scale_of_rows(given: QuantizationParameters, shape: tuple[int, ...]) -> np.ndarray:
    """The scales of a weight for its rows [groups, outputs, depth], f64."""
    scale = given.scale.astype(np.float64)
    return scale if scale.ndim == 0 else scale.reshape(shape[0], shape[1], 1)
