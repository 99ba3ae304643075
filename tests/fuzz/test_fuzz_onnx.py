"""A sample of the fuzzer; `make fuzz` runs it for minutes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.mutate import MUTATIONS, mutated
from tests.fuzz.seeds import seed_models
from tests.fuzz.survive import survive


@pytest.fixture(scope="module")
def models() -> list[tuple[str, bytes]]:
    return list(seed_models())


STARTS = range(0, 800, 100)


@pytest.mark.parametrize(
    "start",
    [pytest.param(n, marks=pytest.mark.thorough if n >= 400 else ()) for n in STARTS],
)
def test_damaged_files(models: list[tuple[str, bytes]], tmp_path: Path, start: int) -> None:
    path = tmp_path / "model.onnx"
    outcomes: set[str] = set()
    for seed in range(start, start + 100):
        generator = random.Random(seed)
        _, data = generator.choice(models)
        path.write_bytes(mutated(data, generator))
        outcomes.add(survive(path))
    assert outcomes == {"refused", "imported"}


def test_sound_files_are_imported(models: list[tuple[str, bytes]], tmp_path: Path) -> None:
    """Otherwise the damage would be tested for nothing."""
    path = tmp_path / "model.onnx"
    outcomes: list[str] = []
    for _, data in models:
        path.write_bytes(data)
        outcomes.append(survive(path))
    assert outcomes.count("imported") > 0.75 * len(models)
    assert len(MUTATIONS) > 15
