"""Every operator, over grids of types and options, against LiteRT's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.frontends.litert import coverage
from tests.frontends.litert.against import by_litert, by_weft, check, imported
from tests.frontends.litert.builder import Case, inputs_of
from tests.frontends.litert.cases import CASES

RUNS = 3


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_operator(case: Case) -> None:
    content, inputs = case.content(), inputs_of(case)
    made = imported(content)
    runs = RUNS if made.states else 1
    quantized = any(each is not None and each.scale is not None for each in case.inputs)
    quantized |= any(each.scale is not None for each in case.outputs)
    expected = by_litert(content, inputs, runs, case.reference)
    check(by_weft(made, inputs, runs), expected, case.steps * quantized, case.tolerance)


def test_there_are_enough() -> None:
    assert len(CASES) >= 400


def test_the_coverage_page_is_current() -> None:
    assert coverage.PAGE.read_text(encoding="utf-8") == coverage.page(), (
        "run python -m tests.frontends.litert.coverage"
    )


# Every 16th case, and all of them where time is of no concern.
QUICK = [
    pytest.param(case, marks=() if place % 16 == 0 else pytest.mark.slow, id=case.id)
    for place, case in enumerate(CASES)
]


@pytest.mark.parametrize("case", QUICK)
def test_compiled(case: Case) -> None:
    made, inputs = imported(case.content()), inputs_of(case)
    if made.states or not made.inputs:
        pytest.skip("states are compiled elsewhere, constants not at all")
    expected = by_weft(made, inputs)
    found = weft.Net(made.graph).compile()(*inputs)
    found = [found] if isinstance(found, np.ndarray) else list(found)
    quantized = any(each.scale is not None for each in case.outputs)
    check(found, expected, int(quantized), 1e-5)
