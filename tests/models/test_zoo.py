"""Every exported network keeps what `bench.check_zoo` asks of it."""

from __future__ import annotations

import pytest

from bench.check_zoo import Case, apart, cases
from bench.folders import zoo_folder

CASES = list(cases(zoo_folder(), []))

pytestmark = pytest.mark.zoo


@pytest.mark.parametrize("case", CASES, ids=[case.label for case in CASES])
def test_network_is_right_and_small(case: Case) -> None:
    figures = apart(case, 900)
    assert figures.failures() == []
