"""Memory in reserve: asked for ahead, and used again."""

from __future__ import annotations

import ctypes
import os
import resource
import sys

import numpy as np
import pytest

from weft.runtime.reserve import LEAST, Ahead, SpareMemory, fresh_memory

SIZE = 5 * LEAST + 12


def test_what_was_asked_for_is_taken_once_and_zero() -> None:
    ahead = Ahead([SIZE, 2 * LEAST])
    first, second, other = fresh_memory(SIZE), fresh_memory(SIZE), fresh_memory(2 * LEAST)
    ahead.wait()
    assert len({first.address, second.address, other.address}) == 3
    for each, size in ((first, SIZE), (second, SIZE), (other, 2 * LEAST)):
        array = np.frombuffer(each.view(), np.uint8)
        assert array.size == size
        assert not array.any()
    ahead.close()


def test_what_is_written_stays_while_pages_are_touched() -> None:
    for _ in range(5):
        ahead = Ahead([64 << 20])
        memory = fresh_memory(64 << 20)
        ctypes.memset(memory.address, 7, memory.size)
        ahead.wait()
        assert (np.frombuffer(memory.view(), np.uint8) == 7).all()
        ahead.close()


@pytest.mark.skipif(sys.platform != "linux", reason="counts the page faults of a thread")
def test_pages_are_there_when_it_is_taken() -> None:
    def faults(*, asked: bool) -> int:
        ahead = Ahead([SIZE] if asked else [])
        ahead.wait()
        memory = fresh_memory(SIZE)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        ctypes.memset(memory.address, 1, memory.size)
        after = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        ahead.close()
        return after - before

    assert faults(asked=True) < faults(asked=False)


def test_the_rest_is_given_back() -> None:
    ahead = Ahead([SIZE])
    ahead.close()
    own = Ahead([SIZE, 100])
    memory = fresh_memory(SIZE)
    own.close()
    # Of neither is anything left to be taken.
    assert fresh_memory(SIZE).address != memory.address
    ahead.wait()
    own.wait()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_does_not_wait_for_threads_that_it_lacks() -> None:
    for _ in range(20):
        ahead = Ahead([64 << 20])
        child = os.fork()
        if not child:
            os._exit(fresh_memory(64 << 20).size != 64 << 20)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ahead.close()
        ahead.wait()


def test_spare_memory_is_used_again() -> None:
    spare = SpareMemory(SIZE)
    memory = spare.take()
    spare.give_back(memory)
    assert spare.take() is memory
    assert spare.take() is not memory
