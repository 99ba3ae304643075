"""What a page says of a constant: few numbers, whatever its size."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.ir.types import TensorType
from weft.records import dataclass

BINS = 32
MOST_SHOWN = 8
MOST_SAMPLED = 1 << 18
MOST_HISTOGRAMS = 4000


@dataclass(frozen=True, slots=True)
class Summary:
    """A constant in a few numbers.

    Attributes:
        type: element type and shape.
        values: the elements if they are few.
        low: the least finite element; high: the greatest; mean, deviation: of those sampled.
        zeros: the share of zeros, from 0 to 1; strange: how many are not finite.
        bins: how many of those sampled are in each of as many equal intervals from low to high.
        size: how many elements there are.
        sampled: how many of them the figures are of, evenly spread; all if they are not many.
    """

    type: str
    values: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    zeros: float = 0.0
    strange: int = 0
    bins: tuple[int, ...] = ()
    size: int = 0
    sampled: int = 0


def summary(array: np.ndarray, type: TensorType) -> Summary:
    """The figures of a constant."""
    flat = array.reshape(-1)
    if flat.size <= MOST_SHOWN:
        return Summary(str(type), tuple(float(each) for each in flat.tolist()))
    sample = flat[:: -(-flat.size // MOST_SAMPLED)].astype(np.float64)
    finite = sample[np.isfinite(sample)]
    if not finite.size:
        return Summary(str(type), strange=sample.size, size=flat.size, sampled=sample.size)
    low, high = float(finite.min()), float(finite.max())
    # In units of the greatest, so that no sum overflows.
    unit = max(abs(low), abs(high)) or 1.0
    scaled = finite / unit
    return Summary(
        str(type),
        low=low,
        high=high,
        mean=float(scaled.mean()) * unit,
        deviation=float(scaled.std()) * unit,
        zeros=float((sample == 0).mean()),
        strange=sample.size - finite.size,
        bins=_counts(finite, low, high),
        size=flat.size,
        sampled=sample.size,
    )


def _counts(finite: np.ndarray, low: float, high: float) -> tuple[int, ...]:
    """A histogram; also where the range is too narrow or too wide to be divided."""
    width = high - low
    if not np.isfinite(width) or low + width / BINS == low:
        return (int(finite.size),)
    places = np.clip(((finite - low) / width * BINS).astype(np.int64), 0, BINS - 1)
    return tuple(np.bincount(places, minlength=BINS).tolist())


def summaries(
    constants: Mapping[str, np.ndarray], types: Mapping[str, TensorType]
) -> dict[str, Summary]:
    """The figures of all constants; of very many, only the types of the rest."""
    found: dict[str, Summary] = {}
    for place, (name, array) in enumerate(constants.items()):
        whole = place < MOST_HISTOGRAMS
        found[name] = summary(array, types[name]) if whole else Summary(str(types[name]))
    return found
