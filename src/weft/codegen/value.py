"""Values: C expressions with their C type and range."""

from __future__ import annotations

from typing import NamedTuple

from weft.codegen.tree import NEGATIVE, CCast, CNumber, Node, level_of
from weft.dtypes import DType

INT_LIMITS = DType.I32.limits

KINDS: dict[DType, str] = {
    **dict.fromkeys(DType, "int"),
    **dict.fromkeys((DType.F32, DType.F16, DType.BF16), "float"),
    DType.F64: "double",
    DType.I64: "int64_t",
    DType.U32: "uint32_t",
    DType.U64: "uint64_t",
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


class CValue(NamedTuple):
    """An expression of a scalar type in C.

    Attributes:
        node: the expression.
        kind: its C type; a storage type that C promotes to ``int`` is kept as it is.
        low: smallest value, of integers.
        high: largest value, of integers.
    """

    node: Node
    kind: str
    low: int = 0
    high: int = 0

    @property
    def promoted(self) -> str:
        """The C type after the integer promotions."""
        return "int" if self.kind in _TO_INT else self.kind

    def within(self, limits: tuple[int, int]) -> bool:
        """Whether the range lies in these limits."""
        return limits[0] <= self.low and self.high <= limits[1]


def known(number: int) -> CValue:
    """A small number that is known."""
    return CValue(CNumber(str(number)), "int", number, number)


def as_kind(kind: str, value: CValue) -> CValue:
    """The value in a computing type, with a cast where C needs one."""
    if value.promoted == kind:
        return value
    node = value.node
    if kind == "uint32_t" and isinstance(node, CNumber) and node.text.isdigit():
        return CValue(CNumber(f"{node.text}u"), kind, value.low, value.high)
    return CValue(CCast(kind, node), kind, value.low, value.high)


def converted(value: CValue, ctype: str) -> Node:
    """A value as an initialiser or argument of a C type."""
    if value.kind == ctype or (ctype == "int32_t" and value.kind == "int"):
        return value.node
    if value.low == value.high and value.promoted == "int" and level_of(value.node) >= NEGATIVE:
        fits = value.low >= 0 or not ctype.startswith("u")
        return value.node if fits else CCast(ctype, value.node)
    return CCast(ctype, value.node)
