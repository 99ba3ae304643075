"""``weft compare``: a table, the topologies, JSON, a plot."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import weft
from weft.api import load


@pytest.fixture(scope="module")
def pair(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model, and the same after the rules."""
    simple = tmp_path_factory.mktemp("model") / "simple.weft"
    load(digits).simplified().save(simple)
    return digits, simple


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "images.npz"
    random = np.random.default_rng(0)
    images = random.random((5, 1, 8, 8)).astype(np.float32)
    np.savez(path, image=images, labels=random.integers(0, 10, 5))
    return path


def test_a_table_and_the_topologies(pair: tuple[Path, Path]):
    result = weft("compare", *pair, "--no-run")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["nodes", "MACs", "parameters", "peak", "arena", "flash"]
    assert lines[1].split()[:3] == ["digits", "17", "90,624"]
    assert lines[2].split()[:3] == ["simple", "14", "90,624"]
    assert lines[4].split() == ["op", "digits", "simple"]
    assert ["BatchNormalization", "4"] in [line.split() for line in lines]
    assert lines[-1].startswith("simple against digits: 2 nodes added, 5 removed, ")


def test_json_and_a_plot(pair: tuple[Path, Path], data: Path, tmp_path: Path):
    svg = tmp_path / "front.svg"
    result = weft("compare", *pair, "--data", data, "--seconds", 0.05, "--svg", svg, "--json")
    assert result.exit_code == 0, result.output
    first, second = json.loads(result.stdout)["variants"]
    assert first["timing"]["median"] > 0
    assert first["quality"]["samples"] == 5
    assert first["quality"]["accuracy"] == second["quality"]["accuracy"]
    assert second["quality"]["relative"] < 1e-5
    assert "accuracy against latency" in svg.read_text(encoding="utf-8")


def test_a_plot_needs_runs(pair: tuple[Path, Path], tmp_path: Path):
    result = weft("compare", *pair, "--no-run", "--svg", tmp_path / "plot.svg")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: a plot needs the cost and the quality of the networks\n"
        "  got: no outputs of digits\n  fix: Run the networks\n"
    )
