"""Convolutions as matrix products."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.rewrite.checks import assert_same, graph_of
from tests.rewrite.whole import check, convolutions
from tests.turns import examples
from weft.errors import UserError
from weft.recipes import apply
from weft.rewrite.rule import Exactness


@settings(max_examples=examples(100), deadline=None)
@given(case=convolutions())
def test_convolutions(case):
    net, graph, _ = case
    done = check(net, graph, "conv-to-matmul")
    made = [node.op for node in done.nodes]
    assert "Conv" not in made
    assert made.count("MatMul") == 1


def test_single_points_are_not_copied():
    graph = graph_of("""(%x: f32[1,3,8,8]) -> (%y) {
      const %w: f32[5,3,1,1]
      %y: f32[1,5,8,8] = Conv(%x, %w)
    }""")
    done = apply(graph, "conv-to-matmul")
    assert [node.op for node in done.nodes] == ["Reshape", "MatMul", "Reshape"]
    assert_same(graph, done, Exactness.REASSOCIATING)


def test_open_batch_and_computed_weights():
    graph = graph_of("""(%x: f32[N,4,5,5], %w: f32[6,2,3,3]) -> (%y) {
      %y: f32[N,6,5,5] = Conv(%x, %w) {groups=2, pads=(1, 1, 1, 1)}
    }""")
    done = apply(graph, "conv-to-matmul", {"nodes": [graph.nodes[0].name]})
    assert_same(graph, done, Exactness.REASSOCIATING)


def test_without_convolutions():
    graph = graph_of("(%x: f32[2]) -> (%y) {\n%y: f32[2] = Relu(%x)\n}")
    with pytest.raises(UserError, match="graph g must have a node that is one of: Conv; got none"):
        apply(graph, "conv-to-matmul")
