"""Numbers as C text."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from weft.codegen.naming import STORAGE
from weft.dtypes import DType

_INT_MAX = 2**31 - 1
_LINE = 100


def float_literal(value: float, dtype: DType, c99: bool) -> str:
    """A literal of a floating-point type that reads back as the same bits (but for NaNs)."""
    if dtype is DType.F64:
        return _special(value, "", c99) or repr(float(value))
    narrow = np.float32(np.asarray(value, dtype.numpy))
    return _special(float(narrow), "(float)", c99) or f"{narrow!s}f"


def _special(value: float, cast: str, c99: bool) -> str:
    if math.isnan(value):
        return f"({cast}NAN)" if c99 else f"({cast}(HUGE_VAL - HUGE_VAL))"
    if math.isinf(value):
        sign = "-" if value < 0 else ""
        return f"({sign}{cast}INFINITY)" if c99 else f"({sign}{cast}HUGE_VAL)"
    return ""


def integer_literal(value: int, dtype: DType) -> str:
    """A literal whose C type computes like ``dtype``; ``int`` where that is wide enough."""
    if dtype in (DType.U32, DType.U64):
        return _unsigned(value, dtype)
    if -_INT_MAX <= value <= _INT_MAX:
        return str(value)
    if value == -_INT_MAX - 1:
        return "(-2147483647 - 1)"
    return f"(int64_t){_unsigned(value % 2**64, DType.U64)}"


def _unsigned(value: int, dtype: DType) -> str:
    if value < 2**32:
        return f"{value}u" if dtype is DType.U32 else f"((uint64_t){value}u)"
    high, low = divmod(value, 1 << 32)
    return f"(((uint64_t){high}u << 32) | {low}u)"


def array_lines(array: np.ndarray, c99: bool) -> Iterator[str]:
    """The elements as initialisers, separated by commas, in lines of bounded length."""
    texts = _element_texts(np.ascontiguousarray(array).reshape(-1), c99)
    line: list[str] = []
    used = 0
    for text in texts:
        if used + len(text) + 1 > _LINE and line:
            yield ",".join(line) + ","
            line, used = [], 0
        line.append(text)
        used += len(text) + 1
    yield ",".join(line)


def _element_texts(flat: np.ndarray, c99: bool) -> list[str]:
    dtype = DType.of(flat.dtype)
    if dtype in (DType.F16, DType.BF16):
        return [str(bits) for bits in flat.view(np.uint16).tolist()]
    if dtype is DType.BOOL:
        return [str(bit) for bit in flat.view(np.uint8).tolist()]
    if not dtype.is_float:
        return [integer_literal(value, dtype) for value in flat.tolist()]
    if dtype is DType.F64:
        return [float_literal(value, dtype, c99) for value in flat.tolist()]
    if not np.isfinite(flat).all():
        return [float_literal(value, dtype, c99) for value in flat]
    return [_short(text) for text in flat.astype("U").tolist()]


def _short(text: str) -> str:
    """``0.25`` as ``.25f``, ``3.0`` as ``3.f``: a third of a weight file is such zeros."""
    if text.startswith("0."):
        text = text[1:] if text != "0.0" else "0."
    elif text.startswith("-0."):
        text = "-" + text[2:] if text != "-0.0" else "-0."
    elif text.endswith(".0"):
        text = text[:-1]
    return f"{text}f"


def storage_of(array: np.ndarray) -> str:
    """The C type of an array's elements."""
    return STORAGE[DType.of(array.dtype)]
