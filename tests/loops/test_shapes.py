"""Arithmetic on shapes."""

from __future__ import annotations

import pytest

from weft.loops.shapes import factor_groups, row_major


def test_row_major_is_numpys():
    assert row_major((2, 3, 5)) == (15, 5, 1)
    assert row_major((4, 0, 2)) == (0, 2, 1)
    assert row_major(()) == ()


@pytest.mark.parametrize(
    ("source", "target", "groups"),
    [
        ((1, 64, 56, 56), (1, 64, 3136), [((1,), (1,)), ((2, 3), (2,))]),
        ((6, 4), (2, 3, 1, 2, 2), [((0,), (0, 1)), ((1,), (3, 4))]),
        ((4, 6), (6, 4), [((0, 1), (0, 1))]),
        ((1, 1), (1,), []),
    ],
)
def test_groups_of_equal_products_are_as_short_as_possible(source, target, groups):
    assert list(factor_groups(source, target)) == groups
