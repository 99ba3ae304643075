"""Rarer searches for reference cycles, and memory that goes back to the system.

Building a network makes millions of small objects, most of which live until it is done; looking
through them again and again takes up to a sixth of the time.  Some do form cycles, such as
functions that call themselves inside of others, and what these hold would add up to hundreds of
megabytes if nobody looked.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from typing import ClassVar

# Objects between two searches among the youngest, and how many of these to one among older ones.
_RARE = (50_000, 20, 1000)


class _Calls:
    """How many blocks there are now, in all threads, and what to restore after the last one."""

    lock: ClassVar[threading.Lock] = threading.Lock()
    count: ClassVar[int] = 0
    before: ClassVar[tuple[int, int, int]] = (0, 0, 0)


@contextmanager
def rare_collection() -> Generator[None]:
    """Fewer searches for cycles until the end of the block or of the function that this decorates.

    Blocks may be nested, and there may be some in several threads.  Whoever has turned searches
    off, or made them rarer, finds them so.
    """
    with _Calls.lock:
        if _Calls.count == 0:
            _Calls.before = gc.get_threshold()
            if 0 < _Calls.before[0] < _RARE[0]:
                gc.set_threshold(*_RARE)
        _Calls.count += 1
    try:
        yield
    finally:
        with _Calls.lock:
            _Calls.count -= 1
            if _Calls.count == 0:
                gc.set_threshold(*_Calls.before)


def return_memory() -> None:
    """Gives memory that the allocator holds and nobody uses back to the system.

    The GNU C library returns the end of its heap only.  Arrays of up to 32 MB are in there, and
    what is below one that lives on stays with the process.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], object] | None:
    if sys.platform != "linux":
        return None
    with suppress(OSError, AttributeError):  # of another C library
        return ctypes.CDLL(None).malloc_trim
    return None
