"""Grids of cases and machines: a sample for every day, all of it where there is time.

`make test` runs cases, or some of them, on one machine each and every machine on its share; the
rest is marked ``thorough``, which `make test-all` runs, too.  It also tries properties on
fewer examples.  `make test-all PARTS=2`, which `.ci/run` uses, runs half of the thorough tests
today and the others tomorrow.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import pytest
from _pytest.mark import ParameterSet

FEWER = 6
"""Without the thorough tests, properties are tried on one example in so many, ..."""
LEAST = 12
"""... but on so many at least, if they have them."""
TURN = "WEFT_TEST_TURN"
"""The environment variable that says which part is run, as the header of a run prints it."""


@dataclass
class _Run:
    parts: int = 1
    turn: int = 0


_run = _Run()


def leave_out_thorough() -> None:
    """Says that thorough tests are not run; before tests are imported."""
    _run.parts = 0


def run_a_part(parts: int) -> None:
    """Says that one of so many parts of the thorough tests is run; before tests are imported.

    The day decides which; processes that are started get that in their environment.
    """
    day = os.environ.setdefault(TURN, str(datetime.now(UTC).toordinal() % parts))
    _run.parts, _run.turn = parts, int(day) % parts


def header() -> str:
    """Which thorough tests are run, for the first lines of a report."""
    if _run.parts == 0:
        return "thorough tests: none"
    if _run.parts == 1:
        return "thorough tests: all"
    return f"thorough tests: a part, 1 of {_run.parts} ({TURN}={_run.turn})"


def thorough(name: str) -> bool:
    """Whether a thorough test, or what else has this name, is run."""
    if _run.parts <= 1:
        return _run.parts == 1
    return crc32(name.encode()) % _run.parts == _run.turn


def examples(count: int) -> int:
    """How many examples a property is tried on that has ``count`` in `make test-all`."""
    return min(count, max(LEAST, count // (_run.parts or FEWER)))


def in_turn(
    cases: Iterable[Sequence[Any]], others: Sequence[Any], names: Sequence[str] = (), every: int = 1
) -> list[ParameterSet]:
    """Every case with every one of the others, which take turns at not being ``thorough``.

    Args:
        cases: the first parameters of a test.
        others: its last parameter, mostly machines.
        names: of the cases in the tests' ids; pytest's own if not given.
        every: of how many cases `make test` runs one.
    """
    found: list[ParameterSet] = []
    for turn, case in enumerate(cases):
        for place, other in enumerate(others):
            daily = turn % every == 0 and place == turn // every % len(others)
            marks = () if daily else (pytest.mark.thorough,)
            id = f"{names[turn]}-{other}" if names else None
            found.append(pytest.param(*case, other, marks=marks, id=id))
    return found


def a_few(cases: Iterable[Any], daily: int = 2) -> list[ParameterSet]:
    """All cases of a test that take long; all but some of them, evenly spread, are ``thorough``.

    Args:
        cases: the test's parameters: one each, or a sequence of several, or made by
            ``pytest.param``.
        daily: how many `make test` runs, the first among them.
    """
    found = list(cases)
    kept = {place * len(found) // daily for place in range(daily)}
    return [_case(each, place in kept) for place, each in enumerate(found)]


def _case(given: Any, daily: bool) -> ParameterSet:
    marks = () if daily else (pytest.mark.thorough,)
    if isinstance(given, ParameterSet):
        return pytest.param(*given.values, marks=(*given.marks, *marks), id=given.id)
    values = given if isinstance(given, tuple | list) else (given,)
    return pytest.param(*values, marks=marks)
