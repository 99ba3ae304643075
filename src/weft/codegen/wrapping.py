"""Integer arithmetic that wraps, without undefined behaviour and with few casts."""

from __future__ import annotations

from weft.codegen import tree as c
from weft.codegen.naming import STORAGE
from weft.codegen.value import INT_LIMITS, KINDS, CValue, as_kind, known
from weft.dtypes import DType

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*"}


def narrowed(value: CValue, dtype: DType) -> CValue:
    """A value brought into an integer type, modulo its width."""
    kind = KINDS[dtype]
    if value.within(dtype.limits):
        if value.promoted == kind or (dtype is DType.I64 and value.promoted == "int"):
            return value
        return as_kind(kind, value)
    return CValue(c.CCast(STORAGE[dtype], value.node), STORAGE[dtype], *dtype.limits)


def integer_binary(op: str, lhs: CValue, rhs: CValue, dtype: DType) -> CValue:
    """``add``, ``sub`` or ``mul`` of two integers of a type."""
    low, high = _range(op, lhs, rhs)
    narrow = lhs.promoted == rhs.promoted == "int" and INT_LIMITS[0] <= low <= high <= INT_LIMITS[1]
    if narrow and dtype not in (DType.U32, DType.U64):
        return narrowed(_apply(op, lhs, rhs, "int", low, high), dtype)
    least, most = dtype.limits
    if dtype is DType.I64 and least <= low and high <= most:
        kind = "int64_t"
        return _apply(op, as_kind(kind, lhs), as_kind(kind, rhs), kind, low, high)
    kind = "uint64_t" if dtype.bytes == 8 else "uint32_t"
    for this, other in ((lhs, rhs), (rhs, lhs)):
        if op == "mul" and this.low == this.high == most and KINDS[dtype] == kind:
            # All ones: -1, which compilers fold to a negation and then warn of its sign.
            return wrapped_negative(other, dtype)
    result = _apply(op, as_kind(kind, lhs), as_kind(kind, rhs), kind, least, most)
    if KINDS[dtype] == kind:
        inside = least <= low and high <= most
        return result._replace(low=low, high=high) if inside else result
    return CValue(c.CCast(STORAGE[dtype], result.node), STORAGE[dtype], least, most)


def wrapped_negative(x: CValue, dtype: DType) -> CValue:
    """``-x``, modulo the width of the type."""
    if x.promoted == "int" and x.low > INT_LIMITS[0] and dtype not in (DType.U32, DType.U64):
        return narrowed(CValue(c.CUnary("-", x.node), "int", -x.high, -x.low), dtype)
    return integer_binary("sub", known(0), x, dtype)


def inverted(x: CValue, dtype: DType) -> CValue:
    """All bits of ``x`` flipped."""
    kind = KINDS[dtype]
    if kind.startswith("u"):
        return CValue(c.CUnary("~", as_kind(kind, x).node), kind, *dtype.limits)
    ones = dtype.limits[1] if not dtype.is_signed else -1
    held = as_kind(kind, x) if dtype is DType.I64 and x.promoted != "int" else x
    node = c.CBinary("-", c.CNumber(str(ones), c.PRIMARY if ones >= 0 else c.NEGATIVE), held.node)
    return CValue(node, held.promoted, ones - x.high, ones - x.low)


def _apply(op: str, lhs: CValue, rhs: CValue, kind: str, low: int, high: int) -> CValue:
    return CValue(c.CBinary(_SYMBOLS[op], lhs.node, rhs.node), kind, low, high)


def _range(op: str, lhs: CValue, rhs: CValue) -> tuple[int, int]:
    if op == "add":
        return lhs.low + rhs.low, lhs.high + rhs.high
    if op == "sub":
        return lhs.low - rhs.high, lhs.high - rhs.low
    corners = [x * y for x in (lhs.low, lhs.high) for y in (rhs.low, rhs.high)]
    return min(corners), max(corners)
