"""Values: pieces of C text with their precedence, C type and range."""

from __future__ import annotations

from typing import NamedTuple

from weft.dtypes import DType

# Precedence, as in the grammar of C: an operand below the level that is wanted gets brackets.
PRIMARY, UNARY, NEGATIVE, PRODUCT, SUM, SHIFT, RELATION, EQUALITY = 16, 15, 14, 13, 12, 11, 10, 9
BIT_AND, BIT_XOR, BIT_OR, AND, OR, TERNARY = 8, 7, 6, 5, 4, 3

_I64_LIMITS = DType.I64.limits
INT_LIMITS = DType.I32.limits

KINDS: dict[DType, str] = {
    DType.F64: "double",
    DType.F32: "float",
    DType.F16: "float",
    DType.BF16: "float",
    DType.I8: "int",
    DType.I16: "int",
    DType.I32: "int",
    DType.I64: "int64_t",
    DType.U8: "int",
    DType.U16: "int",
    DType.U32: "uint32_t",
    DType.U64: "uint64_t",
    DType.BOOL: "int",
}
"""The C type that values of an element type are computed in."""

SUFFIXES = {
    "float": "f32",
    "double": "f64",
    "int": "i32",
    "int64_t": "i64",
    "uint32_t": "u32",
    "uint64_t": "u64",
}
"""Names of computing types, in the names of helpers."""

_TO_INT = frozenset({"int8_t", "int16_t", "int32_t", "uint8_t", "uint16_t"})


class Value(NamedTuple):
    """An expression in C.

    Attributes:
        text: the C text.
        level: its precedence.
        kind: its C type; a storage type that C promotes to ``int`` is kept as it is.
        low: smallest value, of integers.
        high: largest value, of integers.
    """

    text: str
    level: int
    kind: str
    low: int = 0
    high: int = 0

    @property
    def promoted(self) -> str:
        """The C type after the integer promotions."""
        return "int" if self.kind in _TO_INT else self.kind

    def at(self, level: int) -> str:
        """The text, in brackets if it binds less tightly than ``level``."""
        return self.text if self.level >= level else f"({self.text})"

    def within(self, limits: tuple[int, int]) -> bool:
        """Whether the range lies in these limits."""
        return limits[0] <= self.low and self.high <= limits[1]


def cast_text(kind: str, value: Value) -> str:
    """``(kind)value``."""
    return f"({kind}){value.at(UNARY)}"


def as_kind(kind: str, value: Value) -> Value:
    """The value in a computing type, with a cast where C needs one."""
    if value.promoted == kind:
        return value
    if value.text.isdigit() and kind == "uint32_t":
        return Value(f"{value.text}u", PRIMARY, kind, value.low, value.high)
    return Value(cast_text(kind, value), UNARY, kind, value.low, value.high)


def converted(value: Value, ctype: str) -> str:
    """The text of a value as an initialiser or argument of a C type."""
    if value.kind == ctype or (ctype == "int32_t" and value.kind == "int"):
        return value.text
    if value.low == value.high and value.promoted == "int" and value.level >= NEGATIVE:
        return (
            value.text if value.low >= 0 or not ctype.startswith("u") else cast_text(ctype, value)
        )
    return cast_text(ctype, value)
