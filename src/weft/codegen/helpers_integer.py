"""Helpers for integers: division that is defined everywhere, powers, saturating casts."""

from __future__ import annotations

from weft.codegen.helper_text import helper_text
from weft.codegen.naming import STORAGE
from weft.dtypes import DType

_TYPES = {"i32": "int", "u32": "uint32_t", "i64": "int64_t", "u64": "uint64_t"}
_UNSIGNED = {"i32": "uint32_t", "u32": "uint32_t", "i64": "uint64_t", "u64": "uint64_t"}
_DTYPES = {dtype.value: dtype for dtype in DType}
_ON_UNSIGNED = {"min", "max", "div", "fmod", "pow"}


def integer_helper(name: str) -> str | None:
    """The helper of this name (``min_i32``, ``f32_to_i8``, ``shl_u16``), if there is one."""
    if "_to_" in name:
        source, _, target = name.partition("_to_")
        found = _DTYPES.get(target)
        if source in ("f32", "f64") and found is not None and found.is_integer:
            return _saturating(source, found)
        return None
    op, _, suffix = name.rpartition("_")
    if op in ("shl", "shr") and suffix in _DTYPES:
        return _shift(op, _DTYPES[suffix])
    unsigned = suffix.startswith("u")
    if suffix not in _TYPES or (unsigned and op not in _ON_UNSIGNED):
        return None
    apart = "unsigned " if unsigned and op in ("div", "fmod") else ""
    negative = "" if unsigned else helper_text("integer", "negative")
    return helper_text(
        "integer",
        f"{apart}{op}_$S",
        T=_TYPES[suffix],
        U=_UNSIGNED[suffix],
        S=suffix,
        negative=negative,
    )


def _shift(op: str, dtype: DType) -> str | None:
    wide = "uint64_t" if dtype.bytes == 8 else "uint32_t"
    bits = dtype.bytes * 8
    return helper_text("integer", f"{op}_$D", T=STORAGE[dtype], U=wide, D=dtype.value, bits=bits)


def _saturating(source: str, dtype: DType) -> str | None:
    low, high = dtype.limits
    suffix = "f" if source == "f32" else ""
    wide = (source == "f32" and dtype.bytes >= 4) or dtype.bytes == 8
    # The doubles (floats) next to the limits: where those are not representable, the power of
    # two itself is the first number beyond.
    below = f"{float(low - (2 ** (dtype.bytes * 8 - 24) if wide else 1))!r}{suffix}"
    if dtype.bytes == 8 and dtype.is_signed:
        below = f"-9223373136366403584.0{suffix}" if suffix else "-9223372036854777856.0"
    if not dtype.is_signed:
        below = f"-1.0{suffix}"
    above = f"{float(high + 1)!r}{suffix}"
    return helper_text(
        "integer",
        "${S}_to_$D",
        T=STORAGE[dtype],
        S=source,
        D=dtype.value,
        F="float" if source == "f32" else "double",
        below=below,
        above=above,
        most=_LIMITS[dtype][1],
        least_or_zero=f"(x < {_ZERO[source]} ? {_LIMITS[dtype][0]} : 0)" if low else "0",
    )


_ZERO = {"f32": "0.0f", "f64": "0.0"}
_MOST_I64 = "(int64_t)(((uint64_t)2147483647u << 32) | 4294967295u)"
_LIMITS = {
    DType.I8: ("-128", "127"),
    DType.I16: ("-32767 - 1", "32767"),
    DType.I32: ("-2147483647 - 1", "2147483647"),
    DType.I64: (f"-{_MOST_I64} - 1", _MOST_I64),
    DType.U8: ("0", "255u"),
    DType.U16: ("0", "65535u"),
    DType.U32: ("0", "4294967295u"),
    DType.U64: ("0", "((uint64_t)4294967295u << 32) | 4294967295u"),
}
