"""Small trained networks: the digit reader of the examples, and the MLPerf Tiny models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models import tiny

_DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


def path_of(name: str) -> Path:
    """The ONNX file of ``digits``, or of a name such as ``ic_int8``."""
    return _DIGITS if name == "digits" else tiny.FOLDER / f"{name}.onnx"


def every() -> list[object]:
    """The names, as parameters of a test: absent files are skipped, larger networks are slow.

    `make test` tries the digit reader and one network of integers only.
    """
    parameters: list[object] = ["digits"]
    for name in tiny.NAMES:
        marks = [tiny.needed, pytest.mark.slow] if name in ("ic", "vww") else [tiny.needed]
        parameters.append(pytest.param(f"{name}_float", marks=[*marks, pytest.mark.thorough]))
        late = [pytest.mark.thorough] if name == "kws" else []
        parameters.append(pytest.param(f"{name}_int8", marks=[*marks, *late]))
    return parameters
