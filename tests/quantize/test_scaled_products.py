"""Numbers that attention multiplies its scores by become part of the weights."""

from __future__ import annotations

import numpy as np

from tests.rewrite.checks import graph_of, infer
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.quantize.scaled_products import with_scales_in_weights

SCORES = """(%x: f32[4,6], %k: f32[2,3,4]) -> (%y) {
    const %w: f32[6,6]
    const %b: f32[6]
    const %s: f32[]
    %p: f32[4,6] = MatMul(%x, %w)
    %a: f32[4,6] = Add(%p, %b)
    %h: f32[4,2,3] = Reshape(%a) {shape=(4, 2, 3)}
    %t: f32[2,4,3] = Transpose(%h) {perm=(1, 0, 2)}
    %c: f32[2,4,4] = MatMul(%t, %k)
    %m: f32[2,4,4] = Mul(%c, %s)
    %y: f32[2,4,4] = Softmax(%m)
}"""


def test_the_number_goes_into_the_weight_and_the_bias():
    graph = graph_of(SCORES, s=np.array(0.5, np.float32))
    done = with_scales_in_weights(graph)
    verify(done, infer)
    assert [node.op for node in done.nodes] == [
        *("MatMul", "Add", "Reshape", "Transpose", "MatMul", "Softmax")
    ]
    np.testing.assert_array_equal(done.constants["w"], graph.constants["w"] / 2)
    np.testing.assert_array_equal(done.constants["b"], graph.constants["b"] / 2)
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.normal(0, 1, (4, 6)).astype(np.float32),
        "k": rng.normal(0, 1, (2, 3, 4)).astype(np.float32),
    }
    before, after = (evaluate(each, inputs, OPS)["y"] for each in (graph, done))
    np.testing.assert_array_equal(after, before)


def test_a_weight_that_others_read_stays():
    text = SCORES.replace("-> (%y)", "-> (%y, %a)")
    graph = graph_of(text, s=np.array(0.5, np.float32))
    assert with_scales_in_weights(graph) is graph


def test_a_number_for_each_column_stays():
    graph = graph_of(SCORES.replace("%s: f32[]", "%s: f32[4]"))
    assert with_scales_in_weights(graph) is graph
