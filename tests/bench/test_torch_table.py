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


RESULTS = {
    ("lstm", "optimize"): result("Zen", 5e-8, 2.0),
    ("lstm", "compile"): result("Zen", 0.0, 0.5, zeros=2, lstm=1),
    ("gru", "optimize"): result("Zen", 2e-7, 8.0),
    ("gru", "compile"): {"status": "error", "processor": "Zen", "error": "ValueError: 1 < 2"},
    ("resnet152", "optimize"): result("Xeon", 1.4e-4, 3.0),
}


def test_a_page_gives_the_results_that_it_was_made_of():
    page = table(RESULTS)
    assert results_of(page) == RESULTS
    more = {**RESULTS, ("gru", "optimize"): result("Zen", 2.345e-7, 8.00499)}
    assert table(results_of(table(more))) == table(more) == page


def test_speeds_of_different_processors_are_not_averaged():
    page = table(RESULTS)
    assert "| speed, Xeon | speed, Zen |" in page
    assert "| sequences and others | `weft.optimize` | 2 | 2 | 0 | 0 |  | 4.00 |" in page
    assert '| all | `torch.compile(backend="weft")` | 2 | 0 | 1 | 1 |  | 0.50 |' in page


def test_results_that_are_too_far_off_are_so_on_the_page():
    far = ("resnet152", "optimize")
    assert not well(RESULTS[far])
    assert not well(results_of(table(RESULTS))[far])


def test_the_page_in_the_repository_is_what_its_rows_give():
    page = PAGE.read_text()
    assert table(results_of(page), times_of(page)) == page


def test_times_beside_inductor():
    times = {
        "resnet18": {
            "processor": "Zen",
            "milliseconds": {
                "weft": 10.0,
                "eager": 40.0,
                "channels-last": 25.0,
                "inductor frozen": 30.0,
            },
        },
        "gru": {
            "processor": "Zen",
            "milliseconds": {
                "weft": 1.0,
                "eager": 1.6,
                "inductor frozen": 3.0,
                "inductor tuned": 2.0,
            },
        },
        "lstm": {"processor": "Xeon", "milliseconds": {"weft": 200.0, "eager": 100.0}},
    }
    page = table(RESULTS, times)
    assert results_of(page) == RESULTS
    assert times_of(page) == times
    assert page.partition("## Beside Inductor")[2].splitlines()[-5:] == [
        "| lstm | Xeon | 200 | 100 |  |  |  | 0.50 |  |",
        "| gru | Zen | 1.00 | 1.60 |  | 3.00 | 2.00 | 1.60 | 2.00 |",
        "| resnet18 | Zen | 10.0 | 40.0 | 25.0 | 30.0 |  | 2.50 | 3.00 |",
        "| geometric mean of 1 | Xeon |  |  |  |  |  | 0.50 |  |",
        "| geometric mean of 2 | Zen |  |  |  |  |  | 2.00 | 2.45 |",
    ]
