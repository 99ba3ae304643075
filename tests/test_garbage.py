"""Rarer searches for reference cycles, and memory that goes back to the system."""

from __future__ import annotations

import gc
import os
import platform
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from weft.garbage import rare_collection, return_memory

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """Runs a test with Python's own thresholds."""
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_they_are_rarer_until_the_outermost_block_ends() -> None:
    with rare_collection():
        with rare_collection():
            assert gc.get_threshold()[0] > USUAL[0]
        assert gc.get_threshold()[0] > USUAL[0]
        assert gc.isenabled()
    assert gc.get_threshold() == USUAL


def test_an_error_ends_a_block() -> None:
    @rare_collection()
    def fail() -> None:
        assert gc.get_threshold()[0] > USUAL[0]
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            fail()
        assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("own", [(0, 10, 10), (1 << 20, 10, 10)])
def test_what_the_caller_chose_stays(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with rare_collection():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_blocks_of_two_threads_overlap() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with rare_collection():
            inside.set()
            leave.wait()

    other = threading.Thread(target=hold)
    other.start()
    inside.wait()
    with rare_collection():
        pass
    assert gc.get_threshold()[0] > USUAL[0]
    leave.set()
    other.join()
    assert gc.get_threshold() == USUAL


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators do it themselves")
def test_memory_goes_back() -> None:
    arrays = [np.ones(100_000, np.uint8) for _ in range(400)]
    last = arrays[-1]  # what is below it would stay
    before = resident()
    arrays.clear()
    return_memory()
    assert before - resident() > 20_000_000
    assert last.all()
