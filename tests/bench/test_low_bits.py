"""Products of weights of few bits beside onnxruntime: the same outputs, a row for each form."""

from __future__ import annotations

import pytest

low_bits = pytest.importorskip("bench.low_bits", reason="onnxruntime is missing")


def test_a_row_for_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    low_bits.main(["--sizes", "256", "128", "128", "--rounds", "2"])
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split("|")[1:-1] for line in lines if " bits, a scale for " in line]
    assert [cells[0].strip() for cells in rows] == [str(form) for form in low_bits.FORMS]
    for cells in rows:
        ours, exact, theirs, _ = (float(cell.split("(")[1].split()[0]) for cell in cells[1:])
        assert ours < 2e-3
        assert exact < 2e-3
        assert theirs == 0
