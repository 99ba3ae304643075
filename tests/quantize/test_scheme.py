"""Schemes: limits, scales, zero points, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.turns import examples
from weft.dtypes import DType
from weft.errors import UserError
from weft.quantize.scheme import ACTIVATIONS, WEIGHTS, QuantizationScheme


@pytest.mark.parametrize(
    ("scheme", "limits", "dtype"),
    [
        (ACTIVATIONS, (-128, 127), DType.I8),
        (WEIGHTS, (-127, 127), DType.I8),
        (QuantizationScheme(bits=4, symmetric=True, narrow=True), (-7, 7), DType.I8),
        (QuantizationScheme(bits=4), (-8, 7), DType.I8),
        (QuantizationScheme(signed=False), (0, 255), DType.U8),
        (QuantizationScheme(bits=16, symmetric=True), (-32768, 32767), DType.I16),
    ],
)
def test_limits_and_storage(scheme, limits, dtype):
    assert (scheme.limits, scheme.dtype) == (limits, dtype)


def test_asymmetric_parameters_hold_the_range_and_are_exact_at_0():
    found = ACTIVATIONS.parameters(-1.0, 3.0)
    assert found.scale == np.float32(4 / 255)
    assert found.zero_point == -64
    assert found.rounded(np.zeros(3, np.float32)).tolist() == [0, 0, 0]
    low, high = found.range
    assert low <= -1.0 + found.scale / 2
    assert high >= 3.0 - found.scale / 2


def test_a_range_above_0_is_widened_to_0():
    found = ACTIVATIONS.parameters(2.0, 5.1)
    assert (found.scale, found.zero_point) == (np.float32(0.02), -128)


def test_symmetric_parameters_use_the_larger_side():
    assert WEIGHTS.parameters(-2.54, 1.0).scale == np.float32(0.02)
    wide = QuantizationScheme(symmetric=True).parameters(-2.56, 1.0)
    assert (wide.scale, wide.zero_point) == (np.float32(0.02), 0)
    assert QuantizationScheme(signed=False, symmetric=True).parameters(0, 5.1).scale == np.float32(
        0.02
    )


def test_one_scale_for_each_position():
    array = np.array([[1.27, -0.5], [0.1, 0.254]], np.float32)
    found = WEIGHTS.along(0).parameters(array.min(1), array.max(1))
    np.testing.assert_allclose(found.scale, [0.01, 0.002], rtol=1e-6)
    assert found.quantize(array).tolist() == [[127, -50], [50, 127]]
    np.testing.assert_allclose(found.rounded(array), array, atol=0.005)


def test_nothing_but_0_is_a_range():
    found = ACTIVATIONS.parameters(0.0, 0.0)
    assert found.scale > 0
    assert found.rounded(np.zeros(2, np.float32)).tolist() == [0, 0]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.integers(2, 16),
    st.booleans(),
    st.floats(-1e6, 1e6, width=32),
    st.floats(-1e6, 1e6, width=32),
)
def test_what_is_within_the_range_is_half_a_step_away(bits, symmetric, one, other):
    scheme = QuantizationScheme(bits=bits, symmetric=symmetric)
    found = scheme.parameters(min(one, other), max(one, other))
    x = np.linspace(min(one, other), max(one, other), 50, dtype=np.float32)
    # The zero point is rounded, so the ends of the range may be half a step outside.
    assert np.abs(found.rounded(x) - x).max() <= 1.01 * found.scale


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QuantizationScheme(bits=1), "quantize: a scheme has 2 to 16 bits; got 1"),
        (
            lambda: QuantizationScheme(signed=False, narrow=True),
            "quantize: only signed schemes can be narrow; got unsigned, narrow",
        ),
        (
            lambda: ACTIVATIONS.parameters(1.0, float("nan")),
            "quantize: a range must be finite, its lower end first; got [1, nan]",
        ),
        (
            lambda: WEIGHTS.along(0).parameters(np.array([0, 2.0]), np.array([1, 1.0])),
            "quantize: a range must be finite, its lower end first; got [2, 1]",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(UserError) as found:
        make()
    assert str(found.value) == message
