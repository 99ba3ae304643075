"""Small parts of the C bodies of extern ops: plain C89 with the types of ``<stdint.h>``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import indent
from types import MappingProxyType

from weft.dtypes import DType
from weft.templates import filled, texts

C_TYPES: Mapping[DType, str] = MappingProxyType(
    {
        DType.F64: "double",
        DType.F32: "float",
        **{each: f"{each.full_name}_t" for each in DType if each.is_integer},
        DType.BOOL: "uint8_t",
    }
)
"""The C type of an element; the half types have none to compute with."""


def body_text(file: str, name: str, /, **words: object) -> str:
    """A text of ``c/FILE.c`` with the words filled in; of a truth value, 0 or 1."""
    numbers = {
        word: int(value) if isinstance(value, bool) else value for word, value in words.items()
    }
    return filled(texts("weft.ops", f"c/{file}.c")[name], numbers)


def block(text: str) -> str:
    """A body one level deeper."""
    return indent(text, "    ")


def count(var: str, extent: int | str, body: str) -> str:
    """A loop from 0 to a number or a variable."""
    return f"for ({var} = 0; {var} < {extent}; ++{var}) {{\n{block(body)}}}\n"


def nest(variables: Sequence[str], extents: Sequence[int], body: str) -> str:
    """Loops from 0, the first outermost."""
    for var, extent in reversed(list(zip(variables, extents, strict=True))):
        body = count(var, extent, body)
    return body


def offset(variables: Sequence[str], steps: Sequence[int]) -> str:
    """``i0 * 12 + i1 * 4``; ``0`` without variables."""
    terms = [f"{var} * {step}" for var, step in zip(variables, steps, strict=True)]
    return " + ".join(terms) or "0"


def wrapping(op: str, dtype: DType, lhs: str, rhs: str) -> str:
    """Arithmetic that wraps on integers, in the type of the operands."""
    if dtype.is_float:
        return f"{lhs} {op} {rhs}"
    wide = "uint64_t" if dtype.bytes == 8 else "uint32_t"
    return f"({C_TYPES[dtype]})(({wide}){lhs} {op} ({wide}){rhs})"
