"""From what is known of a value to the range that its integers stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from weft.errors import UserError
from weft.quantize.config import CalibrationMethod, QuantizationConfig
from weft.quantize.histogram import HALF, RunningHistogram
from weft.quantize.scheme import QuantizationScheme

Bounds: TypeAlias = tuple[float, float]
_FRACTIONS = np.linspace(1.0, 0.02, 50)
_REFINED = np.linspace(1.02, 0.98, 9)
_ROUNDS = 3


def calibrated(
    found: RunningHistogram, scheme: QuantizationScheme, config: QuantizationConfig
) -> Bounds:
    """The range of an activation.

    Args:
        found: what is known of it.
        scheme: of the integers.
        config: has the method.

    Raises:
        UserError: there were no samples.
    """
    if not found.samples:
        raise UserError("quantize: at least one sample is needed", got="none")
    return _METHODS[config.calibration](found, scheme, config)


def _min_max(found: RunningHistogram, _: QuantizationScheme, __: QuantizationConfig) -> Bounds:
    return found.low, found.high


def _moving_average(
    found: RunningHistogram, _: QuantizationScheme, __: QuantizationConfig
) -> Bounds:
    return found.mean_low, found.mean_high


def _percentile(
    found: RunningHistogram, _: QuantizationScheme, config: QuantizationConfig
) -> Bounds:
    """All but a share of the elements at each end."""
    outside = 1 - config.percentile / 100
    low, high = found.quantile(outside), found.quantile(1 - outside)
    # The lower end of the bin, where the quantile is its upper end.
    return max(found.low, min(low - found.width, 0.0)), high


def _mse(found: RunningHistogram, scheme: QuantizationScheme, _: QuantizationConfig) -> Bounds:
    """The range with the smallest mean squared error of what is rounded and held within it."""
    used = found.counts > 0
    return smallest_error(found.centers[used], found.counts[used], scheme, (found.low, found.high))


def smallest_error(
    x: np.ndarray, counts: np.ndarray, scheme: QuantizationScheme, most: Bounds
) -> Bounds:
    """The range with the smallest squared error for numbers.

    Both ends are moved together first, then each on its own: over the whole range, and near the
    best.

    Args:
        x: numbers.
        counts: how many there are of each.
        scheme: per tensor.
        most: the widest range to consider.
    """

    def error(bounds: Bounds) -> float:
        rounded = scheme.parameters(*bounds).rounded(x)
        return float(np.sum(counts * (rounded - x) ** 2))

    low, high = min(most[0], 0.0), max(most[1], 0.0)
    best = min(((low * f, high * f) for f in _FRACTIONS), key=error)
    if not scheme.symmetric:
        for _ in range(_ROUNDS):
            best = min((best, *((low * f, best[1]) for f in _FRACTIONS)), key=error)
            best = min((best, *((best[0], high * f) for f in _FRACTIONS)), key=error)
    best = min(((max(low, best[0] * f), best[1]) for f in _REFINED), key=error)
    return min(((best[0], min(high, best[1] * f)) for f in _REFINED), key=error)


def _kl(found: RunningHistogram, scheme: QuantizationScheme, _: QuantizationConfig) -> Bounds:
    """The range that loses the least information.

    Migacz, *8-bit inference with TensorRT* (2017): the threshold whose quantized distribution
    has the smallest Kullback-Leibler divergence from that of the elements.
    """
    negative, positive = found.counts[HALF - 1 :: -1], found.counts[HALF:]
    two_sided = found.low < 0 < found.high
    levels = 1 << (scheme.bits - two_sided)
    limit = _threshold(negative + positive, levels) * found.width
    return max(found.low, -limit), min(found.high, limit)


def _threshold(counts: np.ndarray, levels: int) -> int:
    """The number of bins, from 0 on, at which the divergence is smallest."""
    known = counts.astype(np.float64)
    # 0 is exact at any threshold, and what activations cut off must not outweigh the rest.
    known[0] = known[1]
    last = int(np.flatnonzero(known)[-1]) + 1 if known.any() else 1
    if last <= levels:
        return last
    tried = np.unique(np.linspace(levels, last, 200).astype(int))
    return int(min(tried, key=lambda count: _divergence(known[:last], int(count), levels)))


def _divergence(counts: np.ndarray, count: int, levels: int) -> float:
    """From the distribution below a threshold to what so many levels leave of it."""
    kept = counts[:count]
    expected = kept.copy()
    expected[-1] += counts[count:].sum()
    groups = np.arange(count) * levels // count
    used = kept > 0
    sums = np.bincount(groups, kept, levels)
    shares = np.bincount(groups, used.astype(np.float64), levels)
    spread = np.where(used, (sums / np.maximum(shares, 1))[groups], 0.0)
    return _relative_entropy(_smoothed(expected), _smoothed(spread))


def _smoothed(counts: np.ndarray) -> np.ndarray:
    """A distribution without zeros."""
    total = counts.sum()
    found = counts / total if total else np.full(counts.shape, 1 / counts.size)
    return (found + 1e-7) / (1 + 1e-7 * found.size)


def _relative_entropy(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sum(one * np.log(one / other)))


Calibrator: TypeAlias = Callable[[RunningHistogram, QuantizationScheme, QuantizationConfig], Bounds]

_METHODS: Mapping[CalibrationMethod, Calibrator] = MappingProxyType(
    {
        "min-max": _min_max,
        "moving-average": _moving_average,
        "percentile": _percentile,
        "mse": _mse,
        "kl": _kl,
    }
)


# --- weights --------------------------------------------------------------------------------


def weight_bounds(
    weight: np.ndarray, scheme: QuantizationScheme, method: str
) -> tuple[np.ndarray, np.ndarray]:
    """The ranges of a weight: one for each position along the scheme's axis, or one.

    Args:
        weight: in floating point.
        scheme: of its integers.
        method: ``min-max`` or ``mse``.
    """
    rows = (
        weight.reshape(1, -1)
        if scheme.axis is None
        else np.moveaxis(weight, scheme.axis, 0).reshape(weight.shape[scheme.axis], -1)
    )
    low, high = rows.min(axis=1), rows.max(axis=1)
    if method == "mse":
        single = scheme.along(None)
        ones = np.ones(rows.shape[1])
        ends = [
            smallest_error(row, ones, single, (float(a), float(b)))
            for row, a, b in zip(rows, low, high, strict=True)
        ]
        low, high = (np.array(each) for each in zip(*ends, strict=True))
    if scheme.axis is None:
        return low.reshape(()), high.reshape(())
    return _with_zeros(low, high)


def _with_zeros(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ranges in which outputs without weights have a usual one, so that biases keep their bits."""
    size = np.maximum(np.abs(low), np.abs(high))
    if size.all() or not size.any():
        return low, high
    usual = float(np.median(size[size > 0]))
    return np.where(size > 0, low, -usual), np.where(size > 0, high, usual)
