"""Grids of cases and machines: a sample for every day, all of it where there is time.

`make test` runs every case on one machine and every machine on its share of the cases; the
rest is marked ``thorough``, which `make test-all` runs, too.  It also tries properties on
fewer examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet

FEWER = 6
"""Without the thorough tests, properties are tried on one example in so many, ..."""
LEAST = 12
"""... but on so many at least, if they have them."""
_RUN = {"thorough": True}


def leave_out_thorough() -> None:
    """Says that thorough tests are not run; before tests are imported."""
    _RUN["thorough"] = False


def thorough() -> bool:
    """Whether thorough tests are run, too."""
    return _RUN["thorough"]


def examples(count: int) -> int:
    """How many examples a property is tried on that has ``count`` in `make test-all`."""
    return count if thorough() else min(count, max(LEAST, count // FEWER))


def in_turn(
    cases: Iterable[Sequence[Any]], others: Sequence[Any], names: Sequence[str] = ()
) -> list[ParameterSet]:
    """Every case with every one of the others, which take turns at not being ``thorough``.

    Args:
        cases: the first parameters of a test.
        others: its last parameter, mostly machines.
        names: of the cases in the tests' ids; pytest's own if not given.
    """
    found: list[ParameterSet] = []
    for turn, case in enumerate(cases):
        for place, other in enumerate(others):
            marks = () if place == turn % len(others) else (pytest.mark.thorough,)
            id = f"{names[turn]}-{other}" if names else None
            found.append(pytest.param(*case, other, marks=marks, id=id))
    return found
