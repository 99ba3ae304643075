"""Assembly in C: repetitions are written once, and mean the same."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from weft.codegen.assembly import assembly
from weft.codegen.flavours import FLAVOURS
from weft.codegen.helpers import helper

LONGEST = 4095
"""Characters of a string that every compiler of C99 takes."""


def written_out(text: str) -> list[str]:
    """The lines that an assembler sees."""
    lines = iter([line[1:-5] for line in text.splitlines()])

    def block() -> Iterator[str]:
        for line in lines:
            if line == ".endr":
                return
            if line.startswith(".rept "):
                inner = list(block())
                yield from inner * int(line.removeprefix(".rept "))
            else:
                yield line

    return list(block())


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40))
def test_repetitions_are_written_once(lines: list[str]) -> None:
    text = assembly(lines)
    assert written_out(text) == lines
    assert len(text.splitlines()) <= len(lines)


def test_what_is_repeated_in_what_is_repeated() -> None:
    lines = [*["a", *["b"] * 6, "c"] * 3, "d"]
    assert [line[1:-5] for line in assembly(lines).splitlines()] == [
        *(".rept 3", "a", ".rept 6", "b", ".endr", "c", ".endr", "d")
    ]


def test_long_helpers_are_strings_that_compilers_take() -> None:
    for name in ("weft_mve_i32_64_3_640_192_0_64_4_1", "weft_mve_planes_84_900_90_8000_100_3"):
        text = helper(name, FLAVOURS["c99"])[0]
        assert ".rept" in text
        assert sum(len(part) for part in text.split('"')[1::2]) <= LONGEST
