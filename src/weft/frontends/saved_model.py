"""TensorFlow SavedModels to graphs: TensorFlow, where it is installed, converts them to LiteRT.

It does so in a process of its own, as it takes seconds to import and much memory to run.  A
SavedModel is a program for TensorFlow: one that nobody trusts should not be converted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from weft.deferred import installed
from weft.errors import UserError
from weft.frontends import litert
from weft.ir.graph import Graph

SAVED_MODEL = "saved_model.pb"
_SECONDS = 900
_CONVERT = """
import sys
import tensorflow
converter = tensorflow.lite.TFLiteConverter.from_saved_model(sys.argv[1])
with open(sys.argv[2], "wb") as file:
    file.write(converter.convert())
"""


def is_saved_model(path: Path) -> bool:
    """Whether a path is the folder of a SavedModel, or the graph's file in it."""
    return (path / SAVED_MODEL).is_file() or (path.name == SAVED_MODEL and path.is_file())


def has_tensorflow() -> bool:
    """Whether SavedModels can be converted."""
    return installed("tensorflow")


def load(
    path: Path, inputs: Mapping[str, tuple[int, ...]], constants: Mapping[str, np.ndarray]
) -> Graph:
    """The graph of a SavedModel's default signature.

    Args:
        path: its folder, or the file in it.
        inputs: shapes of graph inputs.
        constants: values of graph inputs.

    Raises:
        UserError: TensorFlow cannot convert it, or it has operators that Weft does not import.
    """
    folder = path.parent if path.name == SAVED_MODEL else path
    with tempfile.TemporaryDirectory(prefix="weft-") as made:
        file = Path(made) / f"{folder.resolve().name}.tflite"
        _convert(folder, file)
        return litert.load(file, inputs, constants)


def _convert(folder: Path, file: Path) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CONVERT, str(folder.absolute()), str(file)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"TensorFlow must convert a SavedModel in {_SECONDS} seconds", got=str(folder)
        ) from None
    if done.returncode != 0 or not file.is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise UserError(
            "TensorFlow must be able to convert a SavedModel to LiteRT",
            got=lines[-1].strip() if lines else f"exit code {done.returncode}",
            where=str(folder),
        )
