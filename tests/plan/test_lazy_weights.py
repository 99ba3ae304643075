"""Weights that are packed when they are asked for: their types are known before."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from weft.codegen import blob as blobs
from weft.codegen.blob import pack
from weft.kernels.encodings.fewer_bits import FewerBits, float28
from weft.plan import lazy_weights
from weft.plan.implementation import Blocking, Encoded, FilterTransform, Folded, Packed, Packing
from weft.plan.lazy_weights import LazyArray, LazyWeights, weights_bytes

MATRIX = Packing((48, 40), 1, (0,), 0, 3, 16)
FILTER = Packing((20, 6, 3, 3), 0, (2, 3, 1), 0, 2, 16)
POINTS = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))
RNG = np.random.default_rng(0)


def matrix() -> np.ndarray:
    return RNG.normal(size=(48, 40)).astype(np.float32)


def filters() -> np.ndarray:
    return RNG.normal(size=(20, 6, 3, 3)).astype(np.float32)


def encoded(array: np.ndarray) -> Encoded:
    encoding = float28(array, (48, 40), 1, asked=False)
    assert isinstance(encoding, FewerBits)
    return Encoded(encoding, "words", Packing((48, 40), 1, (0,), 0, 2, 16), (16,))


WIDE = RNG.uniform(1, 2, (48, 40)).astype(np.float32)
CASES: dict[str, tuple[np.ndarray, Packed | None]] = {
    "plain": (matrix(), None),
    "packed": (matrix(), MATRIX),
    "deep": (matrix().astype(np.int8), Packing((48, 40), 1, (0,), 8, 2, 16, 4)),
    "transformed": (filters(), FilterTransform(FILTER, POINTS)),
    "blocks": (
        filters(),
        Blocking((20, 6, 3, 3), (0, 1, 2, 3), (20, 6, 3, 3), (0, 1, 2, 3), ((1, 4), (0, 8))),
    ),
    "fewer bits": (WIDE, encoded(WIDE)),
    "folded": (matrix(), Folded("", np.ones(7, np.int32), (48, 40))),
}


@pytest.mark.parametrize("name", CASES)
def test_types_are_those_of_the_packed_arrays(name: str) -> None:
    lazy = LazyArray(*CASES[name])
    packed = lazy.packed()
    assert (lazy.dtype, lazy.shape, lazy.nbytes) == (packed.dtype, packed.shape, packed.nbytes)


@pytest.mark.parametrize("name", CASES)
def test_arrays_are_written_in_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_weights, "_BYTES", 64)  # so that encoded ones are cut
    lazy = LazyArray(*CASES[name])
    out = np.zeros(lazy.shape, lazy.dtype)
    lazy.write(out)
    assert np.array_equal(out, lazy.packed())


def test_arrays_that_are_read_once_are_not_kept() -> None:
    weights = LazyWeights({name: LazyArray(*case) for name, case in CASES.items()})
    assert weights.once("packed") is not weights.once("packed")
    assert weights["packed"] is weights["packed"]


@pytest.mark.parametrize("packers", [1, 2, 8])
def test_constants_go_while_a_blob_is_filled(monkeypatch: pytest.MonkeyPatch, packers: int) -> None:
    monkeypatch.setattr(blobs, "_WORTH_RETURNING", 1)
    monkeypatch.setattr(blobs, "_PACKERS", packers)
    small, large = matrix(), np.concatenate([matrix(), matrix()])
    dead: list[str] = []
    weakref.finalize(small, dead.append, "small")
    weakref.finalize(large, dead.append, "large")
    arrays = {"small": LazyArray(small), "one": LazyArray(large), "other": LazyArray(large)}
    arrays["one"].packing = Packing((96, 40), 1, (0,), 0, 3, 16)
    wanted = {name: each.packed().copy() for name, each in arrays.items()}
    weights = LazyWeights(arrays)
    del arrays, small, large
    blob = pack(weights.only(["small", "one", "other"]), 64)
    gone: list[int] = []
    monkeypatch.setattr(blobs, "return_memory", lambda: gone.append(len(dead)))
    blob.fill(memoryview(bytearray(blob.size)))
    assert sorted(dead) == ["large", "small"]
    assert len(gone) == 3
    assert all(count >= place for place, count in enumerate(gone))
    if packers == 1:
        assert dead == ["large", "small"]
    for name, array in weights.items():
        assert not array.flags.writeable
        assert np.array_equal(array, wanted[name])


def test_a_blob_is_filled_in_place() -> None:
    weights = LazyWeights({name: LazyArray(*case) for name, case in CASES.items()})
    blob = pack(weights.only(["deep", "packed"]), 64)
    memory = bytearray(blob.size)
    wanted = blob.tobytes()
    blob.fill(memoryview(memory))
    assert memory == wanted
    assert weights["packed"] is weights["packed"]
    views = blob.over(memoryview(memory)).weights
    assert list(views) == ["deep", "packed"]
    for name, array in views.items():
        assert np.array_equal(array, weights[name])
        assert np.shares_memory(array, np.frombuffer(memory, np.uint8))
    assert weights_bytes(views) == sum(array.nbytes for array in views.values())
