"""Products of two quantized values as ops of integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import graph_of, infer
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.rewrite.engine import rewrite
from weft.rewrite.quantized_values import PRODUCTS
from weft.rewrite.rule import Exactness

RNG = np.random.default_rng(3)
PRODUCT = """(%x: i8[2,3,4], %b: u8[2,4,5]) -> (%y) {
    const %xs: f32[]
    const %xz: i8[]
    const %bs: f32[1]
    const %ys: f32[]
    const %yz: i8[]
    %xd: f32[2,3,4] = DequantizeLinear(%x, %xs, %xz)
    %bd: f32[2,4,5] = DequantizeLinear(%b, %bs)
    %c: f32[2,3,5] = MatMul(%xd, %bd)
    ACTIVATION
    %y: i8[2,3,5] = QuantizeLinear(%r, %ys, %yz)
}"""
SCALES = {
    "xs": np.array(0.05, np.float32),
    "xz": np.array(3, np.int8),
    "bs": np.array([0.02], np.float32),
    "ys": np.array(0.2, np.float32),
    "yz": np.array(-100, np.int8),
}


def of(text: str, **changed: np.ndarray) -> Graph:
    given = {name: array for name, array in {**SCALES, **changed}.items() if f"%{name}:" in text}
    return graph_of(text, **given)


def product(activation: str = "", **changed: np.ndarray) -> Graph:
    text = PRODUCT.replace("ACTIVATION", activation)
    return of(text if activation else text.replace("%r", "%c"), **changed)


def differences(graph: Graph, rules) -> tuple[Graph, np.ndarray]:
    done, _ = rewrite(graph, rules, allow=Exactness.APPROXIMATE)
    verify(done, infer)
    inputs = {}
    for name in graph.inputs:
        type = graph.types[name]
        low, high = type.dtype.limits
        inputs[name] = RNG.integers(low, high + 1, type.dims).astype(type.dtype.numpy)
    before, after = (evaluate(each, inputs, OPS)["y"] for each in (graph, done))
    assert len(np.unique(before)) > 5
    return done, np.abs(before.astype(int) - after.astype(int))


@pytest.mark.parametrize(
    ("activation", "ops"),
    [
        ("", ["QLinearMatMul"]),
        ("%r: f32[2,3,5] = Relu(%c)", ["QLinearMatMul", "Clip"]),
        ("%r: f32[2,3,5] = Clip(%c) {min=-5.0, max=9.0}", ["QLinearMatMul", "Clip"]),
    ],
)
def test_a_product(activation, ops):
    done, found = differences(product(activation), PRODUCTS)
    assert [node.op for node in done.nodes] == ops
    assert found.max() <= 1


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"bs": np.full(5, 0.02, np.float32)}, "there are several scales"),
    ],
)
def test_a_product_that_is_none(changed, why):
    text = PRODUCT.replace("ACTIVATION", "").replace("%r", "%c")
    text = text.replace("%bs: f32[1]", "%bs: f32[5]").replace("(%b, %bs)", "(%b, %bs) {axis=2}")
    graph = of(text, **changed)
    done, log = rewrite(graph, PRODUCTS, allow=Exactness.APPROXIMATE)
    assert [node.op for node in done.nodes] == [node.op for node in graph.nodes]
    assert {each.reason for each in log.refused} == {why}
