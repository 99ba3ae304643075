"""Seals: the last line of a file of the cache, which says what must stand before it, and under
which name.

A check must cost little beside a start from the cache, so the sum is CRC-32 of every piece, taken
by several threads while the pieces are read: it finds every damage of up to 32 bits in a row, and
misses another one in 4 thousand million.  It guards against accidents, not against malice: whoever
can write the cache can run code anyway.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

from weft.files import read_at

_PIECE = 1 << 20
_MOST_READERS = 4
_TITLE = b"\nweft seal "
_DIGEST_BYTES = 16
SEAL_BYTES = len(_TITLE) + 2 * _DIGEST_BYTES + 1


def seal(path: Path) -> None:
    """Ends a file with its seal; from then on it has this content and this name, or is damaged."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        sums = _sums(file.fileno(), size)
        assert sums is not None
        file.write(_line(path.name, size, sums))


def unsealed(path: Path, hold: Callable[[int], memoryview] | None = None) -> memoryview | None:
    """The content of a sealed file; ``None`` if it is absent, or anything about it is wrong.

    Args:
        path: of the file.
        hold: gives memory of so many bytes to read into.
    """
    try:
        # Unbuffered: what is checked is what is used, whatever happens to the file meanwhile.
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size - SEAL_BYTES
            if size < 0:
                return None
            view = hold(size) if hold is not None and size else memoryview(bytearray(size))
            sealed = _is_sealed(path, file.fileno(), size, view)
    except OSError:
        return None
    return view if sealed else None


def is_sealed(path: Path) -> bool:
    """Whether a file is sealed and whole, for those who do not want its content."""
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size - SEAL_BYTES
            return size >= 0 and _is_sealed(path, file.fileno(), size)
    except OSError:
        return False


def _is_sealed(path: Path, file: int, size: int, view: memoryview | None = None) -> bool:
    sums = _sums(file, size, view)
    line = os.pread(file, SEAL_BYTES + 1, size)
    return sums is not None and line == _line(path.name, size, sums)


def _line(name: str, size: int, sums: Sequence[int]) -> bytes:
    text = " ".join([name, str(size), *map(str, sums)])
    digest = hashlib.blake2b(os.fsencode(text), digest_size=_DIGEST_BYTES).hexdigest()
    return _TITLE + digest.encode() + b"\n"


def _sums(file: int, size: int, view: memoryview | None = None) -> list[int] | None:
    """The sum of each piece at the start of a file, ``None`` if it is shorter.

    Args:
        file: its descriptor.
        size: bytes to read.
        view: memory that keeps them, if they are wanted.
    """
    bounds = [*range(0, size, _PIECE), size]
    read = partial(_read_piece, file, view)
    pieces = list(pairwise(bounds))
    if len(pieces) <= 1:
        sums = [read(piece) for piece in pieces]
    else:
        with ThreadPoolExecutor(min(len(pieces), os.cpu_count() or 1, _MOST_READERS)) as pool:
            sums = list(pool.map(read, pieces))
    whole = [each for each in sums if each is not None]
    return whole if len(whole) == len(sums) else None


def _read_piece(file: int, view: memoryview | None, piece: tuple[int, int]) -> int | None:
    start, stop = piece
    part = memoryview(bytearray(stop - start)) if view is None else view[start:stop]
    return zlib.crc32(part) if read_at(file, part, start) == len(part) else None
