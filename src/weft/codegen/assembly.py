"""Instructions as strings of assembly in C, repetitions written once, and frames on the stack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from weft.records import dataclass

_AROUND = 2
"""Lines that a repetition takes beside those that are repeated."""
_WORD, _DOUBLE, _SAVED_DOUBLES = 4, 8, 8
"""Bytes of a register and of one of doubles, and the first of these that functions save."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The stack that an Arm function in assembly takes, and the instructions that take it.

    Attributes:
        first, last: general registers that it saves, and those between them.
        link: whether it saves the link register, too, and returns by restoring it.
        doubles: registers of doubles that it saves, from d8.
        room: bytes below these that it works with.
        filled: whether `fill` makes this room, when registers hold what it begins with.
    """

    first: int
    last: int
    link: bool = True
    doubles: int = 0
    room: int = 0
    filled: bool = False

    @property
    def bytes(self) -> int:
        """All that it takes; behind these bytes lie the arguments that registers do not hold."""
        registers = self.last - self.first + 1 + self.link
        return _WORD * registers + _DOUBLE * self.doubles + self.room

    def enter(self) -> str:
        """The first instructions, as C."""
        taken = [] if self.filled or not self.room else [f"sub sp, #{self.room}"]
        saved = [f"vpush {self._doubles}"] if self.doubles else []
        lines = assembly([f"push {self._registers('lr')}", *saved, *taken])
        return f"/* {self.bytes} bytes of the stack */\n{lines}"

    def fill(self) -> str:
        """Makes the room and stores registers there, from the first that is saved."""
        return assembly([f"push {{r{self.first}-r{self.first + self.room // _WORD - 1}}}"])

    def leave(self) -> str:
        """The last instructions, as C."""
        given = [f"add sp, #{self.room}"] if self.room else []
        restored = [f"vpop {self._doubles}"] if self.doubles else []
        back = [] if self.link else ["bx lr"]
        return assembly([*given, *restored, f"pop {self._registers('pc')}", *back])

    def _registers(self, link: str) -> str:
        saved = f"r{self.first}" + (f"-r{self.last}" if self.last > self.first else "")
        return f"{{{saved}{f', {link}' if self.link else ''}}}"

    @property
    def _doubles(self) -> str:
        return f"{{d{_SAVED_DOUBLES}-d{_SAVED_DOUBLES + self.doubles - 1}}}"


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
