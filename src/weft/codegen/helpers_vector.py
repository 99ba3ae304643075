"""Helpers on GNU vectors: select, minimum and maximum, bits of floats, functions by lanes.

Names are ``op_v<lanes><element>``, as in ``max_v16f32``.  ``?:`` on vectors is not C, so a
selection is made of bits; compilers turn it back into a blend.
"""

from __future__ import annotations

from weft.codegen.helpers_float import Text
from weft.codegen.helpers_math import math_helper
from weft.codegen.naming import STORAGE
from weft.dtypes import DType
from weft.loops.arithmetic import HALVES

_MASKS = {8: "i64", 4: "i32", 2: "i16", 1: "i8"}

_SELECT = """\
/* The left lanes where the mask is all ones, the right ones where it is zero. */
static {V} weft_select_{V}({M} mask, {V} yes, {V} no)
{{
    return ({V})((({M})yes & mask) | (({M})no & ~mask));
}}
"""

# All forms compile to one instruction on x86; each compiler knows one of them only.
_EXTREME = """\
/* The {word} lanes; a NaN on the left stays, one on the right is passed over. */
static {V} weft_{op}_{V}({V} lhs, {V} rhs)
{{
{builtin}#if defined(__clang__)
    const {M} mask = ({M})({left} < {right});
    return ({V})((({M})rhs & mask) | (({M})lhs & ~mask));
#else
    {V} result;
    int lane;
    for (lane = 0; lane < {L}; ++lane) {{
        result[lane] = {left}[lane] < {right}[lane] ? rhs[lane] : lhs[lane];
    }}
    return result;
#endif
}}
"""

# With AVX-512, gcc makes a comparison and a blend of the loop.
_EXTREME_BUILTIN = """\
#if defined(__AVX512VL__) && !defined(__clang__)
    return {call};
#endif
"""

_EXTREME_CALLS = {
    "v16f32": "__builtin_ia32_{op}ps512_mask(rhs, lhs, rhs, -1, 4)",
    "v8f32": "__builtin_ia32_{op}ps256(rhs, lhs)",
    "v4f32": "__builtin_ia32_{op}ps(rhs, lhs)",
    "v8f64": "__builtin_ia32_{op}pd512_mask(rhs, lhs, rhs, -1, 4)",
    "v4f64": "__builtin_ia32_{op}pd256(rhs, lhs)",
    "v2f64": "__builtin_ia32_{op}pd(rhs, lhs)",
}

# Each compiler knows one of the two builtins, both in all versions that matter.
_SHUFFLE = """\
/* Lanes of two vectors, by number; those of the second come after those of the first. */
#if defined(__clang__)
#define weft_shuffle_{V}(lhs, rhs, ...) __builtin_shufflevector(lhs, rhs, __VA_ARGS__)
#else
#define weft_shuffle_{V}(lhs, rhs, ...) __builtin_shuffle(lhs, rhs, ({M}){{__VA_ARGS__}})
#endif
"""

_ABS_FLOAT = """\
/* The lanes without their signs. */
static {V} weft_abs_{V}({V} x)
{{
    return ({V})(({M})x & ~({M})(-({V}){{0}}));
}}
"""

_ABS_INT = """\
/* The absolute values; the most negative number stays. */
static {V} weft_abs_{V}({V} x)
{{
    const {V} sign = x < 0;
    return ({V})((({U})x ^ ({U})sign) - ({U})sign);
}}
"""

# Adding and taking away 2^23 (2^52) rounds to whole numbers; larger ones are whole already.
_ROUND = """\
/* The nearest whole numbers, ties to even. */
static {V} weft_round_{V}({V} x)
{{
    const {M} sign = ({M})(-({V}){{0}});
    const {M} bits = ({M})x & ~sign;
    const {V} size = ({V})bits;
    const {V} whole = (size + {whole}) - {whole};
    const {M} small = ({M})(size < {whole});
    return ({V})((((({M})whole & small) | (bits & ~small))) | (({M})x & sign));
}}
"""

_ZIP = """\
/* The lanes of two vectors in turn. */
static {V} weft_zip_{V}({H} lhs, {H} rhs)
{{
#if defined(__clang__) || __GNUC__ >= 12
    return __builtin_shufflevector(lhs, rhs, {order});
#else
    {V} result;
    int lane;
    for (lane = 0; lane < {half}; ++lane) {{
        result[2 * lane] = lhs[lane];
        result[2 * lane + 1] = rhs[lane];
    }}
    return result;
#endif
}}
"""

_PAIR = """\
/* Two neighbours again and again. */
static {V} weft_pair_{V}(const {C} *x)
{{
    const int64_t pair = (int64_t)*(const {P}_mem *)x;
    return ({V})({W}){{{pairs}}};
}}
"""

_SATURATE = """\
/* Truncates; numbers beyond the type give its ends and a NaN gives 0. */
static {R} weft_{op}_{V}({V} x)
{{
    const {M} number = ({M})(x == x);
    const {V} below = weft_min_{V}(x, {most} - ({V}){{0}});
    const {V} inside = weft_max_{V}(below, {least} - ({V}){{0}});
    const {M} whole = __builtin_convertvector(({V})(({M})inside & number), {M});
    return __builtin_convertvector(whole, {R});
}}
"""

_LANES = """\
/* {op} of each lane. */
static {R} weft_{op}_{V}({arguments})
{{
    {R} result;
    int lane;
    for (lane = 0; lane < {L}; ++lane) {{
        result[lane] = {call};
    }}
    return result;
}}
"""

LANE_CALLS = frozenset(
    "sqrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "erfc floor ceil trunc".split()
)
"""Functions of one operand that are computed lane by lane."""


def vector_type(dtype: DType, lanes: int) -> str:
    """The name of a vector type: ``v16f32``."""
    return f"v{lanes}{dtype.value}"


VECTOR_TYPES = {
    vector_type(dtype, lanes): (lanes, dtype)
    for dtype in DType
    for lanes in (2, 4, 8, 16, 32, 64, 128)
    if dtype not in (*HALVES, DType.BOOL)
}
"""Lanes and element type of each vector type by its name."""


def mask_dtype(size: int) -> DType:
    """The integer type of a mask for lanes of this many bytes."""
    return DType(_MASKS[size])


def vector_helper(name: str) -> Text | None:
    """The helper on vectors of this name, if there is one."""
    op, _, vector = name.rpartition("_")
    if vector not in VECTOR_TYPES:
        return None
    lanes, dtype = VECTOR_TYPES[vector]
    element = dtype.value
    if op.startswith(("from_", "to_", "saturate_")):
        return _conversion(op, lanes, element)
    if dtype is DType.F32:
        mathematical = math_helper(op, lanes)
        if mathematical is not None:
            return mathematical
    size = dtype.bytes
    words = {
        "V": f"v{lanes}{element}",
        "R": f"v{lanes}{element}",
        "M": f"v{lanes}{_MASKS[size]}",
        "U": f"v{lanes}u{size * 8}",
        "L": str(lanes),
        "op": op,
        "whole": "8388608.0f" if size == 4 else "4503599627370496.0",
    }
    if op == "select":
        return _SELECT.format(**words), ()
    if op in ("min", "max"):
        left, right = ("lhs", "rhs") if op == "max" else ("rhs", "lhs")
        word = "larger" if op == "max" else "smaller"
        call = _EXTREME_CALLS.get(words["V"], "").format(op=op)
        builtin = _EXTREME_BUILTIN.format(call=call) if call else ""
        return _EXTREME.format(**words, left=left, right=right, word=word, builtin=builtin), ()
    if op == "shuffle":
        return _SHUFFLE.format(**words), ()
    if op == "abs":
        return (_ABS_FLOAT if dtype.is_float else _ABS_INT).format(**words), ()
    if op == "round":
        return _ROUND.format(**words), ()
    return _by_lanes(op, dtype, words)


def _zip(lanes: int, dtype: DType, words: dict[str, str]) -> str:
    half = lanes // 2
    order = ", ".join(f"{lane}, {lane + half}" for lane in range(half))
    return _ZIP.format(**words, H=f"v{half}{dtype.value}", half=half, order=order)


def _pair(lanes: int, dtype: DType, words: dict[str, str]) -> str:
    half = lanes // 2
    pairs = ", ".join(["pair"] * half)
    types = {"C": STORAGE[dtype], "P": f"v2{dtype.value}", "W": f"v{half}i64"}
    return _PAIR.format(**words, **types, pairs=pairs)


def _by_lanes(op: str, dtype: DType, words: dict[str, str]) -> Text | None:
    vector = words["V"]
    if op == "zip":
        return _zip(int(words["L"]), dtype, words), ()
    if op == "pair":
        return _pair(int(words["L"]), dtype, words), ()
    if op in ("round16f16", "round16bf16"):
        helper = f"weft_round_{op.removeprefix('round16')}"
        text = _LANES.format(**words, arguments=f"{vector} x", call=f"{helper}(x[lane])")
        return text, (helper,)
    if op in ("mod", "floordiv"):
        helper = f"weft_{op}_{dtype.value}"
        call = f"{helper}(lhs[lane], rhs[lane])"
        text = _LANES.format(**words, arguments=f"{vector} lhs, {vector} rhs", call=call)
        return text, (helper,)
    suffix = "f" if dtype is DType.F32 else ""
    if op in ("fmod", "pow"):
        call = f"{op}{suffix}(lhs[lane], rhs[lane])"
        return _LANES.format(**words, arguments=f"{vector} lhs, {vector} rhs", call=call), ()
    if op == "sign":
        helper = f"weft_sign_{dtype.value}"
        text = _LANES.format(**words, arguments=f"{vector} x", call=f"{helper}(x[lane])")
        return text, (helper,)
    if op not in LANE_CALLS:
        return None
    call = f"{op}{suffix}(x[lane])"
    return _LANES.format(**words, arguments=f"{vector} x", call=call), ()


def _conversion(op: str, lanes: int, element: str) -> Text:
    """``to_f16_v16f32`` packs lanes, ``from_f16_v16f32`` unpacks them, ``saturate_i8_v16f32``."""
    verb, _, other = op.partition("_")
    narrow = DType(other)
    vector = f"v{lanes}{element}"
    packed = f"v{lanes}{'u16' if narrow.is_float else narrow.value}"
    words = {"L": str(lanes), "V": vector, "op": op}
    if verb == "from":
        helper = f"weft_{other}_to_{element}"
        return (
            _LANES.format(**words, R=vector, arguments=f"{packed} x", call=f"{helper}(x[lane])"),
            (helper,),
        )
    helper = f"weft_{element}_to_{other}"
    call = f"{helper}(x[lane])"
    if verb == "saturate" and element == "f32" and narrow.bytes < 4:
        least, most = (f"{float(end):.1f}f" for end in narrow.limits)
        text = _SATURATE.format(**words, R=packed, M=f"v{lanes}i32", most=most, least=least)
        return text, (f"weft_min_{vector}", f"weft_max_{vector}")
    if verb == "saturate":
        call = f"({STORAGE[narrow]}){call}"
    text = _LANES.format(**words, R=packed, arguments=f"{vector} x", call=call)
    return text, (helper,)
