"""Pauses of Python's search for reference cycles."""

from __future__ import annotations

import gc
import threading

import pytest

from weft.garbage import without_collection


def test_a_pause_ends_with_the_outermost_block() -> None:
    with without_collection():
        with without_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_pause_ends_with_an_error() -> None:
    @without_collection()
    def fail() -> None:
        assert not gc.isenabled()
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            fail()
        assert gc.isenabled()


def test_who_turned_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_pauses_of_two_threads_overlap() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with without_collection():
            inside.set()
            leave.wait()

    other = threading.Thread(target=hold)
    other.start()
    inside.wait()
    with without_collection():
        pass
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled()
