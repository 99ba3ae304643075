"""Weights in 28 bits: what is taken apart again is what was put in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.turns import examples
from weft.errors import InternalError
from weft.kernels.encodings.fewer_bits import (
    FRACTION,
    GROUP,
    KEPT,
    PLACES,
    SIGN,
    SIZE,
    SPARE,
    EncodedWindow,
    FewerBits,
    window_of,
    word_rows,
)
from weft.plan.implementation import Encoded, Packing


def unpacked(words: np.ndarray, rows: int, window: EncodedWindow) -> np.ndarray:
    """The weights of a block, as kernels take them apart."""
    first = np.uint32(window.first << FRACTION)
    whole = rows // GROUP * GROUP
    found = np.empty((rows, words.shape[1]), np.float32)
    for group in range(whole // GROUP):
        rest = np.zeros(words.shape[1], np.uint32)
        for row in range(GROUP - 1):
            word = words[group * (GROUP - 1) + row]
            found[group * GROUP + row] = ((word & np.uint32(KEPT)) + first).view(np.float32)
            rest = rest >> np.uint32(4) | word & np.uint32(SPARE)
        last = rest << np.uint32(1) & np.uint32(SIGN) | rest >> np.uint32(3) & np.uint32(SIZE)
        found[group * GROUP + GROUP - 1] = (last + first).view(np.float32)
    found[whole:] = words[word_rows(whole) :].view(np.float32)
    return found


def matrix(seed: int, rows: int, lanes: int, small: int) -> np.ndarray:
    """Normal weights, some of which are zero, subnormal or tiny."""
    random = np.random.default_rng(seed)
    weights = random.standard_normal((rows, lanes)).astype(np.float32)
    for _ in range(small):
        tiny = random.choice([0.0, -0.0, 1e-9, -3e-6, 1e-40, -1e-45])
        weights[random.integers(rows), random.integers(lanes)] = tiny
    return weights * np.float32(random.choice([1.0, 0.003, 1e-30, 1e30]))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(0, 12),
    st.booleans(),
    st.integers(0, 2),
)
def test_every_weight_comes_back(seed, rows, lanes, small, across, start):
    weights = matrix(seed, rows, lanes, small)
    start = min(start, lanes - 1)
    array = np.ascontiguousarray(weights.T) if across else weights
    axis = 0 if across else 1
    window = window_of(array, array.shape, axis)
    if window is None:
        assert not weights[: rows // GROUP * GROUP].any()
        return
    least = np.float32(2.0 ** (window.first - 127))
    outside = np.abs(weights) < least
    outside[rows // GROUP * GROUP :] = False
    assert window.most == outside.sum(axis=0).max()
    blocks, width = lanes - start, 1
    if blocks % 2 == 0:
        blocks, width = blocks // 2, 2
    packing = Packing(array.shape, axis, (1 - axis,), start, blocks, width)
    made: list[np.ndarray] = []
    for part in FewerBits(window).parts(packing, (width,)):
        encoded = Encoded(FewerBits(window), part.name, packing, (width,))
        made.append(encoded.apply(array))
        assert encoded.stored == part
        assert part.shape == made[-1].shape
        assert part.dtype.numpy == made[-1].dtype
    words, *fixes = made
    assert len(fixes) == (2 if window.most else 0)
    for block in range(blocks):
        lane = slice(start + block * width, start + (block + 1) * width)
        found, wanted = unpacked(words[block], rows, window), weights[:, lane]
        inside = ~outside[:, lane]
        np.testing.assert_array_equal(found[inside], wanted[inside])
        assert (found[~inside] == least).all()
        found = found.astype(np.float64)
        for turn in range(window.most):
            places, changes = (each[block, turn] for each in fixes)
            found[places, np.arange(width)] += changes
        error = np.abs(found - wanted).max()
        assert error <= 2.0**-39 * np.abs(weights).max()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_window(wrong):
    weights = np.ones((9, 3), np.float32)
    weights[7, 2] = wrong
    assert window_of(weights, weights.shape, 1) is None
    assert window_of(np.zeros((9, 3), np.float32), (9, 3), 1) is None


def test_a_window_is_looked_for_once():
    weights = np.ones((9, 3), np.float32)
    found = window_of(weights, weights.shape, 1)
    assert found == EncodedWindow(112, 0)
    assert window_of(weights, weights.shape, 1) is found
    # Another array may come to lie where one was.
    for value in range(1, 20):
        other = np.full((9, 3), 2.0**value, np.float32)
        assert window_of(other, other.shape, 1) == EncodedWindow(112 + value, 0)
        del other


def test_very_small_weights_have_a_window_of_normal_numbers():
    weights = np.full((9, 3), 1e-37, np.float32)
    weights[3, 1] = 1e-39
    assert window_of(weights, weights.shape, 1) == EncodedWindow(1, 1)


def test_more_small_weights_than_were_counted_are_our_mistake():
    weights = np.zeros((9, 3), np.float32)
    packing = Packing((9, 3), 1, (0,), 0, 1, 3)
    encoded = Encoded(FewerBits(EncodedWindow(112, 2)), PLACES, packing, (3,))
    with pytest.raises(InternalError, match="more weights are outside"):
        encoded.apply(weights)
