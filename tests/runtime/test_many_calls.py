"""Ten thousand calls by eight threads: the same bits, and nothing left behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.runtime import cutting
from weft.api import CompiledNet
from weft.plan.program import CallStep

CALLS = 10_000
CALLERS = 8
_STATUS = Path("/proc/self/status")


@pytest.fixture
def run(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompiledNet:
    """The digits network on two threads, all of it cut, small as it is."""
    cutting.cut_all(monkeypatch)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    run = weft.load(digits).compile(threads=2)
    steps = run.library.program.steps
    assert any(max(step.parts) > 1 for step in steps if isinstance(step, CallStep))
    return run


def call_all(run: CompiledNet, images: np.ndarray, wanted: list[bytes], calls: int) -> int:
    """Calls by all callers at once; returns how many differed from what was wanted."""
    start = threading.Barrier(CALLERS)

    def some(caller: int) -> int:
        start.wait()
        wrong = 0
        for number in range(calls // CALLERS):
            place = (caller + number) % len(images)
            found = run(images[place])
            assert isinstance(found, np.ndarray)
            wrong += found.tobytes() != wanted[place]
        return wrong

    with ThreadPoolExecutor(CALLERS) as pool:
        return sum(pool.map(some, range(CALLERS)))


def status(name: str) -> int:
    """A number that the system knows of this process."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise AssertionError(f"no {name}")


def grown(name: str, action: Callable[[], object]) -> int:
    before = status(name)
    action()
    return status(name) - before


def test_ten_thousand_calls(run: CompiledNet) -> None:
    threads = status("Threads") if _STATUS.exists() else 0
    images = np.random.default_rng(0).random((16, 1, 1, 8, 8), dtype=np.float32)
    wanted = [np.asarray(run(image)).tobytes() for image in images]
    assert len(set(wanted)) == len(wanted), "the outputs must tell the inputs apart"
    # Callers that came and went have left what the allocators and the pool keep for good.
    for _ in range(2):
        assert call_all(run, images, wanted, 800) == 0
    if not _STATUS.exists():
        assert call_all(run, images, wanted, CALLS) == 0
        return
    files = len(os.listdir("/proc/self/fd"))
    wrong: list[int] = []
    kilobytes = grown("VmRSS", lambda: wrong.append(call_all(run, images, wanted, CALLS)))
    assert wrong == [0]
    assert len(os.listdir("/proc/self/fd")) == files
    deadline = time.monotonic() + 10
    while status("Threads") > threads + 1 and time.monotonic() < deadline:
        time.sleep(0.01)  # those that were joined may not be gone yet
    assert status("Threads") <= threads + 1, "one thread of the pool, and no other"
    # An output or an array object that leaked in every call would be more.
    assert kilobytes < CALLS * 100 // 1024
