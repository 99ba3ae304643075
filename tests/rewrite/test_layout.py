"""The logical layout of images: channels last, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.plan.nets import Net as HandMade
from tests.plan.nets import nets
from tests.rewrite.checks import assert_same, graph_of, infer, nodes_of
from tests.turns import examples
from weft.api import Net
from weft.frontends.onnx import import_model, write
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.recipes import apply
from weft.rewrite.rule import Exactness


def count(graph: Graph, op: str) -> int:
    return sum(node.op == op for node in graph.nodes)


def network() -> tuple[HandMade, Graph]:
    """Residual blocks, ReLU6, a joined branch, squeeze and excitation, a classifier."""
    net = HandMade(5)
    x = net.input(2, 3, 9, 8)
    a = net.op("Clip", net.conv(x, 8, 3, stride=2), min=0.0, max=6.0)
    b = net.op("Relu", net.op("Add", net.conv(a, 8, 3, groups=8), a))
    c = net.op(
        "Concat", b, net.op("MaxPool", a, kernel=(3, 3), strides=(1, 1), pads=(1,) * 4), axis=1
    )
    d = net.op("Mul", c, net.constant(16, 1, 1))
    e = net.op("Mul", d, net.op("Sigmoid", net.conv(net.op("GlobalAveragePool", d), 16, 1)))
    f = net.op(
        "Slice", net.op("Pad", e, pads=(0, 0, 1, 0, 0, 0, 0, 1)), starts=(2,), ends=(9,), axes=(1,)
    )
    m = net.op("ReduceMean", f, axes=(2, 3), keepdims=1)
    y = net.dense(net.op("Flatten", m), 5)
    return net, net.graph(y, b)


def test_transposes_stand_at_the_borders():
    net, graph = network()
    done = apply(graph, "channels-last")
    verify(done, infer)
    assert count(done, "ConvChannelsLast") == 3
    assert not {"Conv", "MaxPool", "GlobalAveragePool"} & {node.op for node in done.nodes}
    # The input, the output in the middle, and what is flattened.
    assert count(done, "Transpose") == 3
    expected, found = (evaluate(each, net.arrays, OPS) for each in (graph, done))
    for value, array in expected.items():
        np.testing.assert_allclose(found[value], array, rtol=1e-4, atol=1e-6)


def test_there_and_back():
    net, graph = network()
    last = apply(graph, "channels-last")
    done = apply(last, "channels-first")
    verify(done, infer)
    assert [node.op for node in done.nodes] == [node.op for node in graph.nodes]
    expected, found = (evaluate(each, net.arrays, OPS) for each in (graph, done))
    for value, array in expected.items():
        np.testing.assert_allclose(found[value], array, rtol=1e-4, atol=1e-6)
    assert apply(done, "channels-first") is done


def test_compiled():
    net, graph = network()
    (x,) = net.arrays.values()
    last = Net(graph).apply("channels-last")
    expected = Net(graph).compile(plain=True)(x)
    for found, array in zip(last.compile(plain=True)(x), expected, strict=True):
        np.testing.assert_array_equal(found, array)
    for found, array in zip(last.compile()(x), expected, strict=True):
        np.testing.assert_allclose(found, array, atol=1e-4)


def test_transposes_that_were_there_go():
    graph = graph_of("""(%x: f32[1,8,8,3]) -> (%y) {
      const %w: f32[4,3,3,3]
      %a: f32[1,3,8,8] = Transpose(%x) {perm=(0, 3, 1, 2)}
      %c: f32[1,4,6,6] = Conv(%a, %w)
      %r: f32[1,4,6,6] = Relu(%c)
      %y: f32[1,6,6,4] = Transpose(%r) {perm=(0, 2, 3, 1)}
    }""")
    done = apply(graph, "channels-last")
    assert [node.op for node in done.nodes] == ["ConvChannelsLast", "Relu"], nodes_of(done)
    assert_same(graph, done, Exactness.BIT_EXACT)


def test_scales_by_channel_follow():
    graph = graph_of(
        """(%x: f32[1,3,4,4]) -> (%y) {
          const %s: f32[3] = [0.5, 0.25, 0.125]
          const %z: i8[3] = [1, 2, 3]
          %p: f32[1,3,4,4] = AveragePool(%x) {kernel=(1, 1)}
          %q: i8[1,3,4,4] = QuantizeLinear(%p, %s, %z) {axis=1}
          %d: f32[1,3,4,4] = DequantizeLinear(%q, %s) {axis=1}
          %y: f32[1,3,4,4] = AveragePool(%d) {kernel=(1, 1)}
        }"""
    )
    done = apply(graph, "channels-last")
    assert [node.attributes.axis for node in done.nodes if node.op.endswith("Linear")] == [3, 3]
    assert_same(graph, done, Exactness.BIT_EXACT)


def test_nothing_to_do():
    graph = graph_of("(%x: f32[2,3]) -> (%y) {\n%y: f32[2,3] = Relu(%x)\n}")
    assert apply(graph, "channels-last") is graph
    assert apply(graph, "channels-first") is graph


@settings(max_examples=examples(60), deadline=None)
@given(case=nets(10))
def test_random_networks(case):
    graph, arrays = case
    last = apply(graph, "channels-last")
    first = apply(last, "channels-first")
    expected = evaluate(graph, arrays, OPS)
    for done in (last, first):
        verify(done, infer)
        found = evaluate(done, arrays, OPS)
        for value, array in expected.items():
            np.testing.assert_allclose(found[value], array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["ConvChannelsLast", "MaxPoolChannelsLast"])
def test_onnx_files_hold_them(op):
    _, graph = network()
    last = apply(graph, "channels-last")
    again = import_model(write(last))
    assert count(again, op) == count(last, op) > 0


def test_what_is_element_wise_in_one_layout_only_stays_there():
    """Reshaping to the same shape, expanding by nothing, taking the first of the channels."""
    conv = "{kernel=(1,1), strides=(1,1), dilations=(1,1), pads=(0,0,0,0)}"
    graph = graph_of(
        f"""(%x: f32[1,3,3,3], %y: f32[1,2,1,1]) -> (%first, %same, %wide) {{
            const %w: f32[3,3,1,1] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
            const %v: f32[2,2,1,1] = [1.0, 2.0, 3.0, 4.0]
            %a: f32[1,3,3,3] = Conv(%x, %w) {conv}
            %first: f32[1,1,3,3] = Slice(%a) {{starts=(0,), ends=(1,), axes=(1,)}}
            %b: f32[1,2,1,1] = Conv(%y, %v) {conv}
            %same: f32[1,2,1,1] = Reshape(%b) {{shape=(1,2,1,1)}}
            %wide: f32[1,2,1,1] = Expand(%b) {{shape=(1,2,1,1)}}
        }}"""
    )
    last = apply(graph, "channels-last")
    assert count(last, "ConvChannelsLast") == 2
    assert_same(graph, last, Exactness.BIT_EXACT)
    assert_same(graph, apply(last, "channels-first"), Exactness.BIT_EXACT)
