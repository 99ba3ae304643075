"""Attributes that are computed once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from weft.cached import cached_property


class Square:
    """Its attribute is computed once something else has happened."""

    def __init__(self, side: int, wait: Callable[[], object]) -> None:
        self.side, self.wait, self.computed = side, wait, 0

    @cached_property
    def area(self) -> list[int]:
        """A list, to tell one from another."""
        self.computed += 1
        self.wait()
        return [self.side**2]


def test_it_is_computed_once_and_may_be_forgotten() -> None:
    square = Square(3, lambda: None)
    assert square.area is square.area
    assert (square.area, square.computed) == ([9], 1)
    del square.area
    assert (square.area, square.computed) == ([9], 2)
    assert Square.area.__doc__ == "A list, to tell one from another."


def test_objects_do_not_wait_for_each_other() -> None:
    begun, ended = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert ended.wait(60)

    with ThreadPoolExecutor() as pool:
        slow = pool.submit(lambda: Square(2, wait).area)
        assert begun.wait(60)
        quick = pool.submit(lambda: Square(3, lambda: None).area)
        try:
            assert quick.result(30) == [9]
        finally:
            ended.set()
        assert slow.result(60) == [4]


def test_threads_that_compute_it_at_once_get_one_value() -> None:
    both = threading.Barrier(2)
    square = Square(2, lambda: both.wait(60))
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: square.area, range(2))
    assert first is second
    assert square.computed == 2


def test_what_fails_is_computed_again() -> None:
    failures = iter([OSError("busy")])

    def wait() -> None:
        for each in failures:
            raise each

    square = Square(2, wait)
    with pytest.raises(OSError, match="busy"):
        _ = square.area
    assert square.area == [4]
