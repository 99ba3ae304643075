"""Helpers that make vectors of integers wider.

gcc 12 makes the halves of a vector twice as wide one by one, and puts them together; vectors of
four times the width it makes lane by lane.
"""

from __future__ import annotations

from weft.codegen.helper_text import helper_text
from weft.dtypes import DType

_TWICE = {
    (1, 16): ("AVX2", "256", "__m128i"),
    (1, 32): ("AVX512BW", "512", "__m256i"),
    (2, 8): ("AVX2", "256", "__m128i"),
    (2, 16): ("AVX512F", "512", "__m256i"),
    (4, 4): ("AVX2", "256", "__m128i"),
    (4, 8): ("AVX512F", "512", "__m256i"),
}
"""By bytes of an element and lanes: what x86 needs, and the intrinsic's vector and operand."""
_FOUR = {
    4: ("SSE4_1", "", "_mm_cvtsi32_si128((int)x)"),
    8: ("AVX2", "256", "_mm_set_epi64x(0, (long long)x)"),
    16: ("AVX512F", "512", "(__m128i)x"),
}
"""The same by lanes of bytes that become ``i32``, with the operand of the intrinsic."""


def widens(source: DType, target: DType, lanes: int) -> bool:
    """Whether there is a helper for it."""
    if source.is_float or target.is_float or source is DType.BOOL:
        return False
    if target.bytes == 2 * source.bytes and target.is_signed == source.is_signed:
        return (source.bytes, lanes) in _TWICE
    return source.bytes == 1 and target is DType.I32 and lanes in _FOUR


def widened(op: str, lanes: int, source: DType) -> str | None:
    """``widen_i32_v16i8``: all lanes of a vector in a wider type."""
    target = DType(op.split("_")[1])
    if not widens(source, target, lanes):
        return None
    words = {"op": op, "V": f"v{lanes}{source.value}", "R": f"v{lanes}{target.value}"}
    sign, plain = "i" if source.is_signed else "u", "x"
    if target.bytes == 4 * source.bytes:
        need, bits, given = _FOUR[lanes]
        plain = f"__builtin_convertvector(x, v{lanes}{sign}16)"
    else:
        need, bits, kind = _TWICE[source.bytes, lanes]
        given = f"({kind})x"
    sizes = f"ep{sign}{8 * source.bytes}_epi{8 * target.bytes}"
    words |= {"call": f"_mm{bits}_cvt{sizes}({given})", "need": need, "plain": plain}
    return helper_text("vector", "widen", **words)
