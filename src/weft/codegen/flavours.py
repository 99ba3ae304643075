"""Dialects of C as rows of one table; users pick one as the flavour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weft.errors import UserError

LANES = "WEFT_LANES"
"""What stands before a short loop over lanes that compilers are to make vectors of."""
SUMS = "WEFT_SUMS"
"""What stands before a long loop over lanes that adds to sums in memory."""
APART = "WEFT_APART"
"""What stands before a function that compilers are to keep apart from those that call it."""
CACHE_LINE = 64


# What C spells alike in all its dialects; a row adds or replaces what it spells otherwise.
_C: Mapping[str, str] = {
    "function": "{linkage}void {name}({parameters})",
    "parameter": "{const}{type} *{restrict}{name}",
    "pointer": "{const}{type} *const {name} = {value}",
    "launch": "{name}({arguments});",
    "unused": "(void){name}",
}
_GNU: Mapping[str, str] = {
    **_C,
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
        c99_library: whether ``expf``, ``erff``, ``rintf`` and ``<stdint.h>`` exist.
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
    c99_library: bool = False
    apart: str = ""
    texts: Mapping[str, str] = field(default_factory=lambda: _C, hash=False)

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

    def text(self, construct: str, **parts: object) -> str:
        """A construct with its parts filled in."""
        return self.texts[construct].format(**parts)

    @property
    def without_vectors(self) -> Dialect:
        """The same without vector types."""
        texts = {name: text for name, text in self.texts.items() if name != "vector"}
        return replace(self, texts=texts)


_C99 = Dialect(
    "c99",
    "c99",
    restrict="restrict ",
    inline="inline ",
    loop_declarations=True,
    c99_library=True,
    apart=f"{APART} ",
)
FLAVOURS: dict[str, Dialect] = {
    "c89": Dialect("c89", "c89", apart=f"{APART} "),
    "c99": _C99,
    "gnu": replace(
        _C99, name="gnu", standard="gnu11", apart="__attribute__((noinline)) ", texts=_GNU
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
