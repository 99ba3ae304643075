"""Memory in reserve: used before, or asked for while the program does something else.

Whoever first writes to a page waits until the system has found one and zeroed it.  That is
little where memory is at hand, but a virtual machine may have to get it from its host: 170 MB
then take up to a second, more than it takes to compute what is written there.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterable
from functools import cache
from typing import Any

from weft.runtime.memory import RunMemory

LEAST = 4 << 20
"""Bytes below which nobody notices the wait."""
_AT_A_TIME = 8 << 20
_POPULATE_WRITE = 23
"""``MADV_POPULATE_WRITE`` of Linux 5.14; older systems refuse it."""


class _Asked:
    """Memory whose pages are being touched."""

    def __init__(self, size: int) -> None:
        self.memory = RunMemory(size)
        self._lock = threading.Lock()
        self._taken = self._dropped = False

    def take(self) -> RunMemory:
        """The memory; nothing else writes to it from now on."""
        with self._lock:
            self._taken = True
        return self.memory

    def drop(self) -> None:
        """Leaves it at what is touched so far."""
        self._taken = self._dropped = True

    def touch(self) -> None:
        """Touches all pages, after one another, without Python's lock.

        Until somebody takes the memory, zeros are written, which keeps no other thread from
        getting memory from the system, as asking for pages does.  Whoever has it writes from the
        beginning, most likely; so the other pages are then asked for from the end.
        """
        starts = range(0, self.memory.size, _AT_A_TIME)
        for done, start in enumerate(starts):
            with self._lock:
                if self._taken:
                    return self._ask(starts[done:][::-1])
                ctypes.memset(self.memory.address + start, 0, self._size(start))
        return None

    def _ask(self, starts: Iterable[int]) -> None:
        advise = _advise()
        for start in starts:
            address = self.memory.address + start
            if self._dropped or advise is None:
                return
            if advise(address, self._size(start), _POPULATE_WRITE) != 0:
                return

    def _size(self, start: int) -> int:
        return min(_AT_A_TIME, self.memory.size - start)


class _Open:
    """What was asked for and not taken yet, of the process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """A new process has not the threads that touch the pages, and may not wait for them."""
        self.lock = threading.Lock()
        self.asked: list[_Asked] = []


_OPEN = _Open()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPEN.forget)


class Ahead:
    """Memory that is asked for now and taken later, by ``fresh_memory``, by whoever needs it.

    Args:
        sizes: in bytes; those below ``LEAST`` are left out.
    """

    def __init__(self, sizes: Iterable[int]) -> None:
        self._own = [_Asked(size) for size in sizes if size >= LEAST]
        with _OPEN.lock:
            _OPEN.asked += self._own
        self._thread = threading.Thread(target=self._touch, args=(tuple(self._own),), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Returns when the system has handed over all pages."""
        self._thread.join()

    def close(self) -> None:
        """Gives back what nobody took."""
        with _OPEN.lock:
            left = [each for each in self._own if each in _OPEN.asked]
            _OPEN.asked = [each for each in _OPEN.asked if each not in left]
        for each in left:
            each.drop()
        self._own = []

    @staticmethod
    def _touch(own: tuple[_Asked, ...]) -> None:
        for each in own:
            each.touch()


def fresh_memory(size: int) -> RunMemory:
    """Memory of a size, all zero: what was asked for ahead, if there is such."""
    with _OPEN.lock:
        found = next((each for each in _OPEN.asked if each.memory.size == size), None)
        if found is not None:
            _OPEN.asked.remove(found)
    return found.take() if found is not None else RunMemory(size)


class SpareMemory:
    """Memory of one size that is used again; any number of threads may ask for it.

    Fresh pages are zeroed by the system, which takes as long as preparing weights does.  At most
    one is kept, and the system may take its pages where memory is short.

    Args:
        size: bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._kept: list[RunMemory] = []

    def take(self) -> RunMemory:
        """Memory with any content."""
        try:
            return self._kept.pop()
        except IndexError:
            return fresh_memory(self._size)

    def give_back(self, memory: RunMemory) -> None:
        """Takes memory that nobody uses any more."""
        memory.release()
        self._kept.append(memory)
        del self._kept[1:]


@cache
def _advise() -> Any:
    """``madvise`` as it is called without Python's lock; ``None`` where there is none."""
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
