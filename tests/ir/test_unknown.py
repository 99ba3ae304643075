"""Arrays without elements: nothing can look at them, everything else is recorded."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft.ir.unknown import Unknown, ValueUnknown, all_finite, contiguous, same_array
from weft.ops.evaluate import evaluate
from weft.ops.recorded import graph_of
from weft.ops.table import OPS

F32 = np.dtype(np.float32)


def unknown(*shape: int, name: str = "w") -> Any:
    return Unknown(F32, shape, name)


LOOKS: list[Callable[[Any], object]] = [
    bool,
    float,
    int,
    list,
    np.asarray,
    np.array,
    np.ascontiguousarray,
    np.isfinite,
    np.abs,
    np.all,
    np.max,
    np.frexp,
    lambda w: np.array_equal(w, w),
    lambda w: w == 1,
    lambda w: w != w,
    lambda w: w > 0,
    lambda w: w.max(),
    lambda w: w.item(),
    lambda w: w.tolist(),
    lambda w: w.tobytes(),
    lambda w: w.flat,
    lambda w: w.view(np.uint8),
    lambda w: memoryview(w),
    lambda w: w[np.array([0])],
    lambda w: w[w],
    lambda w: 1.0 in w,
    lambda w: np.add.reduce(w),
    lambda w: np.add(w, 1, out=np.zeros(1)),
    lambda w: np.sort(w),
]


@pytest.mark.parametrize("look", LOOKS)
def test_no_element_can_be_had(look: Callable[[Any], object]) -> None:
    with pytest.raises((ValueUnknown, TypeError)):
        look(unknown(1))


def test_a_refusal_names_the_parameter() -> None:
    folded = (unknown(4, 3, name="conv.weight").astype(np.float64) * np.ones((4, 1))).reshape(12)
    with pytest.raises(ValueUnknown, match=r"the parameter conv\.weight"):
        folded.max()


CASES: list[tuple[str, Callable[[Any], Any]]] = [
    ("astype", lambda w: w.astype(np.float64)),
    ("promoted", lambda w: w * np.ones(4)),
    ("weak", lambda w: 1 / (w + 2.0)),
    ("shapes", lambda w: w.reshape(2, -1).T.swapaxes(0, 1)[None, ..., 0]),
    ("sliced", lambda w: w[1:, ::2, 3:1:-1]),
    ("last", lambda w: w[-1, ..., -1:]),
    ("reversed", lambda w: w[:, ::-1]),
    ("summed", lambda w: w.sum(axis=(0, -1))),
    ("product", lambda w: np.ones((5, 3)) @ w),
    ("padded", lambda w: np.pad(w, [(0, 0), (1, 2), (0, 1)])),
    ("moved", lambda w: np.moveaxis(w, 0, -1)),
    ("transposed", lambda w: w.transpose(np.argsort((2, 0, 1)))),
    ("wide", lambda w: np.broadcast_to(w, (7, 2, 3, 4))),
    ("joined", lambda w: np.concatenate([w, np.zeros((2, 1, 4), F32)], axis=1)),
    ("tiled", lambda w: np.tile(w.reshape(-1), 3)),
]


@pytest.mark.parametrize("case", CASES, ids=[name for name, _ in CASES])
def test_types_and_elements_are_those_of_numpy(case: tuple[str, Callable[[Any], Any]]) -> None:
    array = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
    wanted, found = case[1](array), case[1](unknown(2, 3, 4))
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    graph = graph_of({"made": found}, "made")
    (made,) = evaluate(graph, {"w": array}, OPS).values()
    np.testing.assert_array_equal(made, wanted)


def test_equal_computations_are_the_same_array() -> None:
    one, two = (unknown(4) * np.arange(4.0) for _ in range(2))
    assert same_array(one, two)
    assert not same_array(one, unknown(4) * np.arange(1.0, 5.0))
    assert not same_array(one, unknown(4, name="v") * np.arange(4.0))
    assert not same_array(one, np.zeros(4))


def test_what_is_taken_for_granted_and_passed_through() -> None:
    assert all_finite(unknown(4))
    assert not all_finite(np.array([np.inf]))
    w: Any = unknown(4)
    assert contiguous(w) is w
    assert contiguous(w, np.float64).dtype == np.float64
    assert same_array(pickle.loads(pickle.dumps(w)), w)
    assert same_array(copy.copy(w), w)
