"""The table of the architectures of Keras."""

from __future__ import annotations

from bench.check_keras import table

LINE = {
    "name": "Small",
    "weights": "initial",
    "side": 96,
    "parameters": 2_540_000,
    "backend": "jax",
    "worst": 2e-5,
    "where": "conv",
    "own": 4e-7,
    "weft": 1e-5,
    "keras": 3e-5,
    "failed": [],
}


def rows(*lines):
    return [line for line in table(lines).splitlines() if "96 x 96" in line]


def test_rows_are_sorted_and_count_as_passed():
    other = {**LINE, "name": "Alpha"}
    figures = "96 x 96 | 2.5 M | jax | 2.0e-05 | `conv` | 4.0e-07 | 1.0e-05 | 3.0e-05 | yes | equal"
    assert rows(LINE, other) == [f"| Alpha | {figures} |", f"| Small | {figures} |"]
    assert "2 of 2 pass." in table([LINE, other])


def test_every_failure_shows():
    failed = ["differs", "is wrong", "changes", "is not C89"]
    line = {**LINE, "worst": 3e-4, "own": 2e-4, "failed": failed}
    assert "| 3.0e-04 **fails** |" in rows(line)[0]
    assert "| 2.0e-04 **fails** |" in rows(line)[0]
    assert rows(line)[0].endswith("| no | differ |")
    assert "0 of 1 pass." in table([line])


def test_kinds_of_weights_have_tables_of_their_own():
    settled = {**LINE, "weights": "settled", "worst": 3e-4, "failed": ["differs"]}
    page = table([settled, LINE, {**LINE, "weights": "trained", "failed": ["changes"]}])
    titles = [line for line in page.splitlines() if line.startswith("## ")]
    assert titles == [
        "## Weights that Keras draws",
        "## With the statistics of trained networks",
        "## After a short training",
    ]
    initial, settled, trained = page.split("\n## ")[1:]
    assert "1 of 1 pass." in initial
    assert "0 of 1 pass." in settled
    assert "3.0e-04 **fails**" in settled
    assert "0 of 1 pass." in trained
    assert "| 2.0e-05 |" in trained


def test_a_kind_that_was_not_checked_has_no_table():
    assert "After a short training" not in table([LINE])
