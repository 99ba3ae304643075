"""Helpers for floating point: minimum, sign, remainders, bits as integers."""

from __future__ import annotations

from weft.codegen.helper_text import helper_text
from weft.codegen.naming import STORAGE
from weft.dtypes import DType

_WORDS = {
    "f32": {
        "T": "float",
        "zero": "0.0f",
        "one": "1.0f",
        "half": "0.5f",
        "fmod": "(float)fmod((double)x, (double)y)",
        "floor": "(float)floor((double)quotient)",
    },
    "f64": {
        "T": "double",
        "zero": "0.0",
        "one": "1.0",
        "half": "0.5",
        "fmod": "fmod(x, y)",
        "floor": "floor(quotient)",
    },
}
_SAME_BITS = {
    (number.value, f"{sign}{8 * number.bytes}")
    for number in (DType.F32, DType.F64)
    for sign in "iu"
}


def float_helper(name: str) -> str | None:
    """The helper of this name (``min_f32``, ``round_f16``, ``bits_i32_f32``), if there is one."""
    op, _, suffix = name.rpartition("_")
    if suffix in _WORDS and (text := helper_text("float", f"{op}_$S", S=suffix, **_WORDS[suffix])):
        return text
    if op == "round" and suffix in ("f16", "bf16"):
        return helper_text("float", "round_$name", name=suffix)
    verb, _, source = op.partition("_")
    if verb == "bits" and ((source, suffix) in _SAME_BITS or (suffix, source) in _SAME_BITS):
        types = {"of": STORAGE[DType(source)], "to": STORAGE[DType(suffix)]}
        return helper_text("float", "bits_${source}_$target", source=source, target=suffix, **types)
    return None
