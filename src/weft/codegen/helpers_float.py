"""Helpers for floating point: conversions of 16-bit floats, minimum, sign, remainders."""

from __future__ import annotations

from typing import TypeAlias

from weft.codegen.naming import STORAGE
from weft.dtypes import DType

Text: TypeAlias = tuple[str, tuple[str, ...]]
"""The C text of a helper and the names of the helpers that it calls."""

_BITS = """\
/* A float and its bits. */
typedef union weft_bits {
    float number;
    uint32_t bits;
} weft_bits;
"""

_F16_TO_F32 = """\
/* Half precision to single; exact. */
static float weft_f16_to_f32(uint16_t half)
{
    const uint32_t sign = ((uint32_t)half & 0x8000u) << 16;
    const uint32_t rest = (uint32_t)half & 0x7fffu;
    weft_bits result;
    if (rest >= 0x7c00u) {
        result.bits = 0x7f800000u | (rest << 13);
    } else if (rest >= 0x0400u) {
        result.bits = (rest << 13) + 0x38000000u;
    } else {
        result.number = (float)(int)rest * 5.9604644775390625e-8f;
    }
    result.bits |= sign;
    return result.number;
}
"""

_F32_TO_F16 = """\
/* Single precision to half; rounds to nearest, ties to even. */
static uint16_t weft_f32_to_f16(float number)
{
    weft_bits value;
    uint32_t sign;
    value.number = number;
    sign = (value.bits >> 16) & 0x8000u;
    value.bits &= 0x7fffffffu;
    if (value.bits > 0x7f800000u) {
        value.bits = 0x7e00u;
    } else if (value.bits >= 0x477ff000u) {
        value.bits = 0x7c00u;
    } else if (value.bits < 0x38800000u) {
        value.number += 0.5f; /* the last bit of [0.5, 1) is that of subnormal halves */
        value.bits -= 0x3f000000u;
    } else {
        value.bits += 0x0fffu + ((value.bits >> 13) & 1u);
        value.bits = (value.bits - 0x38000000u) >> 13;
    }
    return (uint16_t)(sign | value.bits);
}
"""

_BF16_TO_F32 = """\
/* bfloat16 to single; exact. */
static float weft_bf16_to_f32(uint16_t brain)
{
    weft_bits result;
    result.bits = (uint32_t)brain << 16;
    return result.number;
}
"""

_F32_TO_BF16 = """\
/* Single precision to bfloat16; rounds to nearest, ties to even. */
static uint16_t weft_f32_to_bf16(float number)
{
    weft_bits value;
    value.number = number;
    if ((value.bits & 0x7fffffffu) > 0x7f800000u) {
        value.bits |= 0x00400000u;
    } else {
        value.bits += 0x7fffu + ((value.bits >> 16) & 1u);
    }
    return (uint16_t)(value.bits >> 16);
}
"""

_ROUND_16 = """\
/* Rounds to what {name} holds. */
static float weft_round_{name}(float number)
{{
    return weft_{name}_to_f32(weft_f32_to_{name}(number));
}}
"""

_BITS_AS = """\
/* The same bits as another type. */
static {to} weft_bits_{source}_{target}({of} x)
{{
    union {{
        {of} from;
        {to} to;
    }} value;
    value.from = x;
    return value.to;
}}
"""

_F64_TO_ODD = """\
/* Double to single, rounded to odd: rounding once more to half precision is then right. */
static float weft_f64_to_odd(double number)
{
    weft_bits result;
    double back;
    result.number = (float)number;
    back = (double)result.number;
    if (back != number && number - number == 0.0 && (result.bits & 1u) == 0u) {
        if ((result.bits & 0x7fffffffu) != 0x7f800000u) {
            result.bits += ((back < number) == (number > 0.0)) ? 1u : 0xffffffffu;
        }
    }
    return result.number;
}
"""

_MIN = """\
/* The smaller number; a NaN on the left stays, one on the right is passed over. */
static {T} weft_min_{S}({T} lhs, {T} rhs)
{{
    return rhs < lhs ? rhs : lhs;
}}
"""

_MAX = """\
/* The larger number; a NaN on the left stays, one on the right is passed over. */
static {T} weft_max_{S}({T} lhs, {T} rhs)
{{
    return lhs < rhs ? rhs : lhs;
}}
"""

_SIGN = """\
/* -1, 0 or 1; a NaN stays. */
static {T} weft_sign_{S}({T} x)
{{
    return x != x ? x : ({T})((x > {zero}) - (x < {zero}));
}}
"""

_MOD = """\
/* The remainder with the sign of the divisor. */
static {T} weft_mod_{S}({T} x, {T} y)
{{
    const {T} rest = {fmod};
    if (rest != {zero}) {{
        return ((rest < {zero}) != (y < {zero})) ? rest + y : rest;
    }}
    return y < {zero} ? -{zero} : {zero};
}}
"""

_FLOORDIV = """\
/* The quotient rounded towards minus infinity; exact where x / y would round up to it. */
static {T} weft_floordiv_{S}({T} x, {T} y)
{{
    {T} rest;
    {T} quotient;
    {T} whole;
    if (y == {zero}) {{
        return x / y;
    }}
    rest = {fmod};
    quotient = (x - rest) / y;
    if (rest != {zero} && (rest < {zero}) != (y < {zero})) {{
        quotient -= {one};
    }}
    if (quotient == {zero}) {{
        return x / y < {zero} ? -{zero} : {zero} * (x / y);
    }}
    whole = {floor};
    return quotient - whole > {half} ? whole + {one} : whole;
}}
"""

_ISNAN = """\
/* 1 for a NaN. */
static int weft_isnan_{S}({T} x)
{{
    return x != x;
}}
"""

_ISINF = """\
/* 1 for an infinity. */
static int weft_isinf_{S}({T} x)
{{
    return x == x && x - x != {zero};
}}
"""


def _typed() -> dict[str, Text]:
    found: dict[str, Text] = {}
    for kind, suffix, zero, one in (
        ("float", "f32", "0.0f", "1.0f"),
        ("double", "f64", "0.0", "1.0"),
    ):
        words = {
            "T": kind,
            "S": suffix,
            "zero": zero,
            "one": one,
            "half": zero.replace("0.0", "0.5"),
        }
        double = kind == "double"
        words["fmod"] = "fmod(x, y)" if double else "(float)fmod((double)x, (double)y)"
        words["floor"] = "floor(quotient)" if double else "(float)floor((double)quotient)"
        for name, text in (
            ("min", _MIN),
            ("max", _MAX),
            ("sign", _SIGN),
            ("mod", _MOD),
            ("floordiv", _FLOORDIV),
            ("isnan", _ISNAN),
            ("isinf", _ISINF),
        ):
            found[f"{name}_{suffix}"] = text.format(**words), ()
    return found


def _of_bits() -> dict[str, Text]:
    """Between floats and integers of the same size."""
    found: dict[str, Text] = {}
    for number in (DType.F32, DType.F64):
        for bits in (DType(f"{sign}{8 * number.bytes}") for sign in "iu"):
            for source, target in ((number, bits), (bits, number)):
                names = {"source": source.value, "target": target.value}
                text = _BITS_AS.format(of=STORAGE[source], to=STORAGE[target], **names)
                found[f"bits_{source.value}_{target.value}"] = text, ()
    return found


FLOAT_HELPERS: dict[str, Text] = {
    "bits": (_BITS, ()),
    "f16_to_f32": (_F16_TO_F32, ("weft_bits",)),
    "f32_to_f16": (_F32_TO_F16, ("weft_bits",)),
    "bf16_to_f32": (_BF16_TO_F32, ("weft_bits",)),
    "f32_to_bf16": (_F32_TO_BF16, ("weft_bits",)),
    "round_f16": (_ROUND_16.format(name="f16"), ("weft_f16_to_f32", "weft_f32_to_f16")),
    "round_bf16": (_ROUND_16.format(name="bf16"), ("weft_bf16_to_f32", "weft_f32_to_bf16")),
    "f64_to_odd": (_F64_TO_ODD, ("weft_bits",)),
    **_of_bits(),
    **_typed(),
}
