"""The page of PyTorch models is made of results, and gives them back."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

if importlib.util.find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed", allow_module_level=True)

from bench.torch_models import well
from bench.torch_table import results_of, table, times_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pytorch-coverage.md"


def result(processor: str, difference: float, ratio: float, **fallbacks: int) -> dict[str, object]:
    return {
        "status": "ok",
        "processor": processor,
        "fallbacks": fallbacks,
        "difference": difference,
        "ratio": ratio,
    }


def trained(processor: str, difference: float) -> dict[str, object]:
    off = {"optimize": difference, "compile": difference, "weft": 3e-7, "eager": 1e-7}
    return {"status": "ok", "processor": processor, **off}


RESULTS = {
    ("lstm", "optimize"): result("Zen", 5e-8, 2.0),
    ("lstm", "compile"): result("Zen", 0.0, 0.5, zeros=2, lstm=1),
    ("gru", "optimize"): result("Zen", 2e-7, 8.0),
    ("gru", "compile"): {"status": "error", "processor": "Zen", "error": "ValueError: 1 < 2"},
    ("resnet152", "optimize"): result("Xeon", 1.4e-4, 3.0),
    ("lenet5", "optimize"): result("Zen", 1.4e-4, 3.0),
    ("lenet5", "double"): {"status": "ok", "processor": "Zen", "weft": 8e-5, "eager": 1.1e-4},
    ("tcn", "optimize"): result("Zen", 1.4e-4, 3.0),
    ("tcn", "double"): {"status": "ok", "processor": "Zen", "weft": 1.2e-4, "eager": 8e-5},
    ("lenet5", "trained"): trained("Zen", 4e-7),
    ("tcn", "trained"): trained("Zen", 1.1e-4),
}


def test_a_page_gives_the_results_that_it_was_made_of():
    page = table(RESULTS)
    assert results_of(page) == RESULTS
    more = {**RESULTS, ("gru", "optimize"): result("Zen", 2.345e-7, 8.00499)}
    assert table(results_of(table(more))) == table(more) == page


def test_speeds_of_different_processors_are_not_averaged():
    page = table(RESULTS)
    assert "| speed, Xeon | speed, Zen |" in page
    assert "| sequences and others | `weft.optimize` | 4 | 2 | 3 | 0 | 0 |  | 3.46 |" in page
    assert '| all | `torch.compile(backend="weft")` | 2 | 0 | 0 | 1 | 1 |  | 0.50 |' in page


def test_results_that_are_too_far_off_are_so_on_the_page():
    for results in (RESULTS, results_of(table(RESULTS))):
        right = {
            name: well(
                results[name, "optimize"], results.get((name, "trained"), {}).get("optimize")
            )
            for name in ("resnet152", "lenet5", "tcn")
        }
        assert right == {"resnet152": False, "lenet5": True, "tcn": False}


def test_the_page_in_the_repository_is_what_its_rows_give():
    page = PAGE.read_text()
    assert table(results_of(page), times_of(page)) == page


TIMES = {
    ("resnet18", 1): {
        "processor": "Zen",
        "milliseconds": {
            "weft": 10.0,
            "eager": 40.0,
            "channels-last": 25.0,
            "inductor frozen": 30.0,
        },
    },
    ("gru", 1): {
        "processor": "Zen",
        "milliseconds": {"weft": 1.0, "eager": 1.6, "inductor frozen": 3.0, "inductor tuned": 2.0},
        "ratios": {"eager": 1.5, "inductor frozen": 2.9, "inductor tuned": 2.1},
    },
    ("lstm", 1): {
        "processor": "Xeon",
        "milliseconds": {"weft": 200.0, "eager": 100.0},
        "runs": "PyTorch, contiguous",
    },
    ("lstm", 2): {"error": "exit status -9", "processor": "Xeon"},
}


def test_times_beside_pytorch():
    page = table(RESULTS, TIMES)
    assert results_of(page) == RESULTS
    lines = page.splitlines()
    assert lines[lines.index("### 1 thread") + 4 :] == [
        "| lstm | Xeon | 200 | 100 |  |  |  | 0.50 |  | PyTorch, contiguous |",
        "| gru | Zen | 1.00 | 1.60 |  | 3.00 | 2.00 | 1.50 | 2.10 |  |",
        "| resnet18 | Zen | 10.0 | 40.0 | 25.0 | 30.0 |  | 2.50 | 3.00 |  |",
        "| geometric mean of 1 | Xeon |  |  |  |  |  | 0.50 |  | |",
        "| geometric mean of 2 | Zen |  |  |  |  |  | 1.94 | 2.51 | |",
        "",
        "### 2 threads",
        "",
        lines[lines.index("### 1 thread") + 2],
        lines[lines.index("### 1 thread") + 3],
        "",
        "Not timed: lstm (exit status -9).",
    ]


def test_a_page_gives_the_times_that_it_was_made_of():
    page = table(RESULTS, TIMES)
    found = times_of(page)
    assert found["gru", 1] == {
        "processor": "Zen",
        "milliseconds": TIMES["gru", 1]["milliseconds"],
        "gains": {"eager": 1.5, "inductor": 2.1},
    }
    assert found["lstm", 1]["runs"] == "PyTorch, contiguous"
    assert table(RESULTS, found) + "\n" == page.partition("### 2 threads")[0]
