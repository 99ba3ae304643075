"""Flavours of C: what differs between the dialects, as rows of one table."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import UserError

LANES = "WEFT_LANES"
"""What stands before a short loop over lanes that compilers are to make vectors of."""
SUMS = "WEFT_SUMS"
"""What stands before a long loop over lanes that adds to sums in memory."""
APART = "WEFT_APART"
"""What stands before a function that compilers are to keep apart from those that call it."""
CACHE_LINE = 64


@dataclass(frozen=True, slots=True)
class Flavour:
    """A dialect of C.

    Attributes:
        name: as the user asks for it.
        standard: the compiler's ``-std`` value that the text is written for.
        restrict: the keyword for pointers without aliases, or nothing.
        inline: the keyword put before helper functions, or nothing.
        loop_declarations: whether ``for (int i = 0; ...)`` exists.
        c99_library: whether ``expf``, ``erff``, ``rintf`` and ``<stdint.h>`` exist.
        vectors: whether vector loops become GNU vector types.
        prefetches: whether it has a hint that memory will be read soon.
        barriers: whether compiler memory barriers keep register tiles in registers.
        apart: what keeps kernels from being put into the run function, where compilers
            have so much to do that they run out of registers in tiles.
    """

    name: str
    standard: str
    restrict: str = ""
    inline: str = ""
    loop_declarations: bool = False
    c99_library: bool = False
    vectors: bool = False
    barriers: bool = False
    prefetches: bool = False
    apart: str = ""


FLAVOURS: dict[str, Flavour] = {
    flavour.name: flavour
    for flavour in (
        Flavour("c89", "c89", apart=f"{APART} "),
        Flavour(
            "c99",
            "c99",
            restrict="restrict ",
            inline="inline ",
            loop_declarations=True,
            c99_library=True,
            apart=f"{APART} ",
        ),
        Flavour(
            "gnu",
            "gnu11",
            restrict="restrict ",
            inline="inline ",
            loop_declarations=True,
            c99_library=True,
            vectors=True,
            barriers=True,
            prefetches=True,
            apart="__attribute__((noinline)) ",
        ),
    )
}


def flavour_named(name: str) -> Flavour:
    """The flavour of this name."""
    found = FLAVOURS.get(name)
    if found is None:
        raise UserError(
            "the flavour of C must be one of " + ", ".join(FLAVOURS),
            got=repr(name),
        )
    return found
