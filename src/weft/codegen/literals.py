"""Numbers as C text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import orjson

from weft.codegen.flavours import Dialect
from weft.codegen.naming import STORAGE
from weft.codegen.tree import NEGATIVE, PRIMARY, CNumber
from weft.codegen.uses import words
from weft.dtypes import DType

_INT_MAX = 2**31 - 1
_LINE = 100
_CHUNK = 1 << 16
"""Elements turned into text at a time, which bounds the memory that takes."""


def float_literal(value: float, dtype: DType, dialect: Dialect) -> str:
    """A literal of a floating-point type that reads back as the same bits (but for NaNs)."""
    if dtype is DType.F64:
        return _special(value, "", dialect) or repr(float(value))
    narrow = np.float32(np.asarray(value, dtype.numpy))
    return _special(float(narrow), "(float)", dialect) or f"{narrow!s}f"


def _special(value: float, cast: str, dialect: Dialect) -> str:
    if math.isnan(value):
        return f"({cast}{_bracketed(dialect.nan)})"
    if math.isinf(value):
        sign = "-" if value < 0 else ""
        return f"({sign}{cast}{dialect.infinity})"
    return ""


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text else text


def _special_names(dialect: Dialect) -> frozenset[str]:
    """The macros that infinities and what is no number are made of."""
    return words(dialect.infinity) | words(dialect.nan)


def integer_literal(value: int, dtype: DType) -> str:
    """A literal whose C type computes like ``dtype``; ``int`` where that is wide enough."""
    if dtype in (DType.U32, DType.U64):
        return _unsigned(value, dtype)
    if -_INT_MAX <= value <= _INT_MAX:
        return str(value)
    if value == -_INT_MAX - 1:
        return "(-2147483647 - 1)"
    return f"(int64_t){_unsigned(value % 2**64, DType.U64)}"


def integer_number(value: int, dtype: DType) -> CNumber:
    """The same as a node of the tree."""
    text = integer_literal(value, dtype)
    if text[0] != "(":
        return CNumber(text, NEGATIVE if text[0] == "-" else PRIMARY)
    if text.startswith("(int64_t)"):
        return CNumber(text, NEGATIVE, ("int64_t", "uint64_t"))
    return CNumber(text, PRIMARY, ("uint64_t",) if dtype is DType.U64 else ())


def float_number(value: float, dtype: DType, dialect: Dialect) -> CNumber:
    """A number of a floating-point type as a node of the tree."""
    text = float_literal(value, dtype, dialect)
    if math.isfinite(value) and text[0] != "(":
        return CNumber(text, NEGATIVE if text[0] == "-" else PRIMARY)
    return CNumber(text, PRIMARY, tuple(_special_names(dialect)))


def _unsigned(value: int, dtype: DType) -> str:
    if value < 2**32:
        return f"{value}u" if dtype is DType.U32 else f"((uint64_t){value}u)"
    high, low = divmod(value, 1 << 32)
    return f"(((uint64_t){high}u << 32) | {low}u)"


def array_lines(array: np.ndarray, dialect: Dialect) -> Iterator[str]:
    """The elements as initialisers, separated by commas, in lines of bounded length.

    An array of no elements gives one zero: C has no empty initialisers.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    dtype = DType.of(flat.dtype)
    if not flat.size:
        yield "0"
    for first in range(0, flat.size, _CHUNK):
        text = _chunk_text(flat[first : first + _CHUNK], dtype, dialect)
        last = first + _CHUNK >= flat.size
        yield from _lines_of(text if last else text + ",")


def _lines_of(text: str) -> Iterator[str]:
    begin = 0
    while len(text) - begin > _LINE:
        end = text.rfind(",", begin, begin + _LINE) + 1 or text.find(",", begin) + 1
        if not end:
            break
        yield text[begin:end]
        begin = end
    if begin < len(text):
        yield text[begin:]


def _chunk_text(flat: np.ndarray, dtype: DType, dialect: Dialect) -> str:
    if dtype in (DType.F16, DType.BF16):
        flat = flat.view(np.uint16)
    elif dtype is DType.BOOL:
        flat = flat.view(np.uint8)
    elif not dtype.is_float:
        if dtype.numpy.itemsize >= 4:
            return ",".join(integer_literal(value, dtype) for value in flat.tolist())
    elif not np.isfinite(flat).all():
        return ",".join(float_literal(value, dtype, dialect) for value in flat)
    text = orjson.dumps(flat, option=orjson.OPT_SERIALIZE_NUMPY).decode()[1:-1]
    if dtype is DType.F64 or not dtype.is_float or flat.dtype == np.uint16:
        return text
    # 0.25 as .25f: a third of a weight file is such zeros.
    short = f",{text},".replace(",0.", ",.").replace(",-0.", ",-.").replace(",", "f,")
    return short[2:-1]


def storage_of(dtype: np.dtype) -> str:
    """The C type of an array's elements."""
    return STORAGE[DType.of(dtype)]


def array_names(arrays: Iterable[np.ndarray], dialect: Dialect) -> frozenset[str]:
    """The types and macros that arrays use as text."""
    found: set[str] = set()
    for array in arrays:
        ctype = storage_of(array.dtype)
        found.add(ctype)
        if ctype in ("float", "double") and not np.isfinite(array).all():
            found.update(_special_names(dialect))
    return frozenset(found)
