"""What is known of the elements of one value, collected sample by sample in little memory."""

from __future__ import annotations

from dataclasses import field
from math import inf

import numpy as np

from weft.errors import UserError
from weft.records import dataclass

HALF = 2048
"""Bins on each side of 0; at least a half of those of the longer side are in use."""


def _no_counts() -> np.ndarray:
    return np.zeros(2 * HALF, np.int64)


@dataclass
class RunningHistogram:
    """A histogram whose bins grow with the range, so that one pass over samples is enough.

    Bin n has the elements in ``[(n - HALF) * width, (n + 1 - HALF) * width)``. Where an element
    falls outside, pairs of bins become one, and the width doubles.

    Attributes:
        momentum: of the moving averages, the weight of what came before each sample.
        low: the smallest element; high: the largest.
        mean_low: moving average of the smallest elements of samples; mean_high: of the largest.
        samples: how many there were.
        width: of a bin.
        counts: elements in each bin.
    """

    momentum: float = 0.9
    low: float = inf
    high: float = -inf
    mean_low: float = 0.0
    mean_high: float = 0.0
    samples: int = 0
    width: float = 0.0
    counts: np.ndarray = field(default_factory=_no_counts)

    def add(self, x: np.ndarray, name: str = "value") -> None:
        """Adds the elements of a sample.

        Args:
            x: at least one element.
            name: of the value, for errors.

        Raises:
            UserError: an element is not finite.
        """
        low, high = float(x.min()), float(x.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise UserError(
                f"quantize: {name} must be finite in all samples",
                got="NaN" if np.isnan(low) or np.isnan(high) else "infinity",
                where=f"sample {self.samples}",
            )
        keep = self.momentum if self.samples else 0.0
        self.mean_low = keep * self.mean_low + (1 - keep) * low
        self.mean_high = keep * self.mean_high + (1 - keep) * high
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.samples += 1
        self._widen(max(-self.low, self.high, 0.0))
        if self.width:
            places = np.floor(x.reshape(-1).astype(np.float64) / self.width).astype(np.int64) + HALF
            places = np.clip(places, 0, 2 * HALF - 1)
            self.counts += np.bincount(places, minlength=2 * HALF)
        else:
            self.counts[HALF] += x.size

    def _widen(self, largest: float) -> None:
        if not self.width:
            # A little more than needed: the largest element itself has a bin, too.
            self.width = largest * (1 + 1e-6) / HALF
            return
        while largest >= self.width * HALF:
            self.width *= 2
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = _no_counts()
            self.counts[HALF // 2 : HALF // 2 + HALF] = pairs

    @property
    def total(self) -> int:
        """How many elements there were."""
        return int(self.counts.sum())

    @property
    def edges(self) -> np.ndarray:
        """The lower ends of the bins, and the upper end of the last one."""
        return (np.arange(2 * HALF + 1) - HALF) * self.width

    @property
    def centers(self) -> np.ndarray:
        """The middles of the bins, held within the range of the elements."""
        return np.clip((np.arange(2 * HALF) - HALF + 0.5) * self.width, self.low, self.high)

    def quantile(self, share: float) -> float:
        """The number that a share of the elements, 0 to 1, lie below, to within a bin."""
        sums = np.cumsum(self.counts)
        wanted = np.asarray(share * float(sums[-1]))
        place = int(np.searchsorted(sums, wanted))
        edge = (min(place, 2 * HALF - 1) + 1 - HALF) * self.width
        return float(np.clip(edge, self.low, self.high))
