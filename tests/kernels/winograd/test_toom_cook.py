"""Minimal filtering: exactly the correlation, in rational numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.kernels.winograd.toom_cook import (
    Matrix,
    TransformProgram,
    TransformSum,
    filtering,
    most_outputs,
    straight_line,
)

NUMBERS = st.fractions(-4, 4, max_denominator=6)
FORMS = [
    (outputs, taps, stride)
    for stride in (1, 2, 3)
    for taps in (1, 2, 3, 4, 5, 7)
    if taps >= stride
    for outputs in range(1, most_outputs(taps, stride) + 1)
]


def applied(matrix: Matrix, values: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, values, strict=True)), Fraction(0)) for row in matrix]


def executed(program: TransformProgram, values: list[Fraction]) -> list[Fraction]:
    known = list(values)

    def total(each: TransformSum) -> Fraction:
        return sum((known[place] * factor for place, factor in each.terms), Fraction(0))

    for each in program.shared:
        known.append(total(each))
    return [total(each) for each in program.outputs]


def unit(size: int, place: int) -> list[Fraction]:
    return [Fraction(each == place) for each in range(size)]


@pytest.mark.parametrize(("outputs", "taps", "stride"), FORMS)
def test_filtering_is_correlation(outputs: int, taps: int, stride: int) -> None:
    """For every pair of unit vectors, hence, being bilinear, for all."""
    form = filtering(outputs, taps, stride)
    for where, tap in product(range(form.size), range(taps)):
        data, weights = applied(form.data, unit(form.size, where)), unit(taps, tap)
        products = [a * b for a, b in zip(applied(form.filter, weights), data, strict=True)]
        wanted = [Fraction(place * stride + tap == where) for place in range(outputs)]
        assert applied(form.inverse, products) == wanted


@pytest.mark.parametrize(("outputs", "taps", "stride"), FORMS)
def test_shapes_of_the_matrices(outputs: int, taps: int, stride: int) -> None:
    form = filtering(outputs, taps, stride)
    shapes = [np.shape(matrix) for matrix in (form.inverse, form.filter, form.data)]
    assert shapes == [(outputs, form.size), (form.size, taps), (form.size, form.size)]


def test_as_many_multiplications_as_inputs() -> None:
    assert [filtering(4, taps).size for taps in (1, 2, 3)] == [4, 5, 6]
    assert [filtering(outputs, 3, 2).size for outputs in (1, 2, 4)] == [3, 5, 9]
    assert filtering(2, 5, 2).size == 7


@pytest.mark.parametrize(("outputs", "taps", "stride"), FORMS)
def test_points_that_outputs_take_alike(outputs: int, taps: int, stride: int) -> None:
    """Their columns are equal, those of others differ, and they are all there in order."""
    form = filtering(outputs, taps, stride)
    columns = list(zip(*form.inverse, strict=True))
    assert [point for each in form.alike for point in each] == list(range(form.size))
    for number, each in enumerate(form.alike):
        assert {columns[point] for point in each} == {tuple(row[number] for row in form.gathered)}
    assert len(form.alike) == len(set(columns))
    assert sorted(map(len, form.alike), reverse=True) == list(map(len, form.alike))


def test_phases_share_their_points() -> None:
    assert [len(filtering(outputs, 5, 2).alike) for outputs in (2, 4)] == [4, 6]
    assert len(filtering(4, 3).alike) == 6


def test_points_run_out() -> None:
    assert [most_outputs(taps, 1) for taps in (1, 2, 3, 5)] == [6, 5, 4, 2]
    assert [most_outputs(taps, 2) for taps in (2, 3, 5, 7)] == [6, 5, 4, 3]


@pytest.mark.parametrize(("outputs", "taps", "stride"), FORMS)
def test_coefficients_beside_those_of_filters_are_exact_in_float32(
    outputs: int, taps: int, stride: int
) -> None:
    form = filtering(outputs, taps, stride)
    programs = straight_line(form.data), straight_line(form.inverse)
    sums = [each for program in programs for each in (*program.shared, *program.outputs)]
    factors = [factor for each in sums for _, factor in each.terms]
    assert [Fraction(float(np.float32(factor))) for factor in factors] == factors


def test_larger_tiles_amplify_rounding() -> None:
    assert [round(filtering(each, 3).amplification, 2) for each in (2, 3, 4)] == [1.67, 2.86, 4.81]
    assert filtering(2, 3, 2).amplification < filtering(2, 3).amplification


def rounding(outputs: int, taps: int, channels: int = 64) -> float:
    """Root of the mean square of the error of correlations in two dimensions, in float32."""
    form = filtering(outputs, taps)
    random = np.random.default_rng(0)
    shape = (channels, 40, form.size, form.size)
    image = np.maximum(random.standard_normal(shape), 0).astype(np.float32)
    filters = random.standard_normal((channels, 1, taps, taps)).astype(np.float32)
    kinds = {"data": np.float32, "filter": np.float64, "inverse": np.float32}
    matrices = {
        name: np.array(getattr(form, name), dtype=np.float64).astype(kind)
        for name, kind in kinds.items()
    }

    def applied_twice(name: str, values: np.ndarray) -> np.ndarray:
        return matrices[name] @ values @ matrices[name].T

    data = applied_twice("data", image)
    factors = applied_twice("filter", filters.astype(np.float64)).astype(np.float32)
    total = np.zeros(data.shape[1:], np.float32)
    for one, other in zip(data, factors, strict=True):
        total += one * other
    places = range(outputs)
    wanted = np.zeros((shape[1], outputs, outputs))
    for row, column in product(places, places):
        window = image[:, :, row : row + taps, column : column + taps].astype(np.float64)
        wanted[:, row, column] = (window * filters).sum((0, 2, 3))
    error = applied_twice("inverse", total) - wanted
    return float(np.sqrt((error**2).mean() / (wanted**2).mean()))


@pytest.mark.parametrize(("outputs", "taps", "most"), [(4, 3, 5.5e-7), (2, 5, 8e-7), (4, 2, 5e-7)])
def test_points_round_less_than_those_of_textbooks(outputs: int, taps: int, most: float) -> None:
    """With 0, 1, -1, 1/2 and -2, or the first four, they are 6.7e-7, 9.6e-7 and 7.6e-7."""
    assert rounding(outputs, taps) < most


def test_the_matrices_of_lavin_and_gray() -> None:
    """F(2, 3) of the paper, up to the signs that may be moved between rows of G and B."""
    form = filtering(2, 3)
    half = Fraction(1, 2)
    assert form.inverse == ((1, 1, 1, 0), (0, 1, -1, 1))
    assert form.data[1:] == ((0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1))
    assert [tuple(map(abs, row)) for row in form.filter] == [
        (1, 0, 0),
        (half, half, half),
        (half, half, half),
        (0, 0, 1),
    ]


@given(
    st.lists(
        st.lists(
            st.sampled_from([Fraction(0), Fraction(1), Fraction(-1), Fraction(2), Fraction(1, 2)]),
            min_size=4,
            max_size=4,
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(NUMBERS, min_size=4, max_size=4),
)
def test_straight_line_is_the_product(rows: list[list[Fraction]], values: list[Fraction]) -> None:
    matrix = tuple(tuple(row) for row in rows)
    assert executed(straight_line(matrix), values) == applied(matrix, values)


@pytest.mark.parametrize(("outputs", "taps", "stride"), FORMS)
def test_straight_line_of_every_form(outputs: int, taps: int, stride: int) -> None:
    form = filtering(outputs, taps, stride)
    for matrix in (form.data, form.inverse, form.filter):
        program = straight_line(matrix)
        values = [Fraction(3 * place * place - 7, place + 1) for place in range(len(matrix[0]))]
        assert executed(program, values) == applied(matrix, values)
        assert all(each.terms for each in program.shared)


def test_shared_pairs_save_operations() -> None:
    plain = {
        name: sum(sum(value != 0 for value in row) - 1 for row in matrix)
        for name, matrix in (("data", filtering(4, 3).data), ("inverse", filtering(4, 3).inverse))
    }
    data, inverse = straight_line(filtering(4, 3).data), straight_line(filtering(4, 3).inverse)
    assert (data.operations, inverse.operations) < (plain["data"], plain["inverse"])
    assert data.operations < plain["data"]
    assert inverse.operations < plain["inverse"]


@pytest.mark.parametrize(("outputs", "most"), [(2, 2.0), (4, 4.0)])
def test_rounding_is_about_that_of_the_direct_sum(outputs: int, most: float) -> None:
    """In float32, against float64: the points keep the error of tiles small."""
    form = filtering(outputs, 3)
    to_data, to_filter, back = (
        np.array(matrix, np.float32) for matrix in (form.data, form.filter, form.inverse)
    )
    random = np.random.default_rng(0)
    image = random.standard_normal((400, 64, form.size, form.size)).astype(np.float32)
    weights = random.standard_normal((64, 3, 3)).astype(np.float32) / 24
    points = (to_data @ image @ to_data.T) * (to_filter @ weights @ to_filter.T)
    got = back @ points.sum(1) @ back.T
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))
    wanted = np.einsum("nchwij,cij->nhw", windows.astype(np.float64), weights.astype(np.float64))
    products = windows * weights[None, :, None, None]
    direct = np.zeros(got.shape, np.float32)
    for channel in range(64):
        for row in range(3):
            for column in range(3):
                direct += products[:, channel, :, :, row, column]

    def error(values: np.ndarray) -> float:
        return float(np.sqrt(np.mean((values - wanted) ** 2)))

    assert error(got) <= most * error(direct)
