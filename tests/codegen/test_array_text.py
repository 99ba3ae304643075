"""Arrays as C text: every bit comes back, lines stay short."""

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from weft.codegen import literals
from weft.codegen.flavours import FLAVOURS
from weft.codegen.literals import array_lines

_LITERAL = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?f?")


def _read(text: str, dtype: np.dtype) -> np.ndarray:
    parts = text.replace("\n", "").split(",")
    assert all(_LITERAL.fullmatch(part) for part in parts), parts
    if dtype == np.float32:
        assert all(part.endswith("f") and ("." in part or "e" in part) for part in parts)
    return np.array([part.rstrip("f") for part in parts]).astype(dtype)


@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64]),
        st.integers(1, 40),
        elements={"allow_nan": False, "allow_infinity": False},
    )
)
def test_floats_come_back(array: np.ndarray) -> None:
    lines = list(array_lines(array, FLAVOURS["c99"]))
    back = _read("\n".join(lines), array.dtype)
    assert back.tobytes() == array.tobytes()
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32])
def test_integers_come_back(dtype: type) -> None:
    limits = np.iinfo(dtype)
    array = np.array([limits.min + 1, -1 if limits.min else 1, 0, limits.max] * 20, dtype)
    back = _read("\n".join(array_lines(array, FLAVOURS["c89"])), array.dtype)
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("size", [1, 15, 16, 17, 33])
def test_chunks_join(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "_CHUNK", 16)
    array = np.arange(size, dtype=np.float32) - 3
    assert np.array_equal(_read("\n".join(array_lines(array, FLAVOURS["c99"])), array.dtype), array)


def test_half_floats_are_bits() -> None:
    array = np.array([1, -2, 0.5], ml_dtypes.bfloat16)
    assert list(array_lines(array, FLAVOURS["c99"])) == ["16256,49152,16128"]


def test_zeros_and_special_values() -> None:
    array = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan], np.float32)
    assert list(array_lines(array[:3], FLAVOURS["c99"])) == [".0f,-.0f,1.0f"]
    (line,) = array_lines(array, FLAVOURS["c99"])
    assert line.split(",")[3:] == ["((float)INFINITY)", "(-(float)INFINITY)", "((float)NAN)"]


def test_nothing_is_a_zero() -> None:
    assert list(array_lines(np.zeros(0, np.float32), FLAVOURS["c99"])) == ["0"]
