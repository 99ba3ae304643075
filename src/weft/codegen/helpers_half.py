"""Helpers between vectors of half precision, which are held as their bits, and of f32."""

from __future__ import annotations

from weft.codegen.helper_text import helper_text
from weft.dtypes import DType

_BY = {
    ("from", DType.F16, 8): ("defined(__F16C__)", "_mm256_cvtph_ps((__m128i)x)"),
    ("from", DType.F16, 16): ("defined(__AVX512F__)", "_mm512_cvtph_ps((__m256i)x)"),
    ("to", DType.F16, 8): ("defined(__F16C__)", "_mm256_cvtps_ph((__m256)x, 0)"),
    ("to", DType.F16, 16): ("defined(__AVX512F__)", "_mm512_cvtps_ph((__m512)x, 0)"),
    # gcc 12 widens vectors of 16 lanes in halves otherwise.
    ("from", DType.BF16, 16): (
        "defined(__AVX512F__)",
        "_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)x), 16)",
    ),
    # These two take denormal numbers for zero.
    ("to", DType.BF16, 8): (
        "defined(__AVX512BF16__) && defined(__AVX512VL__)",
        "_mm256_cvtneps_pbh((__m256)x)",
    ),
    ("to", DType.BF16, 16): ("defined(__AVX512BF16__)", "_mm512_cvtneps_pbh((__m512)x)"),
    ("to", DType.BF16, 4): (
        "defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)",
        "vreinterpret_u16_bf16(vcvt_bf16_f32((float32x4_t)x))",
    ),
}
"""What a compiler must have for the instruction that converts so many lanes, and its text."""
_TOLD = {
    "from": "Half precision to single; exact.",
    "to": "Single precision to half; rounds to nearest, ties to even.",
}


def converted_half(verb: str, half: DType, lanes: int) -> str | None:
    """``from_bf16_v16f32`` and ``to_bf16_v16f32``: by an instruction, by shifts, or by lanes.

    Args:
        verb: ``from`` or ``to``.
        half: ``f16`` or ``bf16``.
        lanes: of the vectors.
    """
    single, bits = f"v{lanes}f32", f"v{lanes}u16"
    words = {"op": f"{verb}_{half.value}", "V": single, "U": f"v{lanes}u32", "L": lanes}
    words |= {"A": bits, "R": single} if verb == "from" else {"A": single, "R": bits}
    words["told"] = _TOLD[verb]
    each = f"weft_{half.value}_to_f32" if verb == "from" else f"weft_f32_to_{half.value}"
    own = f"{verb}_{half.value}" if half is DType.BF16 else "lanes"
    words["plain"] = helper_text("half", own, **words, each=each) or ""
    if (verb, half, lanes) not in _BY:
        return helper_text("half", "convert", **words)
    when, call = _BY[verb, half, lanes]
    header = "arm_neon.h" if "__ARM" in when else "immintrin.h"
    return helper_text("half", "convert_by", **words, when=when, call=call, header=header)


def rounded_half(half: DType, lanes: int) -> str | None:
    """``round16bf16_v16f32``: single precision, rounded.

    Args:
        half: ``f16`` or ``bf16``.
        lanes: of the vectors.
    """
    words = {"op": f"round16{half.value}", "half": half.value, "V": f"v{lanes}f32"}
    return helper_text("half", "rounded", **words)
