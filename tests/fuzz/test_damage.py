"""A damaged cache: every run is right or rebuilds.

A process of its own forks, for this one may have threads.
"""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.thorough
@pytest.mark.parametrize(
    "count",
    [20, pytest.param(1000, marks=pytest.mark.slow)],
)
def test_damages(count: int) -> None:
    command = [sys.executable, "-m", "tests.fuzz.damage", "--count", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{count} damages: ")
    assert "rebuilt" in done.stdout
    assert "right" in done.stdout
