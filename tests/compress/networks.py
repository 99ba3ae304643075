"""Small networks that the tests of compression share, and how they are run."""

from __future__ import annotations

import numpy as np

from tests.rewrite.checks import infer
from weft.api import Net
from weft.ir.compose import symbols
from weft.ir.graph import Graph
from weft.ir.verify import verify


def samples(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Normal random inputs; an open batch is 2."""
    rng = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    for name in graph.inputs:
        type = graph.types[name]
        dims = tuple(dim if isinstance(dim, int) else 2 for dim in type.shape)
        found.append(rng.normal(0, 1, dims).astype(type.dtype.numpy))
    return found


def assert_compiled(graph: Graph, atol: float = 1e-5) -> None:
    """The compiled C gives what the references give."""
    verify(graph, infer)
    inputs = samples(graph)
    net = Net(graph).bound(2) if symbols(graph) else Net(graph)
    found = net.compile()(*inputs)
    found = found if isinstance(found, tuple) else (found,)
    for one, expected in zip(found, net.reference(*inputs), strict=True):
        span = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
        np.testing.assert_allclose(one / span, expected / span, atol=atol)
