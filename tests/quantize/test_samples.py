"""Samples: what forms they may have, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import UserError
from weft.ir.types import parse_type
from weft.quantize.samples import collect_samples

ONE = {"x": parse_type("f32[1,2,3]")}
TWO = {"x": parse_type("f32[1,4]"), "n": parse_type("i64[1]")}
X = np.arange(24, dtype=np.float32).reshape(4, 2, 3)


@pytest.mark.parametrize(
    "source",
    [
        X,
        {"x": X},
        {"anything": X.reshape(4, 1, 2, 3)},
        list(X),
        (each for each in X[:, None]),
        iter([X[:2], X[2:]]),
        [{"x": each} for each in X],
        [(each,) for each in X],
        X.astype(np.float64),
        X.astype(np.int64),
    ],
)
def test_forms(source):
    found = collect_samples(source, ONE)
    assert len(found) == 4
    for run, expected in zip(found, X, strict=True):
        assert run["x"].dtype == np.float32
        np.testing.assert_array_equal(run["x"], expected[None])


def test_a_batch_of_several():
    found = collect_samples(np.zeros((6, 5), np.float32), {"x": parse_type("f32[3,5]")})
    assert [run["x"].shape for run in found] == [(3, 5), (3, 5)]


def test_an_iterator_is_read_no_further_than_needed():
    read = []

    def samples():
        for each in X:
            read.append(each)
            yield each

    assert len(collect_samples(samples(), ONE, 2)) == 2
    assert len(read) == 2


def test_several_inputs_labels_and_a_part():
    found = collect_samples(
        {"n": np.arange(8), "x": np.zeros((8, 4), np.float32)}, TWO, None, np.arange(8)
    )
    assert [int(run["n"][0]) for run in found.first(3)] == [0, 3, 7]
    assert found.first(3).labels.tolist() == [0, 3, 7]
    assert found.first(9) is found


@pytest.mark.parametrize(
    ("source", "types", "message"),
    [
        ([], ONE, "quantize: at least one sample is needed; got none"),
        (np.zeros((0, 2, 3), np.float32), ONE, "quantize: at least one sample is needed; got none"),
        (3, ONE, "quantize: samples are arrays, or what gives them one by one; got int"),
        (
            np.zeros((4, 3, 2), np.float32),
            ONE,
            "quantize: samples of input x must be f32[1,2,3], or several along the first axis; "
            "got float32[4, 3, 2]",
        ),
        (
            np.array(["a"]),
            ONE,
            "quantize: input x needs numbers; got <U1",
        ),
        (
            np.full((2, 2, 3), np.nan, np.float32),
            ONE,
            "quantize: samples of input x must be finite; got NaN",
        ),
        (
            np.full((2, 2, 3), np.inf, np.float32),
            ONE,
            "quantize: samples of input x must be finite; got infinity",
        ),
        (
            {"y": X, "n": X},
            TWO,
            "quantize: the network has no input y. There are: x, n.",
        ),
        (
            {"x": np.zeros((3, 4))},
            TWO,
            "quantize: a sample has an array for each input: x, n; got nothing for n",
        ),
        (
            [np.zeros(4)],
            TWO,
            "quantize: a sample has an array for each input: x, n; got 1 arrays",
        ),
        (
            {"x": np.zeros((3, 4)), "n": np.zeros(2, int)},
            TWO,
            "quantize: all inputs must have the same number of samples; got x 3, n 2",
        ),
    ],
)
def test_refusals(source, types, message):
    with pytest.raises(UserError) as found:
        collect_samples(source, types)
    assert str(found.value) == message


def test_labels_must_fit():
    with pytest.raises(UserError) as found:
        collect_samples(X, ONE, None, np.arange(3))
    assert str(found.value) == (
        "quantize: labels must be one for each sample; got 3 labels, 4 samples"
    )
