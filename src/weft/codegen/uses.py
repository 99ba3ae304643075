"""What a piece of C uses: names collected by the printer, or the words of C given as text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from string import punctuation
from typing import NamedTuple

from weft.codegen.flavours import MACROS
from weft.codegen.naming import MATH

_BLANKS = str.maketrans({**dict.fromkeys(punctuation.replace("_", ""), " "), "(": " ( "})


class Uses(NamedTuple):
    """What a piece of C uses.

    Attributes:
        names: variables, functions, types and macros.
        helpers: helper functions that it calls.
    """

    names: frozenset[str] = frozenset()
    helpers: tuple[str, ...] = ()


NOTHING_USED = Uses()


def together(pieces: Iterable[Uses]) -> Uses:
    """What all of them use."""
    names: set[str] = set()
    helpers: dict[str, None] = {}
    for each in pieces:
        names |= each.names
        helpers.update(dict.fromkeys(each.helpers))
    return Uses(frozenset(names), tuple(helpers))


def words(text: str) -> frozenset[str]:
    """The names in C that was given as text; those of mathematical functions if they are called."""
    return frozenset(
        word for word, after in _pairs(text) if word != "(" and (after == "(" or word not in MATH)
    )


def called_helpers(text: str) -> tuple[str, ...]:
    """The helpers that C given as text calls, in order; a set of unions and macros count, too."""
    found = (
        word
        for word, after in _pairs(text)
        if word == "weft_bits" or word in MACROS or (after == "(" and word.startswith("weft_"))
    )
    return tuple(dict.fromkeys(found))


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    """Names and opening parentheses outside of comments, each with what follows it."""
    first, *rest = text.split("/*")
    code = " ".join([first, *(piece.partition("*/")[2] for piece in rest)])
    return pairwise([*code.translate(_BLANKS).split(), ""])
