"""Pauses of Python's search for reference cycles.

Building a network makes millions of small objects that live until it is done and form no cycles;
looking through all of them again and again takes up to a sixth of the time.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar


class _Paused:
    """How many pauses there are now, in all threads, and whether to end the last one."""

    lock: ClassVar[threading.Lock] = threading.Lock()
    count: ClassVar[int] = 0
    resume: ClassVar[bool] = False


@contextmanager
def without_collection() -> Generator[None]:
    """No search for cycles until the end of the block or of the function that this decorates.

    Pauses may be nested, and there may be some in several threads.  If the caller has turned
    the search off, it stays off.
    """
    with _Paused.lock:
        if _Paused.count == 0:
            _Paused.resume = gc.isenabled()
            gc.disable()
        _Paused.count += 1
    try:
        yield
    finally:
        with _Paused.lock:
            _Paused.count -= 1
            if _Paused.count == 0 and _Paused.resume:
                gc.enable()
