"""Graphs of Keras files against Keras itself, value by value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from weft.frontends.keras import Session, has_keras
from weft.ir.graph import Graph
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS

needs_keras = pytest.mark.skipif(not has_keras(), reason="Keras and a backend are not installed")


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """An array for each input: normal, or small whole numbers."""
    random = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for name in graph.inputs:
        type = graph.types[name]
        if type.dtype.is_float:
            found[name] = random.standard_normal(type.dims).astype(type.dtype.numpy)
        else:
            found[name] = random.integers(0, 5, type.dims).astype(type.dtype.numpy)
    return found


def difference(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the range of what is expected."""
    assert got.shape == expected.shape, (got.shape, expected.shape)
    if not got.size:
        return 0.0
    wide = expected.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    scale = max(float(np.ptp(finite)) if finite.size else 0.0, float(np.abs(finite).max(initial=0)))
    with np.errstate(invalid="ignore"):
        away = np.where(got == expected, 0.0, np.abs(got.astype(np.float64) - wide))
    return float(away.max()) / max(scale, 1e-6)


def compared(
    source: object, graph: Graph, inputs: Mapping[str, np.ndarray] | None = None
) -> dict[str, float]:
    """The difference of every value that Keras has, too; by name."""
    given = dict(inputs) if inputs is not None else random_inputs(graph)
    ours = evaluate(graph, given, OPS, keep=True)
    theirs = Session(Path(source) if isinstance(source, str) else source)(given)
    missing = [name for name in graph.outputs if name not in theirs]
    assert not missing, f"Keras has no {missing}, only {list(theirs)}"
    return {name: difference(ours[name], value) for name, value in theirs.items() if name in ours}
