"""Helpers on GNU vectors: select, minimum and maximum, bits of floats, functions by lanes.

Names are ``op_v<lanes><element>``, as in ``max_v16f32``.  ``?:`` on vectors is not C, so a
selection is made of bits; compilers turn it back into a blend.
"""

from __future__ import annotations

from weft.codegen.helper_text import helper_text
from weft.codegen.helpers_half import converted_half, rounded_half
from weft.codegen.helpers_lookup import lookup, table16
from weft.codegen.helpers_widen import widened
from weft.codegen.naming import STORAGE
from weft.codegen.unrolling import lane_hint
from weft.dtypes import DType
from weft.loops.nodes import FUNCTIONS
from weft.loops.python_arithmetic import HALVES

_MASKS = {8: "i64", 4: "i32", 2: "i16", 1: "i8"}

_EXTREME_CALLS = {
    "v16f32": ("AVX512VL", "{op}ps512_mask(rhs, lhs, rhs, -1, 4)"),
    "v8f32": ("AVX", "{op}ps256(rhs, lhs)"),
    "v4f32": ("SSE", "{op}ps(rhs, lhs)"),
    "v8f64": ("AVX512VL", "{op}pd512_mask(rhs, lhs, rhs, -1, 4)"),
    "v4f64": ("AVX", "{op}pd256(rhs, lhs)"),
    "v2f64": ("SSE2", "{op}pd(rhs, lhs)"),
}
"""By vectors what gcc must have for a builtin function of them, and its call."""

LANE_CALLS = FUNCTIONS | frozenset("floor ceil trunc".split())
"""Functions of one operand that are computed lane by lane."""
_INSTRUCTIONS = frozenset("sqrt floor ceil trunc".split())
"""Those that processors have instructions on vectors for."""

_TWO_PARTS = {"fraction": " - power * 2.12194440e-4f", "factor": "", "whole": " * 0.693359375f"}
_KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "exp": (
        "${exp}",
        {
            "base": "e",
            "units": "1.3",
            "least": "-86.0f",
            "tiny": "4.5e-38",
            "most": "89.0f",
            "doublings": " * 1.44269504f",
            "rest": "(held - power * 0.693359375f) + power * 2.12194440e-4f",
        },
    ),
    "exp2": (
        "${exp}",
        {
            "base": "2",
            "units": "1.5",
            "least": "-124.0f",
            "tiny": "4.7e-38",
            "most": "128.0f",
            "doublings": "",
            "rest": "(held - power) * 0.69314718f",
        },
    ),
    "log": ("${log}", {"name": "natural", **_TWO_PARTS}),
    "log1p": ("log1p", _TWO_PARTS),
    "log2": ("${log}", {"name": "binary", "fraction": "", "factor": " * 1.44269504f", "whole": ""}),
    "log10": (
        "${log}",
        {
            "name": "decimal",
            "fraction": " + power * 1.06034944e-5f",
            "factor": " * 0.43429448f",
            "whole": " * 0.301025390625f",
        },
    ),
    "sin": ("${op}", {"word": "sine", "first": "0"}),
    "cos": ("${op}", {"word": "cosine", "first": "1"}),
}
"""The text of a function that shares it with others, and what is its own in it."""


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


def vector_helper(name: str) -> str | None:
    """The helper on vectors of this name, if there is one."""
    op, _, vector = name.rpartition("_")
    if vector not in VECTOR_TYPES:
        return None
    lanes, dtype = VECTOR_TYPES[vector]
    bytes = _of_bytes(op, lanes, dtype)
    if bytes is not None:
        return bytes
    if op.startswith(("from_", "to_", "saturate_")):
        return _conversion(op, lanes, dtype.value)
    words = {
        "V": vector,
        "R": vector,
        "M": f"v{lanes}{_MASKS[dtype.bytes]}",
        "U": f"v{lanes}u{dtype.bytes * 8}",
        "L": str(lanes),
        "kept": _kept(lanes),
        "op": op,
    }
    if dtype is DType.F32 and (text := _function(op, lanes, words)):
        return text
    if op == "abs":
        return helper_text("vector", "abs_float" if dtype.is_float else "abs_int", **words)
    if op in ("min", "max"):
        return _extreme(op, words)
    if op in ("round16bf16", "round16f16"):
        return rounded_half(DType(op.removeprefix("round16")), lanes)
    function, operands = _of_lane(op, dtype)
    if function:
        return _by_lanes(function, operands, vector, words)
    half = lanes // 2
    words |= {
        "whole": "8388608.0f" if dtype.bytes == 4 else "4503599627370496.0",
        "half": str(half),
        "H": f"v{half}{dtype.value}",
        "order": ", ".join(f"{lane}, {lane + half}" for lane in range(half)),
        "C": STORAGE[dtype],
        "P": f"v2{dtype.value}",
        "W": f"v{half}i64",
        "pairs": ", ".join(["pair"] * half),
    }
    return helper_text("vector", f"{op}_$V", **words)


def _of_bytes(op: str, lanes: int, dtype: DType) -> str | None:
    """A helper that makes bytes of numbers, looks them up, or makes them wider."""
    verb, _, _ = op.partition("_")
    made = {
        ("quantize", DType.F32): _quantize,
        ("requantize", DType.I32): _requantize,
        ("saturate", DType.I32): _saturate,
    }.get((verb, dtype))
    if verb == "lookup":
        return lookup(op, lanes, dtype)
    if verb == "table16":
        return table16(lanes, dtype)
    if verb == "widen":
        return widened(op, lanes, dtype)
    return made(op, lanes) if made else None


def _function(op: str, lanes: int, words: dict[str, str]) -> str | None:
    """A function of ``f32`` vectors that is computed on all lanes at once."""
    kind, own = _KINDS.get(op, (op, {}))
    words = {**words, **own}
    last = "_16" if lanes == 16 else ""
    parts = {"raised": f"raised{last}"}
    if "least" in own:
        parts["scaled"] = f"scaled{last}"
    if "fraction" in own:
        parts["logarithm"] = "logarithm"
    words |= {name: helper_text("math", text, **words) or "" for name, text in parts.items()}
    words["sign"] = f" ^ (({words['M']})x & minus)" if op == "sin" else ""
    return helper_text("math", f"{kind}_$V", **words)


def _kept(lanes: int) -> str:
    """What stands before a loop over so many lanes."""
    hint = lane_hint(lanes)
    return f"{hint} " if hint else ""


def _extreme(op: str, words: dict[str, str]) -> str | None:
    left, right, word = ("lhs", "rhs", "larger") if op == "max" else ("rhs", "lhs", "smaller")
    words = {**words, "left": left, "right": right, "word": word, "builtin": ""}
    if words["V"] in _EXTREME_CALLS:
        needs, call = _EXTREME_CALLS[words["V"]]
        call = call.format(op=op)
        words["builtin"] = helper_text("vector", "builtin", needs=needs, call=call) or ""
    return helper_text("vector", "extreme", **words)


def _of_lane(op: str, dtype: DType) -> tuple[str, int]:
    """The function that computes a lane and how many operands it has; ``""`` for none."""
    suffix = "f" if dtype is DType.F32 else ""
    if op in ("mod", "floordiv", "sign"):
        return f"weft_{op}_{dtype.value}", 1 if op == "sign" else 2
    if op in ("fmod", "pow"):
        return f"{op}{suffix}", 2
    return (f"{op}{suffix}", 1) if op in LANE_CALLS else ("", 0)


def _by_lanes(function: str, operands: int, vector: str, words: dict[str, str]) -> str | None:
    names = ("lhs", "rhs")[:operands] if operands > 1 else ("x",)
    arguments = ", ".join(f"{vector} {name}" for name in names)
    call = f"{function}({', '.join(f'{name}[lane]' for name in names)})"
    # Other functions have branches or are called, each lane by itself.
    kept = _kept(int(words["L"])) if function.removesuffix("f") in _INSTRUCTIONS else ""
    words = {**words, "kept": kept, "arguments": arguments, "call": call}
    return helper_text("vector", "lanes", **words)


def _conversion(op: str, lanes: int, element: str) -> str | None:
    """``to_f16_v16f32`` packs lanes, ``from_f16_v16f32`` unpacks them, ``saturate_i8_v16f32``."""
    verb, _, other = op.partition("_")
    narrow = DType(other)
    vector = f"v{lanes}{element}"
    packed = f"v{lanes}{'u16' if narrow.is_float else narrow.value}"
    words = {"L": str(lanes), "V": vector, "R": packed, "op": op}
    if narrow in HALVES and element == "f32":
        return converted_half(verb, narrow, lanes)
    if verb == "saturate" and element == "f32" and narrow.bytes < 4:
        least, most = (f"{float(end):.1f}f" for end in narrow.limits)
        words |= {"M": f"v{lanes}i32", "narrow": _narrowed("whole", lanes, narrow)}
        return helper_text("vector", "saturate", **words, most=most, least=least)
    cast = f"({STORAGE[narrow]})" if verb == "saturate" else ""
    return _by_lanes(f"{cast}weft_{element}_to_{other}", 1, vector, words)


def _narrowed(whole: str, lanes: int, narrow: DType) -> str:
    """An ``i32`` vector in a narrower type, half the size each time: gcc knows instructions."""
    if narrow.bytes == 1:
        whole = f"__builtin_convertvector({whole}, {vector_type(DType.I16, lanes)})"
    return f"__builtin_convertvector({whole}, {vector_type(narrow, lanes)})"


_QUANTIZED = {
    16: ("defined(__AVX512F__)", "avx512"),
    8: ("defined(__AVX2__)", "avx2"),
    4: ("defined(__SSE2__)", "sse2"),
}
"""What a compiler must have for the instructions of so many lanes, and the text of them."""


def _quantize(op: str, lanes: int) -> str | None:
    """``quantize_u8_v16f32`` rounds and saturates; ``quantize_u8_wide_v16f32`` gives ``i32``."""
    narrow = DType(op.split("_")[1])
    wide = op.endswith("_wide")
    least, most = narrow.limits
    words = {"V": f"v{lanes}f32", "M": f"v{lanes}i32", "op": op}
    words |= {"least": str(least), "most": str(most), "pack": "packus" if least == 0 else "packs"}
    words["R"] = words["M"] if wide else f"v{lanes}{narrow.value}"
    words["result"] = "whole" if wide else _narrowed("whole", lanes, narrow)
    plain = helper_text("vector", "quantize_plain", **words)
    if lanes not in _QUANTIZED:
        return helper_text("vector", "quantize", **words, plain=plain)
    when, name = _QUANTIZED[lanes]
    last = helper_text("vector", "quantize_wide" if wide else f"quantize_{name}_pack", **words)
    body = helper_text("vector", f"quantize_{name}", **words, pack_it=last)
    return helper_text("vector", "quantize_by", **words, when=when, body=body, plain=plain)


def _saturate(op: str, lanes: int) -> str | None:
    """``saturate_i8_v16i32``: a byte of every ``i32``."""
    narrow = DType(op.split("_")[1])
    least, most = narrow.limits
    words = {"V": f"v{lanes}i32", "R": f"v{lanes}{narrow.value}", "op": op}
    words |= {"least": str(least), "most": str(most), "pack": "packus" if least == 0 else "packs"}
    words["result"] = _narrowed("inside", lanes, narrow)
    plain = helper_text("vector", "saturate_plain", **words)
    if lanes not in _QUANTIZED:
        return helper_text("vector", "saturate_whole", **words, body=plain)
    when, name = _QUANTIZED[lanes]
    last = f"saturate_avx512_{narrow.value}" if lanes == 16 else f"quantize_{name}_pack"
    kind = {16: "__m512i", 8: "__m256i", 4: "__m128i"}[lanes]
    body = helper_text("vector", last, **words)
    return helper_text(
        "vector", "saturate_by", **words, when=when, kind=kind, body=body, plain=plain
    )


def _requantize(op: str, lanes: int) -> str | None:
    """``requantize_i8_v16i32`` multiplies, rounds twice and saturates; ``_wide`` gives ``i32``.

    ``requantize_i32_v16i32`` does not saturate.
    """
    narrow = DType(op.split("_")[1])
    wide = op.endswith("_wide") or narrow is DType.I32
    least, most = narrow.limits
    words = {"V": f"v{lanes}i32", "U": f"v{lanes}u32", "W": f"v{lanes}i64", "op": op}
    words |= {"least": str(least), "most": str(most), "pack": "packus" if least == 0 else "packs"}
    words["R"] = words["V"] if wide else f"v{lanes}{narrow.value}"
    words["result"] = "whole" if wide else _narrowed("whole", lanes, narrow)

    def body(name: str, pack: str) -> str | None:
        last = "requantize_whole" if narrow is DType.I32 else f"requantize_{name}_end"
        end = helper_text("vector", last, **words, pack_it=pack)
        return helper_text("vector", f"requantize_{name}", **words, end=end)

    plain = body("plain", "")
    if lanes not in (8, 16):
        return helper_text("vector", "requantize", **words, plain=plain)
    when, name = _QUANTIZED[lanes]
    pack = helper_text("vector", "quantize_wide" if wide else f"quantize_{name}_pack", **words)
    own = body(name, pack or "")
    return helper_text("vector", "requantize_by", **words, when=when, body=own, plain=plain)
