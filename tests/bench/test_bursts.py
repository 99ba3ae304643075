"""Calls in bursts: how often the network runs in each pattern, and the table of what was found."""

from __future__ import annotations

import pytest

from bench.bursts import PATTERNS, PAUSES, Found, followed, process_beside, report, spaced


@pytest.mark.parametrize("burst", [1, 5])
def test_a_burst_is_finished(burst: int) -> None:
    calls: list[None] = []
    times = spaced(lambda: calls.append(None), 6, 0.001, burst)
    assert len(times) == len(calls) == {1: 6, 5: 10}[burst]


def test_another_call_follows_each() -> None:
    order: list[str] = []
    times = followed(lambda: order.append("own"), lambda: order.append("other"), 3)
    assert order == ["own", "other"] * 3
    assert len(times) == 3


def test_another_process_runs_until_it_is_no_longer_needed() -> None:
    with process_beside("print(flush=True)\nwhile True: pass") as process:
        assert process.poll() is None
    assert process.poll() is not None
    with pytest.raises(SystemExit, match="stopped"), process_beside("pass"):
        pass


def test_every_pattern_with_pauses_is_offered() -> None:
    assert set(PAUSES) < set(PATTERNS)


def test_report() -> None:
    found = [
        Found("net", "loop", "weft 1", [4.0, 4.0], [4.0]),
        Found("net", "loop", "weft 2", [2.0, 2.0], [4.0]),
        Found("net", "every20", "weft 1", [5.0, 5.0, 9.0], [5.0]),
        Found("net", "every20", "weft 2", [3.0, 3.0, 3.0], [5.0]),
        Found("net", "ort", "weft 1", [4.0, 4.0]),
        Found("net", "ort", "(ort)", [6.0, 6.0]),
    ]
    assert report(found) == [
        "| network | pattern |  | ms | 90th | x loop | x 1 thread | cpu ms | x loop |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        "| net | loop | weft 1 | 4.00 | 4.00 | 1.00 | 1.00 | 4.00 | 1.00 |",
        "| net | loop | weft 2 | 2.00 | 2.00 | 1.00 | 0.50 | 4.00 | 1.00 |",
        "| net | every20 | weft 1 | 5.00 | 9.00 | 1.25 | 1.00 | 5.00 | 1.25 |",
        "| net | every20 | weft 2 | 3.00 | 3.00 | 1.50 | 0.60 | 5.00 | 1.25 |",
        "| net | ort | weft 1 | 4.00 | 4.00 | 1.00 | 1.00 |  |  |",
        "| net | ort | (ort) | 6.00 | 6.00 |  | 1.50 |  |  |",
    ]
