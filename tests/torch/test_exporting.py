"""Threads that run modules, and those that export."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from weft.torch import exporting
from weft.torch.exporting import Gate


def _started(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_an_export_waits_for_modules_that_run_and_they_for_it() -> None:
    gate, order = Gate(), list[str]()
    running, exports = threading.Event(), threading.Event()

    def export() -> None:
        running.wait(60)
        with gate.exporting():
            exports.set()
            order.append("export")

    exporter = _started(export)
    with gate.running():
        running.set()
        assert not exports.wait(0.2)
        with gate.running():  # by a thread that runs already
            order.append("run")
    exporter.join(60)
    with gate.exporting():
        runner = _started(lambda: _run(gate, order))
        runner.join(0.2)
        order.append("export")
    runner.join(60)
    assert order == ["run", "export", "export", "run"]


def _run(gate: Gate, order: list[str]) -> None:
    with gate.running():
        order.append("run")


def _exports(gate: Gate) -> tuple[threading.Thread, threading.Event]:
    """A thread that exports, and whether it could."""
    done = threading.Event()

    def export() -> None:
        with gate.exporting():
            done.set()

    return _started(export), done


def test_an_export_does_not_wait_for_ever_for_who_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as a forward that has other threads call modules."""
    monkeypatch.setattr(exporting, "PATIENCE", 0.2)
    gate = Gate()
    with gate.running():
        _, done = _exports(gate)
        assert done.wait(60)


def test_two_threads_never_export_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "PATIENCE", 0.05)
    gate = Gate()
    with gate.exporting():
        exporter, done = _exports(gate)
        assert not done.wait(0.4)
    exporter.join(60)
    assert done.is_set()
