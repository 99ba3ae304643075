"""Tables of integers: Keras needs TensorFlow for them; its documentation has these examples."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.frontends.keras.test_hostile import layer, sequential, weights
from weft.errors import UserError
from weft.frontends.keras import load
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS

pytest.importorskip("h5py")
TABLE = [12, 36, 1138, 42]


def looked_up(path: Path, data: list, **config) -> np.ndarray:
    array = np.asarray(data, np.int64)
    start = layer("InputLayer", "x", batch_shape=[None, *array.shape[1:]], dtype="int64")
    model = sequential(start, layer("IntegerLookup", "table", **{"vocabulary": TABLE, **config}))
    with zipfile.ZipFile(path / "net.keras", "w") as archive:
        archive.writestr("config.json", json.dumps(model))
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.8.0"}))
        archive.writestr("model.weights.h5", weights())
    graph = load(path / "net.keras", {"batch": (len(array),)})
    return evaluate(graph, {"x": array}, OPS)[graph.outputs[0]]


@pytest.mark.parametrize(
    ("data", "config", "expected"),
    [
        ([[12, 1138, 42], [42, 1000, 36]], {}, [[1, 3, 4], [4, 0, 2]]),
        (
            [[12, 1138, 42], [37, 1000, 36]],
            {"num_oov_indices": 2},
            [[2, 4, 5], [1, 0, 3]],
        ),
        (
            [[12], [36], [1138], [42], [7]],
            {"output_mode": "one_hot"},
            [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]],
        ),
        (
            [[12, 1138, 42, 42], [42, 7, 36, 7]],
            {"output_mode": "multi_hot"},
            [[0, 1, 0, 1, 1], [1, 0, 1, 0, 1]],
        ),
        (
            [[12, 1138, 42, 42], [42, 7, 36, 7]],
            {"output_mode": "count"},
            [[0, 1, 0, 1, 2], [2, 0, 1, 0, 1]],
        ),
        ([[1, 3, 4], [4, 0, 2]], {"invert": True}, [[12, 1138, 42], [42, -1, 36]]),
        # Its own: a mask, and what stands for it and for unknown integers in the table.
        ([[0, 12, 7]], {"mask_token": 0, "vocabulary": [0, -1, 12, 36]}, [[0, 2, 1]]),
        ([[0, 9, -5]], {"invert": True, "mask_token": 0}, [[0, -1, -1]]),
    ],
)
def test_integers(tmp_path, data, config, expected) -> None:
    assert looked_up(tmp_path, data, **config).tolist() == expected


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"vocabulary": "table.txt"}, "its vocabulary must be a list in its configuration"),
        ({"vocabulary": [1, 2, 1]}, "its vocabulary must not repeat integers"),
        ({"vocabulary": [1, 2.5]}, "its vocabulary must be integers"),
        ({"num_oov_indices": 0}, "num_oov_indices must be at least 1"),
    ],
)
def test_refusals(tmp_path, config, reason) -> None:
    with pytest.raises(UserError) as error:
        looked_up(tmp_path, [[1, 2]], **config)
    assert reason in str(error.value)
