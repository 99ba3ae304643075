"""The texts of helpers, which stand in ``c/*.c``: finding one and filling it in."""

from __future__ import annotations

from typing import NamedTuple

from weft.codegen.assembly import Frame
from weft.codegen.uses import called_helpers
from weft.templates import filled, texts


class AssemblyText(NamedTuple):
    """The text of a helper in assembly.

    Attributes:
        text: its C.
        stack_bytes: that it takes of the stack; compilers do not count them.
    """

    text: str
    stack_bytes: int


def helper_text(file: str, name: str, /, **words: object) -> str | None:
    """A text of ``c/FILE.c`` with the words filled in, if there is one of this name."""
    found = texts("weft.codegen", f"c/{file}.c").get(name)
    return None if found is None else filled(found, words)


def assembly_text(file: str, name: str, /, frame: Frame, **words: object) -> AssemblyText:
    """A text of ``c/FILE.c`` in assembly, its words and its frame's instructions filled in."""
    parts = {"enter": frame.enter(), "leave": frame.leave(), "fill": frame.fill()}
    text = filled(texts("weft.codegen", f"c/{file}.c")[name], {**parts, **words})
    return AssemblyText(text, frame.bytes)


def called(name: str, text: str) -> tuple[str, ...]:
    """The helpers that the text of a helper calls, in the order in which it does."""
    return tuple(each for each in called_helpers(text) if each != name)
