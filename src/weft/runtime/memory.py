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

from weft.runtime.cache import Damaged
from weft.runtime.seal import unsealed

HUGE_PAGE = 2 << 20
# From here on memory is rounded up to huge pages.
_WORTH_HUGE = HUGE_PAGE // 2


class RunMemory:
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

    def release(self) -> None:
        """Lets the system take the pages where memory is short; the bytes are any afterwards."""
        if hasattr(mmap, "MADV_FREE"):
            # A kernel without it refuses: the pages stay.
            with contextlib.suppress(OSError):
                self._pages.madvise(mmap.MADV_FREE)


_known: weakref.WeakValueDictionary[Path, RunMemory] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def content(path: Path) -> RunMemory:
    """The content of an entry of the cache, without its seal; all who ask for it share it.

    It is read, not mapped: mapped pages change with the file, are no huge ones, and end the
    process where the file has become shorter.

    Raises:
        Damaged: the entry is not what was written.
    """
    with _lock:
        found = _known.get(path)
        if found is None:
            found = _known[path] = _read(path)
        return found


def keep(path: Path, memory: RunMemory) -> RunMemory:
    """Takes memory as the content of an entry that was written from it.

    Returns:
        What others use already, if they do.
    """
    with _lock:
        return _known.setdefault(path, memory)


def _read(path: Path) -> RunMemory:
    held: list[RunMemory] = []

    def hold(size: int) -> memoryview:
        held.append(RunMemory(size))
        return held[0].view()

    view = unsealed(path, hold)
    if view is None or not held:
        raise Damaged(path)
    return held[0]


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
