"""Instructions as strings of assembly in C, repetitions written once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

_AROUND = 2
"""Lines that a repetition takes beside those that are repeated."""


def assembly(instructions: Sequence[str]) -> str:
    """Instructions as lines of a string of assembly."""
    lines = _folded(tuple(instructions))
    return "".join(f'"{each}\\n\\t"\n' for each in lines) or "/* */\n"


@cache
def _folded(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Lines with ``.rept`` for what comes several times in a row: C limits a string's length."""
    found: list[str] = []
    at = 0
    while at < len(lines):
        size, count = _repeated(lines, at)
        if count > 1:
            found += [f".rept {count}", *_folded(lines[at : at + size]), ".endr"]
        else:
            found.append(lines[at])
        at += size * count
    return tuple(found)


def _repeated(lines: tuple[str, ...], at: int) -> tuple[int, int]:
    """How many lines from one on are repeated, and how often, so that most are saved."""
    best, most = (1, 1), 0
    for size in range(1, (len(lines) - at) // 2 + 1):
        if lines[at] != lines[at + size]:
            continue
        block, count = lines[at : at + size], 1
        while lines[at + count * size : at + (count + 1) * size] == block:
            count += 1
        saved = (count - 1) * size - _AROUND
        if saved > most:
            best, most = (size, count), saved
    return best
