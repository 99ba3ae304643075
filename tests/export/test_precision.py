"""The self-test of C that stores values in less than float32 allows for what that rounds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import weft
from tests.turns import a_few

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.mark.parametrize("precision", a_few(["float32", "bfloat16", "float16"]))
def test_toolkits_pass_their_own_tests(precision: str, tmp_path: Path):
    weft.load(DIGITS).export(tmp_path / "kit", precision=precision)
    done = subprocess.run(
        ["make", "-C", str(tmp_path / "kit"), "test"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ok" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
