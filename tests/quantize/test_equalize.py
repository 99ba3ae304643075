"""Cross-layer equalization: the same function, ranges that are alike."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import graph_of
from weft.ir.graph import Graph
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.quantize.equalize import equalized, layer_pairs
from weft.quantize.sites import find_sites

RNG = np.random.default_rng(5)
CHAIN = """(%x: f32[1,3,8,8]) -> (%y) {
    const %w: f32[4,3,3,3]
    const %b: f32[4]
    const %d: f32[4,1,3,3]
    const %e: f32[4]
    const %v: f32[6,2,1,1]
    const %g: f32[6,5]
    %c: f32[1,4,8,8] = Conv(%x, %w, %b) {pads=(1, 1, 1, 1)}
    %r: f32[1,4,8,8] = Relu(%c)
    %m: f32[1,4,4,4] = MaxPool(%r) {kernel=(2, 2), strides=(2, 2)}
    %f: f32[1,4,4,4] = Conv(%m, %d, %e) {groups=4, pads=(1, 1, 1, 1)}
    %q: f32[1,4,4,4] = ACTIVATION
    %h: f32[1,6,4,4] = Conv(%q, %v) {groups=2}
    %p: f32[1,6,1,1] = GlobalAveragePool(%h)
    %s: f32[1,6] = Reshape(%p) {shape=(1, 6)}
    %y: f32[1,5] = Gemm(%s, %g)
}"""


def network(activation: str = "Relu(%f)") -> Graph:
    sizes = 10.0 ** RNG.uniform(-2, 1, 4)
    w = RNG.normal(0, 1, (4, 3, 3, 3)) * sizes[:, None, None, None]
    d = RNG.normal(0, 1, (4, 1, 3, 3)) / sizes[:, None, None, None]
    arrays = {
        "w": w,
        "d": d,
        "v": RNG.normal(0, 1, (6, 2, 1, 1)) * np.array([100, 1])[None, :, None, None],
        "g": RNG.normal(0, 1, (6, 5)) * 10.0 ** RNG.uniform(-2, 1, 6)[:, None],
        "b": RNG.normal(0, 1, 4) * sizes,
        "e": RNG.normal(0, 1, 4),
    }
    text = CHAIN.replace("ACTIVATION", activation)
    return graph_of(text, **{name: a.astype(np.float32) for name, a in arrays.items()})


def spread(weight: np.ndarray) -> float:
    sizes = np.abs(weight).reshape(len(weight), -1).max(axis=1)
    return float(sizes.max() / sizes.min())


def test_the_function_stays_and_ranges_become_alike():
    graph = network()
    found = equalized(graph, find_sites(graph).layers)
    assert found.pairs == (("c", "f"), ("f", "h"), ("h", "y"))
    assert found.largest > 3
    x = {"x": RNG.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)}
    before, after = (evaluate(each, x, OPS)["y"] for each in (graph, found.graph))
    np.testing.assert_allclose(after, before, rtol=2e-4, atol=2e-4 * np.abs(before).max())
    for weight in ("w", "d"):
        assert spread(found.graph.constants[weight]) < spread(graph.constants[weight]) / 3


def test_a_bound_that_is_no_zero_ends_a_pair():
    graph = network("Clip(%f) {min=0.0, max=6.0}")
    layers = find_sites(graph).layers
    names = [(p.first.node.name, p.second.node.name) for p in layer_pairs(graph, layers)]
    assert names == [("c", "f"), ("h", "y")]


def test_a_value_with_two_readers_ends_a_pair():
    graph = graph_of("""(%x: f32[4,3]) -> (%y, %z) {
    const %w: f32[3,5]
    const %v: f32[5,2]
    %z: f32[4,5] = MatMul(%x, %w)
    %y: f32[4,2] = MatMul(%z, %v)
}""")
    found = equalized(graph, find_sites(graph).layers)
    assert found.pairs == ()
    assert found.graph is graph


@pytest.mark.parametrize("transposed", [0, 1])
def test_matrices(transposed):
    shape = "f32[2,5]" if transposed else "f32[5,2]"
    graph = graph_of(
        f"""(%x: f32[4,3]) -> (%y) {{
    const %w: f32[3,5]
    const %b: f32[5]
    const %v: {shape}
    %p: f32[4,5] = MatMul(%x, %w)
    %q: f32[4,5] = Add(%p, %b)
    %r: f32[4,5] = Relu(%q)
    %y: f32[4,2] = Gemm(%r, %v) {{transB={transposed}}}
}}""",
        w=(RNG.normal(0, 1, (3, 5)) * [100, 1, 0.1, 5, 0]).astype(np.float32),
    )
    found = equalized(graph, find_sites(graph).layers)
    assert found.pairs == (("p", "y"),)
    x = {"x": RNG.normal(0, 1, (4, 3)).astype(np.float32)}
    before, after = (evaluate(each, x, OPS)["y"] for each in (graph, found.graph))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * np.abs(before).max())
