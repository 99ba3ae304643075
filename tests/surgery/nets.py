"""Small networks for surgery."""

from __future__ import annotations

import numpy as np

import weft
from weft import layers
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.evaluate import call_of, evaluate
from weft.ops.table import OPS


def check(graph: Graph) -> None:
    """The graph is sound and its types are what its ops give."""
    verify(graph, lambda node, graph: OPS[node.op].infer(call_of(node, graph.types)))


def run(graph: Graph, *arrays: np.ndarray) -> list[np.ndarray]:
    found = evaluate(graph, dict(zip(graph.inputs, arrays, strict=True)), OPS)
    return [found[name] for name in graph.outputs]


def image(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def block(batch: int | str = 1, size: int = 8) -> weft.Net:
    """``x -> conv -> relu -> conv2 -> sum (with relu) -> tail``, outputs ``y`` and ``early``."""
    x = weft.input("x", f"f32[{batch},3,{size},{size}]")
    conv = layers.Conv(4, 3, padding=1, name="conv")(x).named("c")
    relu = weft.ops.relu(conv, name="relu").named("r")
    second = layers.Conv(4, 3, padding=1, name="conv2")(relu).named("s")
    total = weft.ops.add(second, relu, name="sum").named("t")
    tail = weft.ops.sigmoid(total, name="tail").named("y")
    return weft.net([x], [tail, weft.ops.tanh(relu, name="side").named("early")], seed=2)
