"""Memory that networks run on: private, aligned, and in huge pages where there are any.

A processor finds a huge page's place with one look-up where it needs 512 for small ones, so
whoever reads much memory once, as a dense layer does its weights, waits less.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
import weakref
from pathlib import Path

from weft.errors import UserError

HUGE_PAGE = 2 << 20
# From here on memory is rounded up to huge pages.
_WORTH_HUGE = HUGE_PAGE // 2
# Smaller files stay mapped, and their pages are shared with other processes.
_WORTH_COPYING = 2 * HUGE_PAGE


class Memory:
    """Bytes at a fixed address, all zero at first.  They live as long as the object.

    Args:
        size: bytes wanted, at least one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        huge = size >= _WORTH_HUGE
        whole = -(-size // HUGE_PAGE) * HUGE_PAGE + HUGE_PAGE if huge else size
        self._pages = _anonymous(whole)
        start = _address(self._pages)
        self._shift = -start % HUGE_PAGE if huge else 0
        self.address = start + self._shift
        if huge:
            _ask_for_huge_pages(self._pages)

    def view(self) -> memoryview:
        """The bytes, to read and write."""
        return memoryview(self._pages)[self._shift : self._shift + self.size]


class MappedFile:
    """The content of a file at a fixed address; writing to it changes no file.

    Args:
        path: of a file that is not empty.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            self._pages = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        self.size = len(self._pages)
        self.address = _address(self._pages)

    def view(self) -> memoryview:
        """The bytes, to read and write."""
        return memoryview(self._pages)


_known: weakref.WeakValueDictionary[Path, Memory | MappedFile] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def content(path: Path) -> Memory | MappedFile:
    """The content of a file that never changes; all who ask for it share it.

    Large files are read into memory of their own, since mapped ones get no huge pages.
    """
    with _lock:
        found = _known.get(path)
        if found is None:
            found = _known[path] = _read(path)
        return found


def _read(path: Path) -> Memory | MappedFile:
    size = path.stat().st_size
    if size < _WORTH_COPYING:
        return MappedFile(path)
    memory = Memory(size)
    done = 0
    with path.open("rb", buffering=0) as stream, memory.view() as view:
        while done < size:
            count = stream.readinto(view[done:])
            if not count:
                raise UserError(
                    "a file of the cache must stay as it is",
                    got=f"{path}, which became shorter while it was read",
                )
            done += count
    return memory


def _anonymous(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_ANONYMOUS"):
        # Shared memory, which is what Python takes by itself, has no huge pages by default.
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)


def _ask_for_huge_pages(pages: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # A kernel without huge pages refuses: slower, not wrong.
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)


def _address(pages: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(pages))
