"""The table of the architectures of Keras."""

from __future__ import annotations

from bench.check_keras import table

LINE = {
    "name": "Small",
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
    assert "2 of 2 architectures pass so" in table([LINE, other])


def test_every_failure_shows():
    failed = ["differs", "is wrong", "changes", "is not C89"]
    line = {**LINE, "worst": 3e-4, "own": 2e-4, "failed": failed}
    assert "| 3.0e-04 **fails** |" in rows(line)[0]
    assert "| 2.0e-04 **fails** |" in rows(line)[0]
    assert rows(line)[0].endswith("| no | differ |")
    assert "0 of 1 architectures pass so" in table([line])


def test_what_fails_with_random_weights_may_pass_after_a_training():
    line = {**LINE, "worst": 3e-4, "failed": ["differs"]}
    page = table([line, {**LINE, "trained": True}])
    assert "0 of 1 architectures pass so,\n1 where" in page
    random, trained = page.split("## After a short training")
    assert "3.0e-04 **fails**" in random
    assert "| 2.0e-05 |" in trained


def test_rows_of_a_training_count_once():
    page = table([LINE, {**LINE, "trained": True, "failed": ["changes"]}])
    assert "1 of 1 architectures pass so,\n0 where" in page
