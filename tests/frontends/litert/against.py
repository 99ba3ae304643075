"""A file through Weft and through LiteRT's interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from weft.frontends.litert.loading import Imported, import_model
from weft.frontends.litert.reading import parse
from weft.frontends.litert.session import opened
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS

interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is missing")


def by_litert(
    content: bytes, inputs: list[np.ndarray], runs: int = 1, reference: bool = True
) -> list[np.ndarray]:
    """The outputs of the last of several runs on the same inputs."""
    found = opened(content, reference)
    details = found.get_input_details()
    for each, array in zip(details, inputs, strict=True):
        if tuple(each["shape"]) != array.shape:
            found.resize_tensor_input(each["index"], array.shape)
    found.allocate_tensors()
    for _ in range(runs):
        for each, array in zip(details, inputs, strict=True):
            found.set_tensor(each["index"], array)
        found.invoke()
    return [np.array(found.get_tensor(each["index"])) for each in found.get_output_details()]


def imported(content: bytes) -> Imported:
    """The graph of a file."""
    return import_model(parse(content))


def by_weft(made: Imported, inputs: list[np.ndarray], runs: int = 1) -> list[np.ndarray]:
    """The same by the references of the graph's ops; states begin as zeros."""
    graph = made.graph
    state = {
        name: np.zeros(graph.types[name].dims, graph.types[name].dtype.numpy)
        for name in made.states
    }
    given = dict(zip((name for name in graph.inputs if name not in state), inputs, strict=True))
    found = {}
    for _ in range(runs):
        found = evaluate(graph, {**given, **state}, OPS)
        state = {name: found[output] for name, output in made.states.items()}
    return [found[name] for name in graph.outputs if name not in made.states.values()]


def check(
    found: list[np.ndarray], expected: list[np.ndarray], steps: float, tolerance: float
) -> None:
    """Fails where outputs differ by more than is allowed; those that are no numbers by nothing."""
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == theirs.shape
        assert mine.dtype == theirs.dtype
        if mine.dtype.kind == "f":
            finite = theirs[np.isfinite(theirs)]
            span = float(np.abs(finite).max()) if finite.size else 1.0
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * max(span, 1e-6))
        elif mine.size:
            difference = np.abs(mine.astype(np.int64) - theirs.astype(np.int64)).max()
            assert difference <= steps, f"{difference} steps"
