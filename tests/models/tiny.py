"""The MLPerf Tiny models, which lie beside the repository and are not part of it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

_BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "models"
FOLDER = Path(os.environ.get("WEFT_MODELS") or _BESIDE) / "tiny"
NAMES = ("ad", "ic", "kws", "vww")

needed = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the MLPerf Tiny models are not at {FOLDER} (or $WEFT_MODELS/tiny)"
)


def model(name: str, kind: str = "float") -> Path:
    """The ONNX file of a model; ``kind`` is float or int8."""
    return FOLDER / f"{name}_{kind}.onnx"


def golden(name: str, kind: str = "float") -> tuple[np.ndarray, np.ndarray]:
    """Eight inputs and TFLite's outputs, each with a leading axis of eight."""
    with np.load(FOLDER / f"{name}_{kind}_golden.npz") as arrays:
        return arrays["x"], arrays["y"]
