"""Samples reach the inputs that they are for; outputs are judged as they should be."""

from __future__ import annotations

import numpy as np
import pytest

from weft.dtypes import DType
from weft.errors import UserError
from weft.explore.trials import ROUNDS, Samples, qualities, read_samples, timings
from weft.ir.types import TensorType
from weft.runtime.timing import from_python

TYPES = {"x": TensorType(DType.F32, (1, 3))}
DATA = np.array([[1, 0, 0], [0, 2, 0], [0, 0, 3], [4, 0, 0]], np.float64)


def message(function, *arguments) -> str:
    with pytest.raises(UserError) as error:
        function(*arguments)
    return str(error.value)


def test_a_sample_takes_the_inputs_type_and_shape():
    (found,) = Samples({"anything": DATA}).inputs(1, TYPES, "net")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[0, 2, 0]])


def test_a_sample_may_be_a_scalar():
    (made,) = Samples({"x": np.arange(3.0)}).inputs(1, {"x": TensorType(DType.F32, ())}, "net")
    assert made.shape == ()
    assert made.dtype == np.float32
    assert made == 1


def test_samples_that_do_not_fit():
    assert message(Samples({"x": DATA[:, :2]}).inputs, 0, TYPES, "net") == (
        "a sample of input x must be f32[1,3]; got float64[2] (net)"
    )
    image = {"x": TensorType(DType.F32, (1, 3, 4, 5))}
    assert message(Samples({"x": np.zeros((2, 4, 5, 3))}).inputs, 0, image, "net") == (
        "a sample of input x must be f32[1,3,4,5]; got float64[4, 5, 3] (net). "
        "Transpose the axes of the data."
    )
    (row,) = Samples({"x": np.arange(60.0)[None]}).inputs(0, image, "net")
    np.testing.assert_array_equal(row.reshape(-1), np.arange(60))
    two = {**TYPES, "y": TYPES["x"]}
    assert message(Samples({"x": DATA}).inputs, 0, two, "net") == (
        "data must have an array for each input: x, y; got x (net)"
    )
    assert message(Samples, {"x": DATA}, np.zeros(3)) == (
        "data must have the same number of samples for all inputs, at least one; got x 4, labels 3"
    )
    assert message(Samples, {"x": DATA}, np.full(4, 0.5)) == (
        "labels must be integers: indices into the first output; got float64 [0.5]"
    )
    assert message(Samples, {"x": DATA[:0]}) == (
        "data must have the same number of samples for all inputs, at least one; got x 0"
    )


def test_samples_from_files(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, x=DATA, labels=np.arange(4)[:, None])
    found = read_samples(path)
    assert list(found.arrays) == ["x"]
    np.testing.assert_array_equal(found.labels, [0, 1, 2, 3])
    np.save(tmp_path / "data.npy", DATA)
    assert read_samples(tmp_path / "data.npy").count == 4
    np.savez(path, labels=np.arange(4))
    assert message(read_samples, path) == (
        f"data must have an array for each input; got only labels in {path}"
    )
    path.write_text("no array")
    assert message(read_samples, path).startswith(
        f"data must be a NumPy file (.npz, .npy); got {path}: "
    )


def test_accuracy_and_differences():
    calls = {
        "same": lambda inputs: [inputs[0]],
        "off": lambda inputs: [inputs[0] + np.float32([0, 0, 2.5])],
        "more": lambda inputs: [np.pad(inputs[0], [(0, 0), (0, 1)])],
    }
    samples = Samples({"x": DATA}, np.array([0, 1, 2, 1]))
    found = qualities(calls, dict.fromkeys(calls, TYPES), samples)
    assert [each.correct for each in found.values()] == [3, 1, 3]
    assert found["same"].accuracy == 0.75
    assert (found["same"].largest, found["same"].relative) == (0, 0)
    # The range of the first network's outputs on all samples is 4.
    assert (found["off"].largest, found["off"].relative) == (2.5, 2.5 / 4)
    assert found["more"].largest == float("inf")


def test_labels_must_be_classes():
    samples = Samples({"x": DATA}, np.array([0, 1, 3, 1]))
    calls = {"net": lambda inputs: [inputs[0]]}
    assert message(qualities, calls, {"net": TYPES}, samples) == (
        "labels must be indices into the first output; got 3 of 3 (net)"
    )


def test_calls_take_turns():
    order = []
    timers = {name: from_python(lambda name=name: order.append(name)) for name in "ab"}
    found = timings(timers, 0.001)
    assert all(each.runs >= ROUNDS for each in found.values())
    assert all(each.called_from == "Python" for each in found.values())
    assert all(0 < each.least <= each.median <= each.most for each in found.values())
    turns = "".join(order)
    for _ in range(20):
        turns = turns.replace("aa", "a").replace("bb", "b")
    assert turns == "ab" * (ROUNDS + 1)


def test_an_array_that_nobody_reads_is_refused():
    calls = {"net": lambda inputs: inputs}
    samples = Samples({"x": DATA, "label": np.arange(4)})
    assert message(qualities, calls, {"net": TYPES}, samples) == (
        "data have an array label, which no network has as an input; got x. Did you mean labels?"
    )
