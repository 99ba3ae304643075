"""Grids of cases and machines: a sample for every day, all of it where there is time.

`make test` runs every case on one machine and every machine on its share of the cases; the
rest is marked ``thorough``, which `make test-all` runs, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet


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
