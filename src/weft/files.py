"""Reads of open files at places."""

from __future__ import annotations

import os


def read_at(file: int, memory: memoryview, start: int) -> int:
    """Fills memory from a place in a file on, whatever others read of it.

    Args:
        file: its descriptor.
        memory: bytes to write to.
        start: the place.

    Returns:
        How many bytes there were; fewer than ``memory`` holds at the end of the file.

    Raises:
        OSError: it cannot be read.
    """
    done = 0
    while done < len(memory):
        count = os.preadv(file, [memory[done:]], start + done)
        if count == 0:
            break
        done += count
    return done
