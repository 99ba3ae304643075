"""How many threads a network runs on."""

from __future__ import annotations

import os

import pytest

from weft.errors import UserError
from weft.runtime.threads import cores, pinned, thread_count


def test_one_for_each_core_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_THREADS", raising=False)
    assert thread_count() == cores() == len(os.sched_getaffinity(0))


def test_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_THREADS", " 3 ")
    assert thread_count() == 3
    assert thread_count(5) == 5
    monkeypatch.setenv("WEFT_THREADS", "")
    assert thread_count() == cores()


@pytest.mark.parametrize("wish", ["0", "-1", "two", "1.5", "1025", "٣", "0x2", "1_0"])
def test_junk_in_the_environment(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_THREADS", wish)
    with pytest.raises(UserError) as caught:
        thread_count()
    assert caught.value.rule == "WEFT_THREADS must be a whole number from 1 to 1024"
    assert caught.value.got == repr(wish)


@pytest.mark.parametrize("wish", [0, -2, 1025, 1.5, "2"])
def test_junk_from_the_caller(wish: int) -> None:
    with pytest.raises(UserError) as caught:
        thread_count(wish)
    assert caught.value.rule == "the number of threads must be a whole number from 1 to 1024"
    assert caught.value.got == repr(wish)


def test_pinning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_PIN", raising=False)
    assert not pinned()
    monkeypatch.setenv("WEFT_PIN", "1")
    assert pinned()
    monkeypatch.setenv("WEFT_PIN", "yes")
    with pytest.raises(UserError, match="WEFT_PIN must be 0 or 1"):
        pinned()
