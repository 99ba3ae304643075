"""The texts of helpers, which stand in ``c/*.c``: finding one and filling it in."""

from __future__ import annotations

from weft.codegen.uses import called_helpers
from weft.templates import filled, texts


def helper_text(file: str, name: str, /, **words: object) -> str | None:
    """A text of ``c/FILE.c`` with the words filled in, if there is one of this name."""
    found = texts("weft.codegen", f"c/{file}.c").get(name)
    return None if found is None else filled(found, words)


def called(name: str, text: str) -> tuple[str, ...]:
    """The helpers that the text of a helper calls, in the order in which it does."""
    return tuple(each for each in called_helpers(text) if each != name)
