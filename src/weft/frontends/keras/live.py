# pyright: basic
"""Models of Keras in memory: they take the same way as their files."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import UserError, named
from weft.frontends.keras.importer import load
from weft.ir.graph import Graph


def is_model(found: object) -> bool:
    """Whether an object is a model of Keras 3, without importing Keras."""
    bases = type(found).__mro__
    return any(
        each.__module__.startswith("keras.") and each.__name__ == "Model" for each in bases
    ) and hasattr(found, "save")


def load_live(
    model: Any,
    inputs: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Graph:
    """The graph of a model.

    Args:
        model: ``keras.Model``, built.
        inputs: as for files.
        constants: as for files.
    """
    name = "".join(each if each.isalnum() else "_" for each in str(model.name)) or "model"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.keras"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.save(path)
        except Exception as error:
            # Whatever its layers raise.
            raise UserError("Keras cannot save the model", got=named(error)) from error
        return load(path, inputs, constants)
