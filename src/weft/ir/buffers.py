"""Arrays of whatever holds numbers: DLPack, the buffer protocol, ``__array__``; without copies.

DLPack is what frameworks give their tensors through, so PyTorch's are taken without PyTorch
being imported here.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import ml_dtypes
import numpy as np

from weft.errors import UserError

_CPU = (1, 3)  # main memory, and main memory that a GPU can reach
_BFLOAT = 4


@runtime_checkable
class GivesDLPack(Protocol):
    """Has a tensor to give, as PyTorch's, JAX's, TensorFlow's and CuPy's tensors do."""

    def __dlpack__(self) -> Any:
        """A capsule with the tensor."""
        ...

    def __dlpack_device__(self) -> tuple[int, int]:
        """The kind and number of the device that the tensor lies on."""
        ...


@runtime_checkable
class GivesArray(Protocol):
    """Can be made an array; the elements may be copied."""

    def __array__(self) -> np.ndarray:
        """The array."""
        ...


ArrayLike: TypeAlias = np.ndarray | GivesDLPack | GivesArray | bytes | bytearray | memoryview
"""What arrays are made of: NumPy's, tensors of frameworks, and raw memory."""


def as_array(
    given: object,
    what: str,
    *,
    dtype: np.dtype | None = None,
    shape: tuple[int, ...] = (),
    writable: bool = False,
) -> np.ndarray:
    """The array that something holds, over the same memory.

    Args:
        given: an array, a tensor or a buffer.
        what: it is for, for errors (``input x``).
        dtype: of the elements of a buffer of bytes; with ``shape``.
        shape: that such a buffer is given.
        writable: the caller writes into it: what could only be copied is refused.
    """
    if isinstance(given, np.ndarray):
        return cast(np.ndarray, given)
    if isinstance(given, GivesDLPack):
        return _from_dlpack(given, what)
    try:
        memory = memoryview(cast(Any, given))
    except (TypeError, ValueError, BufferError):
        memory = None
    if memory is not None:
        return _from_memory(memory, what, dtype, shape)
    if isinstance(given, GivesArray) and not writable:
        return np.asarray(given)
    raise UserError(
        f"{what} must be an array, a DLPack tensor or a buffer",
        got=type(given).__name__,
        fix="Write into an array, then copy." if isinstance(given, GivesArray) else "",
    )


def _from_memory(
    memory: memoryview, what: str, dtype: np.dtype | None, shape: tuple[int, ...]
) -> np.ndarray:
    """An array over memory; bytes without a format of their own get that of the port."""
    raw = memory.format in ("B", "b", "c") and memory.ndim == 1 and memory.contiguous
    if not raw or dtype is None or (dtype.itemsize == 1 and memory.shape == shape):
        return np.asarray(memory)
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if memory.nbytes != size:
        raise UserError(f"{what} takes {size} bytes", got=f"a buffer of {memory.nbytes}")
    return np.frombuffer(memory, dtype).reshape(shape)


# --- DLPack ---------------------------------------------------------------------------------


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _from_dlpack(given: GivesDLPack, what: str) -> np.ndarray:
    try:
        kind = int(given.__dlpack_device__()[0])
    except (BufferError, RuntimeError, ValueError) as error:
        raise UserError(f"{what} cannot be exported by DLPack", got=str(error)) from None
    if kind not in _CPU:
        raise UserError(
            f"{what} must lie in main memory",
            got=f"a {type(given).__name__} on a device (DLPack's kind {kind})",
            fix="Move it there first.",
        )
    try:
        return np.from_dlpack(cast(Any, given))
    except (BufferError, RuntimeError) as error:
        found = _bfloat16(given)
        if found is None:
            raise UserError(f"{what} cannot be exported by DLPack", got=str(error)) from None
        return found


def _bfloat16(given: GivesDLPack) -> np.ndarray | None:
    """A tensor of bfloat16, which NumPy's reader of DLPack does not know; ``None`` for others."""
    try:
        capsule = given.__dlpack__()
    except (BufferError, RuntimeError):
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    if (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) != (_BFLOAT, 16, 1):
        return None
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides: tuple[int, ...] | None = None
    if tensor.strides:
        strides = tuple(2 * tensor.strides[axis] for axis in range(tensor.ndim))
    if 0 in shape:
        return np.empty(shape, ml_dtypes.bfloat16)
    last = sum((size - 1) * step for size, step in zip(shape, strides or (), strict=False))
    bytes = last + 2 if strides else 2 * int(np.prod(shape, dtype=np.int64))
    memory: Any = (ctypes.c_uint8 * bytes).from_address(tensor.data + tensor.byte_offset)
    # The capsule gives the tensor back when it goes, so it lives as long as the memory.
    memory.capsule = capsule
    return np.ndarray(shape, ml_dtypes.bfloat16, memory, 0, strides)
