"""Rarer searches for reference cycles."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from weft.garbage import rare_collection

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
