"""How far arrays are from what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """One value compared with its reference.

    Attributes:
        value: its name.
        type: element type and shape, as NumPy says it.
        largest: largest absolute difference; infinite where one side alone is not finite.
        range: largest minus smallest of the reference's finite elements, or the largest
            magnitude where that is more.
        elements: how many differ at all.
        size: how many there are.
    """

    value: str
    type: str
    largest: float
    range: float
    elements: int
    size: int

    @property
    def relative(self) -> float:
        """The largest difference over the range."""
        if self.largest == 0:
            return 0.0
        return self.largest / self.range if self.range > 0 else float("inf")

    def record(self) -> dict[str, str | int | float]:
        """Plain data, for JSON."""
        return {**asdict(self), "relative": self.relative}


def compare(value: str, found: np.ndarray, expected: np.ndarray) -> Difference:
    """Compares two arrays; another shape or element type is an infinite difference."""
    type = f"{expected.dtype}{list(expected.shape)}"
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return Difference(value, type, float("inf"), 0.0, expected.size, expected.size)
    if expected.size == 0:
        return Difference(value, type, 0.0, 0.0, 0, 0)
    wide = np.result_type(np.float64)
    left, right = found.astype(wide), expected.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(left - right)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    gaps = np.where(same, 0.0, np.where(np.isfinite(gaps), gaps, np.inf))
    finite = right[np.isfinite(right)]
    span = 0.0
    if finite.size:
        span = max(float(finite.max() - finite.min()), float(np.abs(finite).max()))
    return Difference(
        value, type, float(gaps.max()), span, int(np.count_nonzero(gaps)), expected.size
    )


def compare_all(
    found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]
) -> list[Difference]:
    """Compares what both have, in the order of ``found``."""
    return [compare(name, found[name], expected[name]) for name in found if name in expected]
