"""Arrays over what others hold: no copies, and what is refused."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from weft.errors import UserError
from weft.ir.buffers import as_array

torch = pytest.importorskip("torch")


class Elsewhere:
    """A tensor on a GPU."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self) -> Any:
        raise AssertionError("it must not be asked for")


class Copied:
    """Has an array, but not the memory that it could be written to through."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.arange(3.0)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int8", "int64", "bool"])
def test_tensors_are_not_copied(name: str) -> None:
    tensor = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
    found = as_array(tensor, "input x")
    assert found.ctypes.data == tensor.data_ptr()
    assert str(found.dtype) == name
    wanted = tensor.to(torch.float64).numpy()
    np.testing.assert_array_equal(found.astype(np.float64), wanted)
    turned = as_array(tensor.t()[1:], "input x")
    np.testing.assert_array_equal(turned.astype(np.float64), wanted.T[1:])
    assert not turned.flags.c_contiguous
    assert as_array(tensor[:0], "input x").shape == (0, 4)
    del tensor
    gc.collect()
    np.testing.assert_array_equal(found.astype(np.float64), wanted)
    found[0, 0] = 1
    assert found[0, 0] == 1


def test_buffers() -> None:
    memory = bytearray(np.arange(6, dtype=np.float32).tobytes())
    found = as_array(memory, "input x", dtype=np.dtype(np.float32), shape=(2, 3))
    np.testing.assert_array_equal(found, np.arange(6).reshape(2, 3))
    memory[:4] = np.float32(9).tobytes()
    assert found[0, 0] == 9
    brain = as_array(bytes(8), "input x", dtype=np.dtype(ml_dtypes.bfloat16), shape=(4,))
    assert brain.dtype == ml_dtypes.bfloat16
    typed = memoryview(np.arange(4, dtype=np.int16)).cast("B").cast("h", (2, 2))
    assert as_array(typed, "input x", dtype=np.dtype(np.float32), shape=(2,)).dtype == np.int16
    array = np.zeros(3)
    assert as_array(array, "input x") is array
    assert as_array(np.float32(3), "input x").shape == ()
    np.testing.assert_array_equal(as_array(Copied(), "input x"), [0, 1, 2])


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (
            [1.0, 2.0],
            {},
            "input x must be an array, a DLPack tensor or a buffer; got list",
        ),
        (
            Copied(),
            {"writable": True},
            "input x must be an array, a DLPack tensor or a buffer; got Copied. "
            "Write into an array, then copy.",
        ),
        (
            Elsewhere(),
            {},
            "input x must lie in main memory; got a Elsewhere on a device (DLPack's kind 2). "
            "Move it there first.",
        ),
        (
            bytes(7),
            {"dtype": np.dtype(np.float32), "shape": (2,)},
            "input x takes 8 bytes; got a buffer of 7",
        ),
        (
            torch.zeros(2, requires_grad=True),
            {},
            "input x cannot be exported by DLPack; "
            "got Can't export tensors that require gradient, use tensor.detach()",
        ),
    ],
)
def test_refusals(given: object, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        as_array(given, "input x", **options)
    assert str(caught.value) == message
