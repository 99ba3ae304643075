"""The functions of an ELF file."""

from __future__ import annotations

import struct
from pathlib import Path

from weft.records import dataclass

_SYMBOLS, _FUNCTION, _ARM = 2, 2, 40


@dataclass(frozen=True, slots=True)
class Function:
    """A function's name, address and end."""

    name: str
    begin: int
    end: int


def functions(path: Path) -> list[Function]:
    """The functions of a linked little-endian program, by ascending address, none twice.

    Args:
        path: an ELF file (System V ABI, chapters 4 and 5) with its symbols.
    """
    data = path.read_bytes()
    wide = data[4] == 2
    machine = struct.unpack_from("<H", data, 18)[0]
    table_at = struct.unpack_from("<Q" if wide else "<I", data, 40 if wide else 32)[0]
    size, count = struct.unpack_from("<HH", data, 58 if wide else 46)
    found: dict[int, Function] = {}
    sections = [_section(data, table_at + size * number, wide) for number in range(count)]
    for kind, offset, length, link in sections:
        if kind != _SYMBOLS:
            continue
        names = sections[link][1]
        for at in range(offset, offset + length, 24 if wide else 16):
            name, info, value, extent = _symbol(data, at, wide)
            if info & 15 != _FUNCTION or not extent:
                continue
            begin = value & ~1 if machine == _ARM else value
            text = data[names + name : data.index(0, names + name)].decode()
            found.setdefault(begin, Function(text, begin, begin + extent))
    return sorted(found.values(), key=lambda each: each.begin)


def _section(data: bytes, at: int, wide: bool) -> tuple[int, int, int, int]:
    """Type, offset, size and link of a section."""
    if wide:
        _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", data, at)
    else:
        _, kind, _, _, offset, size, link = struct.unpack_from("<7I", data, at)
    return kind, offset, size, link


def _symbol(data: bytes, at: int, wide: bool) -> tuple[int, int, int, int]:
    """Name, info, value and size of a symbol."""
    if wide:
        name, info, _, _, value, size = struct.unpack_from("<IBBHQQ", data, at)
    else:
        name, value, size, info = struct.unpack_from("<IIIB", data, at)
    return name, info, value, size
