"""Layers of integers: which are recognized, what becomes of activations, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import graph_of, nodes_of
from weft.ir.graph import Graph
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.recipes import apply
from weft.rewrite.engine import rewrite
from weft.rewrite.quantized import RULES
from weft.rewrite.rule import Exactness

RNG = np.random.default_rng(7)
XS, WS, YS = np.float32(0.05), np.array([0.01, 0.02, 0.015], np.float32), np.float32(0.0403)
"""No multiple of half of ``YS`` is one of ``XS * WS``, so there are no ties to round."""
CONV = """(%x: i8[2,4,5,5]) -> (%y) {
    const %xs: f32[]
    const %xz: i8[]
    const %w: i8[3,4,3,3]
    const %ws: f32[3]
    const %b: i32[3]
    const %bs: f32[3]
    const %ys: f32[]
    const %yz: i8[]
    %xd: f32[2,4,5,5] = DequantizeLinear(%x, %xs, %xz)
    %wd: f32[3,4,3,3] = DequantizeLinear(%w, %ws) {axis=0}
    %bd: f32[3] = DequantizeLinear(%b, %bs) {axis=0}
    %c: f32[2,3,5,5] = Conv(%xd, %wd, %bd) {pads=(1, 1, 1, 1)}
    ACTIVATION
    %y: i8[2,3,5,5] = QuantizeLinear(%r, %ys, %yz)
}"""
RELU = "%r: f32[2,3,5,5] = Relu(%c)"
PRODUCT = """(%x: u8[6,4]) -> (%y) {
    const %xs: f32[]
    const %w: i8[4,3]
    const %ws: f32[3]
    const %b: i32[3]
    const %bs: f32[3]
    const %ys: f32[]
    const %yz: u8[]
    %xd: f32[6,4] = DequantizeLinear(%x, %xs)
    %wd: f32[4,3] = DequantizeLinear(%w, %ws) {axis=1}
    %bd: f32[3] = DequantizeLinear(%b, %bs) {axis=0}
    LAYER
    %y: u8[6,3] = QuantizeLinear(%c, %ys, %yz)
}"""


def constants(zero: int = -128, dtype: type = np.int8) -> dict[str, np.ndarray]:
    return {
        "xs": np.array(XS),
        "xz": np.array(3, np.int8),
        "ws": WS,
        "w": RNG.integers(-127, 128, (3, 4, 3, 3)).astype(np.int8),
        "b": RNG.integers(-900, 900, 3).astype(np.int32),
        "bs": XS * WS,
        "ys": np.array(YS),
        "yz": np.array(zero, dtype),
    }


def of_product(layer: str, weights: tuple[int, ...] = (4, 3)) -> Graph:
    text = PRODUCT.replace("LAYER", layer)
    if weights != (4, 3):
        text = text.replace("[4,3]", "[3,4]").replace("{axis=1}", "{axis=0}")
    given = {**constants(100, np.uint8), "ys": np.array(0.3, np.float32)}
    del given["xz"]
    return graph_of(text, **{**given, "w": RNG.integers(-127, 128, weights).astype(np.int8)})


def compared(graph: Graph) -> Graph:
    """The graph after the rules; its outputs are those of the floats, or a step from them."""
    done, _ = rewrite(graph, RULES, allow=Exactness.APPROXIMATE)
    type = graph.types["x"]
    low, high = type.dtype.limits
    x = RNG.integers(int(low), int(high) + 1, type.dims).astype(type.dtype.numpy)
    before, after = (evaluate(each, {"x": x}, OPS)["y"] for each in (graph, done))
    assert before.dtype == after.dtype
    assert len(np.unique(before)) > 10
    difference = np.abs(before.astype(int) - after.astype(int))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.02
    return done


def ops_of(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def conv(activation: str, **changed: np.ndarray) -> Graph:
    text = CONV.replace("ACTIVATION", activation)
    return graph_of(text if activation else text.replace("%r", "%c"), **{**constants(), **changed})


def test_an_activation_that_saturates_where_the_type_does_is_no_op() -> None:
    assert ops_of(compared(conv(RELU))) == ["QLinearConv"]


def test_no_activation_and_a_zero_point_amid_the_type() -> None:
    assert ops_of(compared(conv("", yz=np.array(5, np.int8)))) == ["QLinearConv"]


@pytest.mark.parametrize(
    ("activation", "bounds"),
    [
        (RELU, "{min=-20, max=127}"),
        ("%r: f32[2,3,5,5] = Clip(%c) {min=-0.5, max=2.0}", "{min=-32, max=30}"),
        ("%r: f32[2,3,5,5] = Clip(%c) {max=2.0}", "{min=-128, max=30}"),
    ],
)
def test_other_bounds_are_bounds_in_steps(activation: str, bounds: str) -> None:
    done = compared(conv(activation, yz=np.array(-20, np.int8)))
    assert ops_of(done) == ["QLinearConv", "Clip"]
    assert nodes_of(done)[-1].endswith(bounds)


@pytest.mark.parametrize(
    ("layer", "weights"),
    [
        ("%p: f32[6,3] = MatMul(%xd, %wd)\n%c: f32[6,3] = Add(%p, %bd)", (4, 3)),
        ("%p: f32[6,3] = MatMul(%xd, %wd)\n%c: f32[6,3] = Add(%bd, %p)", (4, 3)),
        ("%c: f32[6,3] = MatMul(%xd, %wd)", (4, 3)),
        ("%c: f32[6,3] = Gemm(%xd, %wd, %bd)", (4, 3)),
        ("%c: f32[6,3] = Gemm(%xd, %wd, %bd) {transB=1}", (3, 4)),
    ],
)
def test_products_are_convolutions_of_one_pixel(layer: str, weights: tuple[int, ...]) -> None:
    done = compared(of_product(layer, weights))
    assert ops_of(done) == ["Reshape", "QLinearConv", "Reshape"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"bs": XS * WS * np.float32(1.01)}, "the bias has a scale of its own"),
        ({"xs": np.array([0.05, 0.06, 0.07, 0.08], np.float32)}, "an activation has several"),
    ],
)
def test_refusals(changed: dict[str, np.ndarray], reason: str) -> None:
    text = CONV.replace("ACTIVATION", RELU)
    if "xs" in changed:
        text = text.replace("%xs: f32[]", "%xs: f32[4]").replace("%xz: i8[]", "%xz: i8[4]")
        changed = {**changed, "xz": np.zeros(4, np.int8)}
    graph = graph_of(text, **{**constants(), **changed})
    done, log = rewrite(graph, RULES, allow=Exactness.APPROXIMATE)
    assert done is graph
    assert any(reason in str(each) for each in log.refused), [str(each) for each in log.refused]


def test_a_scaled_product_is_refused() -> None:
    graph = of_product("%c: f32[6,3] = Gemm(%xd, %wd, %bd) {alpha=0.5}")
    done, log = rewrite(graph, RULES, allow=Exactness.APPROXIMATE)
    assert done is graph
    assert [each.reason for each in log.refused] == ["the product is scaled or transposed"]


def test_a_sum_that_something_else_reads_stays() -> None:
    text = CONV.replace("ACTIVATION", RELU).replace("-> (%y)", "-> (%y, %c)")
    assert rewrite(graph_of(text, **constants()), RULES, allow=Exactness.APPROXIMATE)[1].fired == ()


@pytest.mark.parametrize(
    ("scale", "ops"),
    [(0.05, ["MaxPool", "Transpose"]), (0.06, ["DequantizeLinear", "MaxPool", "QuantizeLinear"])],
)
def test_elements_of_the_same_scale_are_moved_as_integers(scale: float, ops: list[str]) -> None:
    graph = graph_of(
        """(%x: i8[1,2,4,4]) -> (%y) {
            const %xs: f32[]
            const %xz: i8[]
            const %ys: f32[]
            const %yz: i8[]
            %d: f32[1,2,4,4] = DequantizeLinear(%x, %xs, %xz)
            %m: f32[1,2,2,2] = MaxPool(%d) {kernel=(2, 2), strides=(2, 2)}
            %q: i8[1,2,2,2] = QuantizeLinear(%m, %ys, %yz)
            %e: f32[1,2,2,2] = DequantizeLinear(%q, %ys, %yz)
            %t: f32[1,2,2,2] = Transpose(%e) {perm=(0, 2, 3, 1)}
            %y: i8[1,2,2,2] = QuantizeLinear(%t, %ys, %yz)
        }""",
        xs=np.array(XS),
        xz=np.array(3, np.int8),
        ys=np.array(scale, np.float32),
        yz=np.array(3, np.int8),
    )
    done = apply(graph, "integers")
    assert ops_of(done)[: len(ops)] == ops
    x = RNG.integers(-128, 128, (1, 2, 4, 4)).astype(np.int8)
    before, after = (evaluate(each, {"x": x}, OPS)["y"] for each in (graph, done))
    np.testing.assert_array_equal(before, after)
