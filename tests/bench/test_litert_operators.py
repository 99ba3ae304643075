"""The operators timed beside LiteRT: both compute the same."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.frontends.litert.against import imported

pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is missing")
litert_operators = pytest.importorskip("bench.litert_operators", reason="LiteRT is missing")


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_operators_can_be_timed(dtype: str) -> None:
    """They are read, and left in integers but for those that LiteRT computes in float, too."""
    names: set[str] = set()
    for case in litert_operators.cases(dtype):
        net = weft.Net(imported(case.content()).graph).apply("integers", rounding="litert")
        assert not net.float_layers() or case.name in ("RSQRT",), case.id
        names.add(f"{case.name} {case.label}")
    assert len(names) >= 20


def test_a_row_for_each_operator(capsys: pytest.CaptureFixture[str]) -> None:
    """Two kinds of sums and one softmax, timed, and the mean of the three."""
    litert_operators.main(["--names", "ADD int8", "SOFTMAX int8", "--seconds", "0.01"])
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split("|") for line in lines if line.startswith(("| ADD ", "| SOFTMAX "))]
    assert [row[1].strip() for row in rows] == [
        "ADD int8 scales as 3 to 2",
        "ADD int8 calibrated",
        "SOFTMAX int8",
    ]
    ratios = [float(row[4]) for row in rows]
    assert all(ratio > 0 for ratio in ratios)
    mean = float(np.prod(ratios)) ** (1 / len(ratios))
    assert float(lines[-1].rsplit(" ", 1)[1]) == pytest.approx(mean, abs=0.02)
