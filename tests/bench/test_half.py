"""The race of networks in bfloat16: its tables."""

from __future__ import annotations

from bench.figures import Result
from bench.half import report


def test_the_report_says_all() -> None:
    results = [
        Result("bert", "weft-bfloat16", 1, (10.0,), 3e-3, deviation=5e-3),
        Result("bert", "weft-bfloat16-f4", 1, (8.0,), 4e-3, deviation=6e-3),
        Result("bert", "weft", 1, (20.0,), 1e-7, deviation=1e-7),
        Result("bert", "openvino-bfloat16", 1, (15.0,), 4e-3, deviation=6e-3),
        Result("bert", "eager-bfloat16", 1, why="torch is not installed"),
    ]
    text = report(["a machine"], results)
    assert "| bert | 10.0 | 8.00 | 20.0 | - | 15.0 | 0.80 | 2.00 | - | 1.50 |" in text
    assert "| geometric mean |  |  |  |  |  | 0.80 | 2.00 | - | 1.50 |" in text
    assert "| bert | 5.0e-03 / 3.0e-03 | 6.0e-03 / 4.0e-03 | - | 6.0e-03 / 4.0e-03 |" in text
    assert "- bert, eager-bfloat16: torch is not installed" in text
