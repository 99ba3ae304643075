"""Calibration: histograms that grow, and the ranges that the methods choose."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import UserError
from weft.quantize.calibrators import calibrated, weight_bounds
from weft.quantize.config import METHODS, QuantizationConfig
from weft.quantize.histogram import HALF, RunningHistogram
from weft.quantize.scheme import ACTIVATIONS, WEIGHTS, QuantizationScheme

FOUR = QuantizationScheme(bits=4)


def collected(*samples: np.ndarray, momentum: float = 0.9) -> RunningHistogram:
    found = RunningHistogram(momentum)
    for each in samples:
        found.add(np.asarray(each, np.float32))
    return found


def bounds(found: RunningHistogram, method: str, scheme=ACTIVATIONS, **more) -> tuple[float, float]:
    return calibrated(found, scheme, QuantizationConfig(calibration=method, **more))


def test_a_histogram_grows_and_loses_no_element():
    rng = np.random.default_rng(0)
    samples = [rng.normal(0, size, 1000) for size in (0.01, 1, 30, 0.1)]
    found = collected(*samples)
    every = np.concatenate(samples).astype(np.float32)
    assert (found.low, found.high) == (every.min(), every.max())
    assert found.total == every.size
    expected, _ = np.histogram(every, found.edges)
    # Rounding may put an element at an edge into the next bin.
    assert np.abs(expected - found.counts).sum() <= 8
    assert np.abs(every).max() < found.width * HALF <= 2.01 * np.abs(every).max()


def test_nothing_but_zeros():
    found = collected(np.zeros(5), np.zeros(3))
    assert (found.total, found.low, found.high) == (8, 0, 0)
    for method in METHODS:
        assert bounds(found, method) == (0, 0)


def test_zeros_first():
    found = collected(np.zeros(5), np.array([1.0, -2.0]))
    assert found.total == 7
    assert found.counts[HALF] == 5


def test_min_max_and_moving_average():
    found = collected([-1, 2], [-3, 4], momentum=0.5)
    assert bounds(found, "min-max") == (-3, 4)
    assert bounds(found, "moving-average") == (-2, 3)


def test_percentiles_leave_out_outliers():
    found = collected(np.append(np.linspace(-1, 1, 9998), [-100, 100]))
    low, high = bounds(found, "percentile", percentile=99.9)
    assert -1.2 < low < -0.9
    assert 0.9 < high < 1.2
    assert bounds(found, "percentile", percentile=100.0) == (-100, 100)


@pytest.mark.parametrize(("method", "scheme"), [("mse", FOUR), ("kl", ACTIVATIONS)])
def test_a_few_outliers_do_not_widen_the_range(method, scheme):
    rng = np.random.default_rng(1)
    found = collected(np.append(rng.normal(0, 1, 100_000), [60.0]))
    low, high = bounds(found, method, scheme)
    assert -6 < low <= found.quantile(0.05)
    assert 1.5 < high < 12


def test_the_smallest_error_is_no_larger_than_that_of_other_methods():
    rng = np.random.default_rng(2)
    x = np.maximum(rng.laplace(0.3, 1, 50_000), -0.2).astype(np.float32)
    found = collected(x)

    def error(method):
        rounded = FOUR.parameters(*bounds(found, method, FOUR)).rounded(x)
        return float(np.mean((rounded - x) ** 2))

    errors = {method: error(method) for method in METHODS}
    assert min(errors.values()) >= 0.98 * errors["mse"]
    assert errors["mse"] < 0.7 * errors["min-max"]


def test_a_range_on_one_side_of_0_stays_there():
    found = collected(np.abs(np.random.default_rng(3).normal(0, 1, 10_000)))
    for method in METHODS:
        low, high = bounds(found, method)
        assert low >= 0
        assert 2 < high < 5


def test_weights_by_output():
    weight = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [4.0, 0.0, -1.0]], np.float32)
    low, high = weight_bounds(weight, WEIGHTS.along(0), "min-max")
    # An output without weights has the usual range.
    assert low.tolist() == [-2, -3, -1]
    assert high.tolist() == [1, 3, 4]
    low, high = weight_bounds(weight, WEIGHTS.along(None), "min-max")
    assert (low, high) == (-2, 4)


def test_weights_with_an_outlier_lose_less_with_a_narrower_range():
    rng = np.random.default_rng(4)
    weight = np.append(rng.normal(0, 1, 500), 8).reshape(1, -1).astype(np.float32)
    scheme = QuantizationScheme(bits=4, symmetric=True, narrow=True, axis=0)
    errors = {
        method: float(
            np.mean(
                (scheme.parameters(*weight_bounds(weight, scheme, method)).rounded(weight) - weight)
                ** 2
            )
        )
        for method in ("min-max", "mse")
    }
    assert errors["mse"] < 0.6 * errors["min-max"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RunningHistogram().add(np.array([1, np.nan]), "x"),
            "quantize: x must be finite in all samples; got NaN (sample 0)",
        ),
        (
            lambda: RunningHistogram().add(np.array([1, np.inf]), "x"),
            "quantize: x must be finite in all samples; got infinity (sample 0)",
        ),
        (
            lambda: bounds(RunningHistogram(), "mse"),
            "quantize: at least one sample is needed; got none",
        ),
        (
            lambda: QuantizationConfig(calibration="entropy"),
            "quantize: calibration is one of min-max, moving-average, percentile, mse, kl; "
            "got entropy",
        ),
        (
            lambda: QuantizationConfig(percentile=20),
            "quantize: percentile must be above 50 and at most 100; got 20",
        ),
        (
            lambda: QuantizationConfig(momentum=1),
            "quantize: momentum must be within [0, 1); got 1",
        ),
        (
            lambda: QuantizationConfig(weight_calibration="kl"),
            "quantize: weight_calibration is min-max or mse; got kl",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(UserError) as found:
        make()
    assert str(found.value) == message
