"""The ways to run an imported test."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from tests.conformance.check import Backend, Net, reference
from weft.api import Net as WeftNet
from weft.ir.graph import Graph


def compiled(graph: Graph) -> Net:
    """Runs a graph as C that is built for this machine."""
    names = graph.outputs
    net = WeftNet(graph).compile()

    def run(inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        arrays = [np.asarray(inputs[name], order="C") for name in graph.inputs]
        return dict(zip(names, net.library(*arrays), strict=True))

    return run


BACKENDS: Mapping[str, Backend] = MappingProxyType({"compiled": compiled, "reference": reference})
