"""Helpers for table lookups: bytes in tables of 256 elements, indices in tables of 16 floats."""

from __future__ import annotations

from typing import NamedTuple

from weft.codegen.helper_text import helper_text
from weft.codegen.naming import STORAGE
from weft.dtypes import DType


class _Registers(NamedTuple):
    """How the compiler's intrinsics for x86 handle vectors of so many bytes.

    Attributes:
        kind: their type; prefix, suffix: of the names, the suffix where all bits are meant.
        when: what the compiler must have to look up bytes in 16 bytes.
        spread: repeats 16 bytes throughout a vector.
    """

    kind: str
    prefix: str
    suffix: str
    when: str
    spread: str


_X86 = {
    64: _Registers("__m512i", "_mm512", "si512", "defined(__AVX512BW__)", "_mm512_broadcast_i32x4"),
    32: _Registers(
        "__m256i", "_mm256", "si256", "defined(__AVX2__)", "_mm256_broadcastsi128_si256"
    ),
    16: _Registers("__m128i", "_mm", "si128", "defined(__SSSE3__)", ""),
}


TABLE16_LANES = (8, 16)
"""Vector widths for which a helper looks up all lanes at once in a table of 16 floats."""


def table16(lanes: int, dtype: DType) -> str | None:
    """``table16_f32_v16i32``: the elements of a table of 16 floats at the indices in a vector."""
    if dtype is not DType.I32 or lanes not in TABLE16_LANES:
        return None
    when = "defined(__AVX512F__)" if lanes == 16 else "defined(__AVX2__)"
    vector = helper_text("lookup", f"table16_by_{lanes}")
    return helper_text("lookup", "table16", L=lanes, when=when, vector=vector)


def lookup(op: str, lanes: int, dtype: DType) -> str | None:
    """``lookup_u8_v64i8``: the elements that bytes stand for; the smallest byte is the first."""
    if dtype not in (DType.I8, DType.U8):
        return None
    element, signed = DType(op.split("_")[1]), dtype.is_signed
    words = {
        "op": op,
        "V": f"v{lanes}{dtype.value}",
        "R": f"v{lanes}{element.value}",
        "C": STORAGE[element],
        "L": str(lanes),
        "first": " + 128" if signed else "",
    }
    plain = helper_text("lookup", "plain", **words)
    if lanes not in _X86:
        return helper_text("lookup", "lookup", **words, plain=plain)
    by = _X86[lanes]
    x, found = f"({by.kind})x", "found"
    if lanes < 64:
        x = f"_mm512_cast{by.suffix}_si512({x})"
        found = f"_mm512_cast{'si512_' + by.suffix}(found)"
    ends = "high, low" if signed else "low, high"
    own = f"({by.kind})x", "flipped"
    lower, upper = reversed(own) if signed else own
    bodies = {
        "by_128": helper_text("lookup", "by_128", **words, x=x, found=found, ends=ends),
        "by_16": helper_text("lookup", "by_16", **words, **by._asdict(), lower=lower, upper=upper),
        "neon": "",
    }
    if lanes == 16:
        flipped = "veorq_u8((uint8x16_t)x, vdupq_n_u8(128))" if signed else "(uint8x16_t)x"
        bodies["neon"] = helper_text("lookup", "neon", **words, x=flipped)
    return helper_text("lookup", "lookup_by", **words, **bodies, when=by.when, plain=plain)
