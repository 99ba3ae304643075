"""Helpers for integers: division that is defined everywhere, powers, saturating casts."""

from __future__ import annotations

from weft.codegen.helpers_float import Text
from weft.codegen.naming import STORAGE
from weft.dtypes import DType

_TYPES = {"i32": "int", "u32": "uint32_t", "i64": "int64_t", "u64": "uint64_t"}
_UNSIGNED = {"i32": "uint32_t", "u32": "uint32_t", "i64": "uint64_t", "u64": "uint64_t"}
_DTYPES = {dtype.value: dtype for dtype in DType}

_MIN = """\
/* The smaller number. */
static {T} weft_min_{S}({T} lhs, {T} rhs)
{{
    return rhs < lhs ? rhs : lhs;
}}
"""

_MAX = """\
/* The larger number. */
static {T} weft_max_{S}({T} lhs, {T} rhs)
{{
    return lhs < rhs ? rhs : lhs;
}}
"""

_ABS = """\
/* The absolute value; the most negative number stays. */
static {T} weft_abs_{S}({T} x)
{{
    return x < 0 ? ({T})(0u - ({U})x) : x;
}}
"""

_SIGN = """\
/* -1, 0 or 1. */
static int weft_sign_{S}({T} x)
{{
    return (x > 0) - (x < 0);
}}
"""

_DIV_SIGNED = """\
/* The quotient towards zero; wraps, and is 0 for a divisor of 0. */
static {T} weft_div_{S}({T} x, {T} y)
{{
    if (y == 0) {{
        return 0;
    }}
    return y == -1 ? ({T})(0u - ({U})x) : x / y;
}}
"""

_DIV_UNSIGNED = """\
/* The quotient; 0 for a divisor of 0. */
static {T} weft_div_{S}({T} x, {T} y)
{{
    return y == 0u ? 0u : x / y;
}}
"""

_FMOD_SIGNED = """\
/* The remainder with the sign of the dividend; 0 for a divisor of 0. */
static {T} weft_fmod_{S}({T} x, {T} y)
{{
    return (y == 0 || y == -1) ? 0 : x % y;
}}
"""

_FMOD_UNSIGNED = """\
/* The remainder; 0 for a divisor of 0. */
static {T} weft_fmod_{S}({T} x, {T} y)
{{
    return y == 0u ? 0u : x % y;
}}
"""

_FLOORDIV = """\
/* The quotient towards minus infinity; 0 for a divisor of 0. */
static {T} weft_floordiv_{S}({T} x, {T} y)
{{
    const {T} rest = weft_fmod_{S}(x, y);
    const {T} quotient = weft_div_{S}(x, y);
    return (rest != 0 && (rest < 0) != (y < 0)) ? quotient - 1 : quotient;
}}
"""

_MOD = """\
/* The remainder with the sign of the divisor; 0 for a divisor of 0. */
static {T} weft_mod_{S}({T} x, {T} y)
{{
    const {T} rest = weft_fmod_{S}(x, y);
    return (rest != 0 && (rest < 0) != (y < 0)) ? rest + y : rest;
}}
"""

_POW = """\
/* A power, wrapping; a negative exponent gives the reciprocal towards zero. */
static {T} weft_pow_{S}({T} base, {T} exponent)
{{
    {U} result = 1u;
    {U} square = ({U})base;
    {U} left = ({U})exponent;
{negative}    while (left != 0u) {{
        if ((left & 1u) != 0u) {{
            result *= square;
        }}
        square *= square;
        left >>= 1;
    }}
    return ({T})result;
}}
"""

_POW_NEGATIVE = """\
    if (exponent < 0) {
        if (base != 1 && base != -1) {
            return 0;
        }
        left &= 1u;
    }
"""

_SHL = """\
/* A shift to the left; 0 from the width of the type on. */
static {T} weft_shl_{D}({T} x, {T} count)
{{
    return ({U})count < {bits}u ? ({T})(({U})x << ({U})count) : 0;
}}
"""

_SHR = """\
/* A shift to the right; 0 from the width of the type on. */
static {T} weft_shr_{D}({T} x, {T} count)
{{
    return ({U})count < {bits}u ? ({T})(x >> ({U})count) : 0;
}}
"""

_SATURATE = """\
/* Truncates; numbers beyond the type give its ends and a NaN gives 0. */
static {T} weft_{S}_to_{D}({F} x)
{{
    if (x > {below} && x < {above}) {{
        return ({T})x;
    }}
    return x >= {above} ? {most} : {least_or_zero};
}}
"""

_SIGNED = {
    "min": (_MIN, ()),
    "max": (_MAX, ()),
    "abs": (_ABS, ()),
    "sign": (_SIGN, ()),
    "div": (_DIV_SIGNED, ()),
    "fmod": (_FMOD_SIGNED, ()),
    "floordiv": (_FLOORDIV, ("fmod", "div")),
    "mod": (_MOD, ("fmod",)),
}
_UNSIGNED_TEXTS = {
    "min": (_MIN, ()),
    "max": (_MAX, ()),
    "div": (_DIV_UNSIGNED, ()),
    "fmod": (_FMOD_UNSIGNED, ()),
}


def integer_helper(name: str) -> Text | None:
    """The helper of this name (``min_i32``, ``f32_to_i8``, ``shl_u16``), if there is one."""
    if "_to_" in name:
        source, _, target = name.partition("_to_")
        found = _DTYPES.get(target)
        if source in ("f32", "f64") and found is not None and found.is_integer:
            return _saturating(source, found), ()
        return None
    op, _, suffix = name.rpartition("_")
    if op in ("shl", "shr") and suffix in _DTYPES:
        return _shift(op, _DTYPES[suffix]), ()
    if suffix not in _TYPES:
        return None
    words = {"T": _TYPES[suffix], "U": _UNSIGNED[suffix], "S": suffix}
    if op == "pow":
        negative = _POW_NEGATIVE if suffix.startswith("i") else ""
        return _POW.format(**words, negative=negative), ()
    table = _SIGNED if suffix.startswith("i") else _UNSIGNED_TEXTS
    if op not in table:
        return None
    text, needs = table[op]
    return text.format(**words), tuple(f"weft_{need}_{suffix}" for need in needs)


def _shift(op: str, dtype: DType) -> str:
    text = _SHL if op == "shl" else _SHR
    wide = "uint64_t" if dtype.bytes == 8 else "uint32_t"
    bits = dtype.bytes * 8
    return text.format(T=STORAGE[dtype], U=wide, D=dtype.value, bits=bits)


def _saturating(source: str, dtype: DType) -> str:
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
    return _SATURATE.format(
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
