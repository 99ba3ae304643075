"""The text of files: wrapping, includes, vector types, integer types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from weft.codegen.flavours import Dialect
from weft.codegen.helpers_vector import VECTOR_TYPES
from weft.codegen.naming import MATH, STORAGE, comment_text
from weft.dtypes import DType

WIDTH = 100
_LIMITS = "CHAR SCHAR UCHAR SHRT USHRT INT UINT LONG ULONG LLONG ULLONG".split()
_CLASSES = "fpclassify isfinite isinf isnan isnormal isgreater isless signbit".split()
_STRINGS = "memchr memcmp memcpy memmove memset strchr strcmp strcpy strlen strncmp".split()
# By what is used of them; names that begin so are those of limits of floats.
_FLOATS = ("FLT_", "DBL_", "LDBL_")
_HEADERS = {
    "limits.h": {f"{kind}_{end}" for kind in _LIMITS for end in ("BIT", "MIN", "MAX")},
    "math.h": MATH.union(_CLASSES, ("HUGE_VAL", "HUGE_VALF", "INFINITY", "NAN", "M_E", "M_PI")),
    "string.h": set(_STRINGS),
}
_WIDE_INTEGERS = {"int64_t", "uint64_t"}
_INTEGERS = _WIDE_INTEGERS.union(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32))


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


def integer_types(names: Set[str], flavour: Dialect) -> list[str]:
    """What declares the sized integer types, if any is among the names."""
    if names.isdisjoint(_INTEGERS):
        return []
    wide = not names.isdisjoint(_WIDE_INTEGERS)
    return flavour.text("wide integers" if wide else "integers").splitlines()


def includes(names: Set[str], flavour: Dialect) -> list[str]:
    """The standard headers that code needs, and what declares sized integers."""
    standard = [*standard_headers(names), "#include <stddef.h>"] if flavour.headers else []
    return [*flavour.head.splitlines(), *standard, *integer_types(names, flavour)]


def standard_headers(names: Set[str]) -> list[str]:
    """The standard headers that declare some of the names.

    Every one that is left out counts: systems without a C library have ``float.h``, ``limits.h``,
    ``stddef.h`` and ``stdint.h`` alone.
    """
    found = ["float.h"] if any(name.startswith(_FLOATS) for name in names) else []
    found += [header for header, used in _HEADERS.items() if not names.isdisjoint(used)]
    return [f"#include <{header}>" for header in found]


def vector_elements(names: Set[str]) -> set[tuple[int, DType]]:
    """Lanes and element types of the vectors among names, with the integers of their width."""
    used: set[tuple[int, DType]] = set()
    for name in names:
        vector = VECTOR_TYPES.get(name.removesuffix("_mem"))
        if vector is not None:
            lanes, dtype = vector
            size = dtype.bytes * 8
            used |= {(lanes, each) for each in (dtype, DType(f"i{size}"), DType(f"u{size}"))}
    return used


def vector_types(names: Set[str]) -> list[str]:
    """Typedefs of the GNU vector types that are used, with the integers of their width."""
    used = sorted((lanes, dtype.value) for lanes, dtype in vector_elements(names))
    if not used:
        return []
    lines = [
        "/* Vectors: vNT is N lanes of type T; vNT_mem is one anywhere in memory. */",
        '#pragma GCC diagnostic ignored "-Wpsabi"',
    ]
    for lanes, element in used:
        dtype = DType(element)
        name, size, ctype = f"v{lanes}{element}", lanes * dtype.bytes, STORAGE[dtype]
        lines.append(f"typedef {ctype} {name} __attribute__((vector_size({size})));")
        if f"{name}_mem" in names:
            lines.append(
                f"typedef {name} {name}_mem __attribute__((aligned({dtype.bytes}), may_alias));"
            )
    return lines
