"""The text of files: wrapping, includes, vector types, integer types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from weft.codegen.flavours import Flavour
from weft.codegen.naming import MATH, comment_text
from weft.dtypes import DType

WIDTH = 100
_VECTOR = re.compile(r"\bv(\d+)((?:f|i|u)\d+)(?:_mem)?\b")
MATH_CALL = re.compile(
    r"\b(?:sqrt|exp|log|sin|cos|tan|asin|acos|atan|sinh|cosh|tanh|asinh|acosh|atanh|erf|rint|trunc"
    r"|floor|ceil|fabs|fmod|pow)f?\("
)
_LIMITS = "CHAR|SCHAR|UCHAR|SHRT|USHRT|INT|UINT|LONG|ULONG|LLONG|ULLONG"
# By what is used of them.
_HEADERS = {
    "float.h": re.compile(r"\b(?:FLT|DBL|LDBL)_[A-Z0-9_]+\b"),
    "limits.h": re.compile(rf"\b(?:{_LIMITS})_(?:BIT|MIN|MAX)\b"),
    "math.h": re.compile(
        rf"\b(?:{'|'.join(sorted(MATH))})\(|\b(?:HUGE_VALF?|INFINITY|NAN|M_[A-Z0-9_]+)\b"
        r"|\b(?:fpclassify|is(?:finite|inf|nan|normal|greater|less)\w*|signbit)\("
    ),
    "string.h": re.compile(r"\b(?:mem|str)[a-z]+\("),
}
_INTEGERS = re.compile(r"\bu?int(?:8|16|32|64)_t\b")
_UINT64 = re.compile(r"\bu?int64_t\b")

_TYPEDEFS = """\
#ifndef WEFT_INTEGERS
#define WEFT_INTEGERS
#if defined(__GNUC__) || defined(__cplusplus) || \\
    (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#include <stdint.h>
#else
#include <limits.h>
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
{wide}#endif
#endif
"""
_WIDE = """\
/* C89 has no 64-bit integer of its own: this is the compiler's, where long is shorter. */
#if LONG_MAX > 2147483647L
typedef long int64_t;
typedef unsigned long uint64_t;
#elif defined(_MSC_VER)
typedef __int64 int64_t;
typedef unsigned __int64 uint64_t;
#else
typedef long long int64_t;
typedef unsigned long long uint64_t;
#endif
"""


def wrapped(line: str, width: int = WIDTH) -> list[str]:
    """A line of C cut at spaces so that no piece is longer than ``width`` where it can be."""
    if len(line) <= width or line.lstrip().startswith(("#", "__asm__")):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    pieces: list[str] = []
    current = line
    hanging = indent + " " * 8
    while len(current) > width:
        cut = current.rfind(", ", width // 2, width) + 1 or current.rfind(
            " ", len(hanging) + 1, width + 1
        )
        if cut <= 0:
            cut = current.find(" ", width)
            if cut < 0:
                break
        pieces.append(current[:cut])
        current = hanging + current[cut + 1 :]
    return [*pieces, current]


def wrap_all(lines: Iterable[str]) -> list[str]:
    """Every line wrapped."""
    return [piece for line in lines for piece in wrapped(line)]


def comment(lines: Sequence[str], indent: str = "") -> list[str]:
    """A block comment."""
    if not lines:
        return []
    texts = [comment_text(line) for line in lines]
    if len(texts) == 1 and len(texts[0]) + len(indent) + 6 <= WIDTH:
        return [f"{indent}/* {texts[0]} */"]
    body: list[str] = []
    for text in texts:
        body += _filled(text, WIDTH - len(indent) - 3)
    return [
        f"{indent}/* {body[0]}",
        *(f"{indent} * {each}".rstrip() for each in body[1:]),
        f"{indent} */",
    ]


def _filled(text: str, width: int) -> list[str]:
    pieces: list[str] = []
    while len(text) > width:
        cut = text.rfind(" ", 4, width)
        if cut < 0:
            break
        pieces.append(text[:cut])
        text = "  " + text[cut + 1 :]
    return [*pieces, text]


def integer_types(text: str, flavour: Flavour) -> list[str]:
    """What declares the sized integer types, if the text uses any."""
    if not _INTEGERS.search(text):
        return []
    if flavour.c99_library:
        return ["#include <stdint.h>"]
    wide = _WIDE if _UINT64.search(text) else ""
    return list[str](_TYPEDEFS.format(wide=wide).splitlines())


def includes(text: str, flavour: Flavour) -> list[str]:
    """The standard headers that code needs, and what declares sized integers."""
    return [*standard_headers(text), "#include <stddef.h>", *integer_types(text, flavour)]


def standard_headers(text: str) -> list[str]:
    """The standard headers whose names a text uses.

    Every one that is left out counts: systems without a C library have ``float.h``, ``limits.h``,
    ``stddef.h`` and ``stdint.h`` alone.
    """
    return [f"#include <{name}>" for name, used in _HEADERS.items() if used.search(text)]


def vector_types(text: str) -> list[str]:
    """Typedefs of the GNU vector types that a text uses, with the integers of their width."""
    used: set[tuple[int, str]] = set()
    for lanes, element in _VECTOR.findall(text):
        size = DType(element).bytes * 8
        used |= {(int(lanes), each) for each in (element, f"i{size}", f"u{size}")}
    if not used:
        return []
    lines = [
        "/* Vectors: vNT is N lanes of type T; vNT_mem is one anywhere in memory. */",
        '#pragma GCC diagnostic ignored "-Wpsabi"',
    ]
    for lanes, element in sorted(used):
        dtype = DType(element)
        name, size = f"v{lanes}{element}", lanes * dtype.bytes
        lines.append(f"typedef {_C_TYPES[dtype]} {name} __attribute__((vector_size({size})));")
        if f"{name}_mem" in text:
            lines.append(
                f"typedef {name} {name}_mem __attribute__((aligned({dtype.bytes}), may_alias));"
            )
    return lines


_C_TYPES = {
    DType.F64: "double",
    DType.F32: "float",
    DType.I8: "int8_t",
    DType.I16: "int16_t",
    DType.I32: "int32_t",
    DType.I64: "int64_t",
    DType.U8: "uint8_t",
    DType.U16: "uint16_t",
    DType.U32: "uint32_t",
    DType.U64: "uint64_t",
}
