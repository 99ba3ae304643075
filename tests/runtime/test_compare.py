"""Differences of arrays, those with infinities and NaNs included."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.runtime.compare import Difference, compare, compare_all

INF, NAN = math.inf, math.nan


def of(found: list[float], expected: list[float]) -> Difference:
    return compare("v", np.array(found, np.float32), np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("found", "expected", "largest", "span", "elements"),
    [
        ([1, 2, 4], [1, 2, 3], 1, 3, 1),
        ([0, 0], [-2, 2], 2, 4, 2),
        ([INF, NAN, 1], [INF, NAN, 1], 0, 1, 0),
        ([-INF, 1], [INF, 1], INF, 1, 1),
        ([NAN, 1], [0, 1], INF, 1, 1),
        ([1, 1], [NAN, 1], INF, 1, 1),
        ([], [], 0, 0, 0),
    ],
)
def test_floats(found, expected, largest, span, elements):
    difference = of(found, expected)
    assert (difference.largest, difference.range, difference.elements) == (largest, span, elements)
    assert difference.size == len(expected)


def test_relative():
    assert of([1, 3], [1, 2]).relative == 0.5
    assert of([0], [0]).relative == 0
    assert of([1], [0]).relative == INF


def test_other_shapes_and_types_differ_without_end():
    zeros = np.zeros(3, np.float32)
    assert compare("v", zeros, np.zeros((3, 1), np.float32)).largest == INF
    assert compare("v", zeros, np.zeros(3, np.float64)).largest == INF


def test_integers_and_booleans():
    left = compare("v", np.array([250, 3], np.uint8), np.array([0, 3], np.uint8))
    assert (left.largest, left.elements) == (250, 1)
    right = compare("v", np.array([True, False]), np.array([False, False]))
    assert (right.largest, right.elements) == (1, 1)


def test_what_only_one_side_has_is_left_out():
    one = np.ones(1)
    found = compare_all({"b": one, "a": one, "c": one}, {"a": one, "b": one, "d": one})
    assert [each.value for each in found] == ["b", "a"]
