"""Pieces of files, each read into memory of its own when it is needed.

Nothing is mapped: pages of a mapped file change with it, end the process where it has become
shorter, and stay in memory beside what is copied from them.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import weakref
from pathlib import Path

import numpy as np

from weft.errors import UserError
from weft.files import read_at
from weft.records import dataclass

_WINDOW = 1 << 16
# NumPy would ask for huge pages, which take longer to clear than they save anyone who reads once.
_OWN_PAGES = 1 << 20


class OpenFile:
    """A file that stays open, and the same whatever takes its place, as long as the object lives.

    Args:
        path: of the file.
        descriptor: of the file where it is open already; this is another one for it.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, path: Path, descriptor: int | None = None) -> None:
        self.path = path
        own = os.open(path, os.O_RDONLY) if descriptor is None else os.dup(descriptor)
        weakref.finalize(self, os.close, own)
        self._descriptor = own
        status = os.fstat(own)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        self.size = status.st_size

    def into(self, memory: memoryview, start: int) -> int:
        """Reads into memory what follows a place; how many bytes there were."""
        return read_at(self._descriptor, memory, start)


@dataclass(frozen=True)
class FilePiece:
    """Bytes of a file.

    Attributes:
        file: that they are in.
        start: where they begin.
        size: how many there are.
    """

    file: OpenFile
    start: int
    size: int

    def read(self) -> np.ndarray:
        """The bytes, aligned for every element type.

        Raises:
            UserError: they are not there any more.
        """
        found = _memory(self.size)
        try:
            count = self.file.into(found.data, self.start)
        except OSError as error:
            raise _unreadable(self.file, error.strerror or str(error)) from error
        if count != self.size:
            raise _unreadable(self.file, f"{self.file.path.name}, which has become shorter")
        return found


def _memory(size: int) -> np.ndarray:
    """Bytes to write to, which go back to the system when nobody uses them any more."""
    if size < _OWN_PAGES or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.empty(size, np.uint8)
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)


def _unreadable(file: OpenFile, got: str) -> UserError:
    return UserError(
        "the file of a network must not change while it is read",
        got=got,
        where=f"file {file.path.name}",
    )


class Window:
    """The bytes of a file as an array has them, of which few are in memory.

    Args:
        file: the file.
    """

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        # Where ``_held`` begins; single bytes of it are read very often.
        self._start, self._held = 0, b""

    def __len__(self) -> int:
        return self._file.size

    def piece(self, start: int, stop: int) -> FilePiece:
        """Bytes that may be read later."""
        return FilePiece(self._file, start, stop - start)

    def byte(self, place: int) -> int:
        """A byte."""
        held = place - self._start
        return self._held[held] if 0 <= held < len(self._held) else self.bytes(place, place + 1)[0]

    def bytes(self, start: int, stop: int) -> bytes:
        """Some bytes."""
        held = start - self._start
        if held < 0 or stop > self._start + len(self._held):
            size = min(max(stop - start, _WINDOW), len(self) - start)
            self._start, self._held, held = (
                start,
                self.piece(start, start + size).read().tobytes(),
                0,
            )
        return self._held[held : held + stop - start]


class Section(io.RawIOBase):
    """A piece of a file, as a file to read.

    Args:
        piece: the piece.
    """

    def __init__(self, piece: FilePiece) -> None:
        super().__init__()
        self.piece = piece
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes to a place, counted from the start of the piece."""
        origin = (0, self._at, self.piece.size)[whence]
        self._at = max(0, origin + offset)
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Reads from the place on; nothing behind the end of the piece."""
        wanted = memoryview(buffer).cast("B")[: max(0, self.piece.size - self._at)]
        count = self.piece.file.into(wanted, self.piece.start + self._at)
        self._at += count
        return count
