"""Summaries of constants: right where small, bounded where large, whatever the numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.pictures import constants as weights_module
from weft.pictures.constants import BINS, summaries, summary


def of(array: np.ndarray):
    return summary(array, TensorType(DType.F32, array.shape))


def test_few_elements_are_listed():
    found = of(np.array([[1.5, -2.0]], np.float32))
    assert found.type == "f32[1,2]"
    assert found.values == (1.5, -2.0)
    assert found.bins == ()


def test_the_histogram_is_numpys():
    array = np.random.default_rng(0).normal(size=(7, 300)).astype(np.float32)
    array[0, :21] = 0
    found = of(array)
    assert (found.low, found.high) == (float(array.min()), float(array.max()))
    assert found.mean == pytest.approx(array.mean(dtype=np.float64))
    assert found.deviation == pytest.approx(array.std(dtype=np.float64))
    assert found.zeros == 21 / 2100
    assert (found.size, found.sampled) == (2100, 2100)
    expected, _ = np.histogram(array.astype(np.float64), BINS)
    assert sum(found.bins) == 2100
    assert np.abs(np.array(found.bins) - expected).max() <= 1  # at the edges of bins


def test_large_arrays_are_sampled(monkeypatch):
    monkeypatch.setattr(weights_module, "MOST_SAMPLED", 100)
    found = of(np.arange(1001, dtype=np.float32))
    assert (found.size, found.sampled) == (1001, 91)
    assert (found.low, found.high, sum(found.bins)) == (0, 990, 91)


def test_numbers_that_are_none():
    found = of(np.array([np.nan, np.inf, *range(10)], np.float32))
    assert (found.strange, found.low, found.high, sum(found.bins)) == (2, 0, 9, 10)
    none = of(np.full(20, np.nan, np.float32))
    assert (none.strange, none.bins, none.sampled) == (20, (), 20)


@pytest.mark.parametrize("array", [np.full(9, 3.0), np.array([-1.7e308] * 5 + [1.7e308] * 5)])
def test_ranges_that_cannot_be_divided(array):
    assert of(array).bins == (array.size,)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16, ml_dtypes.bfloat16])
def test_all_kinds_of_elements(dtype):
    found = of(np.array([0, 1] * 10).astype(dtype))
    assert (found.low, found.high, found.zeros) == (0, 1, 0.5)
    assert (found.bins[0], found.bins[-1]) == (10, 10)


def test_of_very_many_constants_only_types_are_said(monkeypatch):
    monkeypatch.setattr(weights_module, "MOST_HISTOGRAMS", 1)
    arrays = {name: np.zeros(20, np.float32) for name in "ab"}
    found = summaries(arrays, dict.fromkeys(arrays, TensorType(DType.F32, (20,))))
    assert [each.sampled for each in found.values()] == [20, 0]
