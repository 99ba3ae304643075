"""Element types, shared by graphs and loops."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, cast

import ml_dtypes
import numpy as np


class DType(Enum):
    """An element type; the value is its printed name."""

    __hash__ = object.__hash__  # at once, where an enumeration's is a call that hashes the name

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"

    @property
    def full_name(self) -> str:
        """What NumPy, ONNX and C call it: ``float32``, ``bfloat16``, ``uint8``, ``bool``."""
        kind = self.value.rstrip("0123456789")
        return _KINDS[kind] + self.value.removeprefix(kind)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy type of the same bits."""
        return _NUMPY[self]

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return _NUMPY[self].itemsize

    @property
    def rounding(self) -> float:
        """The error of rounding a float to this type, relative to it, at the root mean square.

        The logarithms of the numbers are equally likely; 0 for types that do not round floats.
        """
        if not self.is_float:
            return 0.0
        step = float(cast(Any, ml_dtypes.finfo)(self.numpy).eps)
        return step * math.sqrt((1 - 1 / 4) / (2 * math.log(2)) / 12)

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self in _FLOATS

    @property
    def is_signed(self) -> bool:
        """Whether negative values exist."""
        return self in _FLOATS or self.value.startswith("i")

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer (not bool)."""
        return self not in _FLOATS and self is not DType.BOOL

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type (0 and 1 for bool)."""
        return _LIMITS[self]

    @staticmethod
    def of(dtype: np.dtype | type) -> DType:
        """The element type of a NumPy type; raises ``KeyError`` if there is none."""
        return _FROM_NUMPY[np.dtype(dtype)]

    def __repr__(self) -> str:
        return f"DType.{self.name}"


_KINDS = {"f": "float", "bf": "bfloat", "i": "int", "u": "uint", "bool": "bool"}
_NUMPY: dict[DType, np.dtype] = {
    each: np.dtype(ml_dtypes.bfloat16 if each is DType.BF16 else each.full_name) for each in DType
}
_FROM_NUMPY = {dtype: name for name, dtype in _NUMPY.items()}
_FLOATS = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16})
_LIMITS: dict[DType, tuple[int, int]] = {
    DType.BOOL: (0, 1),
    **{
        dtype: (int(np.iinfo(bits).min), int(np.iinfo(bits).max))
        for dtype, bits in _NUMPY.items()
        if dtype.is_integer
    },
}
