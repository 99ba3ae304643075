"""How the interpreter computes: every operation as Python text, and what the text calls.

Names in the text stand for numbers: Python integers and bools, NumPy ``f64`` and ``f32``;
``f16`` and ``bf16`` are ``f32`` that were rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, erfc
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.nodes import COMPARISONS, Bits, Const, Conversion

HALVES = frozenset({DType.F16, DType.BF16})
"""Types that are computed in ``f32``."""

# --- what the generated Python calls ----------------------------------------------------------


def _out_of_bounds(buffer: str, dimension: int, where: int, extent: int) -> None:
    raise InternalError(f"{buffer}: index {where} of dimension {dimension} is outside 0..{extent}")


def _poisoned(buffer: str) -> None:
    raise InternalError(f"{buffer}: read before it was written")


def _truncated_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _integer_power(a: int, b: int) -> int:
    # Modulo the widest type, which the result's wrapping divides.
    if b >= 0:
        return pow(a, b, 1 << 64)
    return a ** (b % 2) if a in (1, -1) else 0


def _sign(x: Any) -> Any:
    return x if x != x else type(x)(int(x > 0) - int(x < 0))


def _to_integer(low: int, high: int) -> Callable[[Any], int]:
    def convert(x: Any) -> int:
        if x != x:
            return 0
        if np.isinf(x):
            return high if x > 0 else low
        return max(low, min(high, int(x)))

    return convert


def _rounder(dtype: DType) -> Callable[[Any], Any]:
    convert = dtype.numpy.type
    return lambda x: np.float32(convert(x))


def _bits(source: DType, target: DType) -> Callable[[Any], Any]:
    def reinterpret(x: Any) -> Any:
        found = np.array(x, source.numpy).view(target.numpy)[()]
        return found if target.is_float else int(found)

    return reinterpret


def _from_wide(convert: Callable[[Any], Any], wide: Callable[[int], Any]) -> Callable[[int], Any]:
    # Straight from 64 bits: a Python integer would be rounded to double precision first.
    return lambda x: convert(wide(x).astype(convert))


_UNARY_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": erf,
    "erfc": erfc,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
}

SCOPE: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "r_f16": _rounder(DType.F16),
    "r_bf16": _rounder(DType.BF16),
    "f32_i64": _from_wide(np.float32, np.int64),
    "f32_u64": _from_wide(np.float32, np.uint64),
    "inf": np.inf,
    "nan": np.nan,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "sign": _sign,
    "tdiv": _truncated_quotient,
    "ipow": _integer_power,
    "power": np.power,
    "ffmod": np.fmod,
    "ffloordiv": np.floor_divide,
    "fmodulo": np.mod,
    "out_of_bounds": _out_of_bounds,
    "poisoned": _poisoned,
    **{f"u_{name}": function for name, function in _UNARY_FUNCTIONS.items()},
    **{
        f"bits_{source.value}_{target.value}": _bits(source, target)
        for source in DType
        for target in DType
        if source.bytes == target.bytes and source.bytes >= DType.F32.bytes
    },
    **{f"to_{dtype.value}": _to_integer(*dtype.limits) for dtype in DType if dtype.is_integer},
}

# --- operations as text ----------------------------------------------------------------------

_INTEGER_FORMS: dict[str, str] = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "tdiv({a}, {b})",
    "fmod": "{a} - {b} * tdiv({a}, {b})",
    "floordiv": "{a} // {b}",
    "mod": "{a} % {b}",
    "pow": "ipow({a}, {b})",
    "shl": "{a} << {b} if 0 <= {b} < {bits} else 0",
    "shr": "{a} >> {b} if 0 <= {b} < {bits} else 0",
}
WRAPPING = frozenset({"add", "sub", "mul", "div", "floordiv", "pow", "shl"})
"""Integer operations whose result may leave the type."""
_FLOAT_FORMS: dict[str, str] = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "fmod": "ffmod({a}, {b})",
    "floordiv": "ffloordiv({a}, {b})",
    "mod": "fmodulo({a}, {b})",
    "pow": "power(f64({a}), f64({b}))",
}
_ANY_FORMS: dict[str, str] = {
    "min": "{b} if {b} < {a} else {a}",
    "max": "{b} if {a} < {b} else {a}",
    "and": "{a} & {b}",
    "or": "{a} | {b}",
    "xor": "{a} ^ {b}",
    "eq": "{a} == {b}",
    "ne": "{a} != {b}",
    "lt": "{a} < {b}",
    "le": "{a} <= {b}",
    "gt": "{a} > {b}",
    "ge": "{a} >= {b}",
}
# Of floats: what is exact in f32 is computed there, the rest in double precision.
_EXACT_UNARY = frozenset({"sqrt", "floor", "ceil", "round", "trunc"})


def literal_text(const: Const) -> str:
    """A constant as Python."""
    if const.dtype is DType.BOOL:
        return str(bool(const.value))
    if not const.dtype.is_float:
        return f"({int(const.value)})"
    value = f"({float(const.value)!r})"
    return _rounded(f"f32({value})" if const.dtype is DType.F32 else f"f64({value})", const.dtype)


def _rounded(text: str, dtype: DType) -> str:
    return f"r_{dtype.value}({text})" if dtype in HALVES else text


def unary_text(op: str, x: str, dtype: DType) -> str:
    """A unary operation on an operand of a type."""
    if dtype.is_float:
        return _float_unary(op, x, dtype)
    if op == "not":
        if dtype is DType.BOOL:
            return f"not {x}"
        return f"~{x}" if dtype.is_signed else f"{x} ^ {dtype.limits[1]}"
    low, high = dtype.limits
    forms = {
        "neg": f"(-{x} - {low} & {high - low}) + {low}",
        "abs": f"(abs({x}) - {low} & {high - low}) + {low}",
        "sign": f"({x} > 0) - ({x} < 0)",
    }
    if op not in forms:
        raise InternalError(f"{op} is not defined for {dtype.value}")
    return forms[op]


def _float_unary(op: str, x: str, dtype: DType) -> str:
    match op:
        case "neg":
            return f"-{x}"
        case "abs":
            return f"abs({x})"
        case "sign" | "isnan" | "isinf":
            text = f"{op}({x})"
            return f"bool({text})" if op != "sign" else text
        case "not":
            raise InternalError(f"not is not defined for {dtype.value}")
        case _:
            if op in _EXACT_UNARY or dtype is DType.F64:
                text = f"u_{op}({x})"
            else:
                text = f"u_{op}(f64({x}))"
            number = "f64" if dtype is DType.F64 else "f32"
            return _rounded(f"{number}({text})", dtype)


def binary_text(op: str, a: str, b: str, dtype: DType) -> str:
    """A binary operation on operands of a type; of ``WRAPPING`` ones, before wrapping."""
    if op in _ANY_FORMS:
        text = _ANY_FORMS[op].format(a=a, b=b)
        return f"bool({text})" if op in COMPARISONS and dtype.is_float else text
    if dtype.is_float:
        text = _FLOAT_FORMS[op].format(a=a, b=b)
        number = "f64" if dtype is DType.F64 else "f32"
        return _rounded(f"{number}({text})" if op == "pow" else text, dtype)
    if dtype is DType.BOOL:
        raise InternalError(f"{op} is not defined for bool")
    return _INTEGER_FORMS[op].format(a=a, b=b, bits=8 * dtype.bytes)


def conversion_text(expr: Conversion, x: str, source: DType) -> str:
    """A conversion of an operand of a type."""
    if isinstance(expr, Bits):
        return f"bits_{source.value}_{expr.dtype.value}({x})"
    return _cast_text(x, source, expr.dtype)


def _cast_text(x: str, source: DType, target: DType) -> str:
    if source is target:
        return x
    if target is DType.BOOL:
        return f"bool({x} != 0)"
    if target.is_float:
        return _to_float(x, source, target)
    if source.is_float:
        return f"to_{target.value}({x})"
    low, high = target.limits
    return f"(({x}) - {low} & {high - low}) + {low}"


def _to_float(x: str, source: DType, target: DType) -> str:
    if target is DType.F64:
        return f"f64({x})"
    if target in HALVES:
        return _rounded(x if source.is_float else f"f64({x})", target)
    wide = source in (DType.I64, DType.U64)
    return f"f32_{source.value}({x})" if wide else f"f32({x})"
