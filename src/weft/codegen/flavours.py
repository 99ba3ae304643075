"""Dialects of C as rows of one table; users pick one as the flavour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from weft.errors import UserError
from weft.records import dataclass

LANES = "WEFT_LANES"
"""What stands before a short loop over lanes that compilers are to make vectors of."""
FOUR = "WEFT_FOUR"
"""The same before a loop over four lanes."""
SUMS = "WEFT_SUMS"
"""What stands before a long loop over lanes that adds to sums in memory."""
STEPS = "WEFT_STEPS"
"""What stands before the loop over the steps of a register tile."""
APART = "WEFT_APART"
"""What stands before a function that compilers are to keep apart from those that call it."""
MACROS = frozenset({LANES, FOUR, SUMS, STEPS, APART})
"""Helpers that are no functions."""
CACHE_LINE = 64


# Mathematical functions by operation. C89 has them for ``double`` alone.
_C89_FUNCTIONS = {
    op: op
    for op in (
        "sqrt exp log log10 sin cos tan asin acos atan sinh cosh tanh floor ceil fmod pow".split()
    )
} | {"abs": "fabs"}
C99_FUNCTIONS = {
    **_C89_FUNCTIONS,
    **{op: op for op in "asinh acosh atanh erf erfc exp2 expm1 log1p log2 trunc".split()},
    "round": "rint",
}

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

# What C spells alike in all its dialects; a row adds or replaces what it spells otherwise.
_C: Mapping[str, str] = {
    "function": "{linkage}void {name}({parameters})",
    "pointer": "{const}{type} *",
    "launch": "{name}({arguments});",
    "unused": "(void){name}",
}
_C89: Mapping[str, str] = {
    **_C,
    "integers": _TYPEDEFS.format(wide=""),
    "wide integers": _TYPEDEFS.format(wide=_WIDE),
}
_C99: Mapping[str, str] = {
    **_C,
    "integers": "#include <stdint.h>",
    "wide integers": "#include <stdint.h>",
}
_GNU: Mapping[str, str] = {
    **_C99,
    "aligned": " __attribute__((aligned({bytes})))",
    "barrier": '__asm__ volatile("" ::: "memory")',
    "convert": "__builtin_convertvector({x}, {type})",
    "prefetch": "__builtin_prefetch(&{x}, 0, 2)",
    "vector": "*({const}{type}_mem *){at}",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect of C.

    Attributes:
        name: as the user asks for it.
        standard: the compiler's ``-std`` value that the text is written for.
        restrict: the keyword for pointers without aliases, or nothing.
        inline: the keyword put before helper functions, or nothing.
        loop_declarations: whether ``for (int i = 0; ...)`` exists.
        functions: names of the mathematical functions for ``double``, by operation; those that
            are missing become helpers.
        single: how those for ``float`` are called, with braces for the name; empty where there
            are none.
        infinity: an infinite constant; nan: one that is no number.
        headers: whether the standard headers exist.
        head: the first lines of a source.
        reserved: keywords that C lacks.
        apart: what keeps kernels from being put into the run function, where compilers
            have so much to do that they run out of registers in tiles.
        texts: the text of each construct that is no common syntax, by its name; those that are
            missing do not exist in the dialect.
    """

    name: str
    standard: str
    restrict: str = ""
    inline: str = ""
    loop_declarations: bool = False
    functions: Mapping[str, str] = field(default_factory=lambda: C99_FUNCTIONS, hash=False)
    single: str = "{}f"
    infinity: str = "INFINITY"
    nan: str = "NAN"
    headers: bool = True
    head: str = ""
    reserved: frozenset[str] = frozenset()
    apart: str = ""
    texts: Mapping[str, str] = field(default_factory=lambda: _C99, hash=False)

    @property
    def vectors(self) -> bool:
        """Whether vector loops become GNU vector types."""
        return "vector" in self.texts

    @property
    def prefetches(self) -> bool:
        """Whether it has a hint that memory will be read soon."""
        return "prefetch" in self.texts

    @property
    def barriers(self) -> bool:
        """Whether compiler memory barriers keep register tiles in registers."""
        return "barrier" in self.texts

    def pointer(self, type: str, const: bool) -> str:
        """The type of a pointer into the memory of a network, up to the name."""
        return self.text("pointer", const="const " if const else "", type=type)

    def text(self, construct: str, **parts: object) -> str:
        """A construct with its parts filled in."""
        return self.texts[construct].format(**parts)

    @property
    def without_vectors(self) -> Dialect:
        """The same without vector types."""
        texts = {name: text for name, text in self.texts.items() if name != "vector"}
        return replace(self, texts=texts)


_C89_ROW = Dialect(
    "c89",
    "c89",
    functions=_C89_FUNCTIONS,
    single="",
    infinity="HUGE_VAL",
    nan="HUGE_VAL - HUGE_VAL",
    apart=f"{APART} ",
    texts=_C89,
)
_C99_ROW = Dialect(
    "c99",
    "c99",
    restrict="restrict ",
    inline="inline ",
    loop_declarations=True,
    apart=f"{APART} ",
)
FLAVOURS: dict[str, Dialect] = {
    "c89": _C89_ROW,
    "c99": _C99_ROW,
    "gnu": replace(
        _C99_ROW, name="gnu", standard="gnu11", apart="__attribute__((noinline)) ", texts=_GNU
    ),
}


def flavour_named(name: str) -> Dialect:
    """The flavour of this name."""
    found = FLAVOURS.get(name)
    if found is None:
        raise UserError(
            "the flavour of C must be one of " + ", ".join(FLAVOURS),
            got=repr(name),
        )
    return found
