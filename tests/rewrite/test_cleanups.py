"""Recipes that apply rules: what they do, what they leave, and the same numbers."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import assert_same, graph_of, infer, nodes_of
from weft.ir.verify import verify
from weft.recipes import apply, recipe_named

CASES = {
    "fuse-batch-norm": (
        """(%x: f32[1,2,5,5]) -> (%z) {
          const %w: f32[3,2,3,3]
          const %s: f32[3]
          const %b: f32[3]
          const %m: f32[3]
          const %v: f32[3]
          %c: f32[1,3,3,3] = Conv(%x, %w)
          %n: f32[1,3,3,3] = BatchNormalization(%c, %s, %b, %m, %v)
          %z: f32[1,3,3,3] = Clip(%n) {max=6.0, min=0.0}
        }""",
        ["Conv", "Clip"],
    ),
    "fuse-matmul-add": (
        """(%x: f32[2,3,4]) -> (%z) {
          const %w: f32[4,5]
          const %b: f32[5]
          %p: f32[2,3,5] = MatMul(%x, %w)
          %z: f32[2,3,5] = Add(%b, %p)
        }""",
        ["Reshape", "Gemm", "Reshape"],
    ),
    "remove-flatten": (
        """(%x: f32[2,3,4,4]) -> (%z, %u) {
          %p: f32[2,3,1,1] = GlobalAveragePool(%x)
          %z: f32[2,3] = Flatten(%p)
          %u: f32[2,3] = Flatten(%z)
        }""",
        None,
    ),
    "remove-dropout": (
        """(%x: f32[2,3]) -> (%z) {
          %d: f32[2,3] = Dropout(%x)
          %z: f32[2,3] = Relu(%d)
        }""",
        ["Relu"],
    ),
    "remove-identity": (
        """(%x: f32[2,3]) -> (%z) {
          %d: f32[2,3] = Relu(%x)
          %z: f32[2,3] = Identity(%d)
        }""",
        ["Relu"],
    ),
    "remove-no-ops": (
        """(%x: f32[2,3]) -> (%z) {
          %a: f32[2,3] = Cast(%x) {to=f32}
          %d: f32[2,3] = Relu(%a)
          %z: f32[2,3] = Reshape(%d) {shape=(2, 3)}
        }""",
        ["Relu"],
    ),
    "fold-constants": (
        """(%x: f32[2,3]) -> (%z) {
          const %k: f32[3]
          %a: f32[3] = Neg(%k)
          %z: f32[2,3] = Add(%x, %a)
        }""",
        ["Add"],
    ),
    "share-nodes": (
        """(%x: f32[2,3]) -> (%z) {
          %a: f32[2,3] = Relu(%x)
          %b: f32[2,3] = Relu(%x)
          %z: f32[2,3] = Add(%a, %b)
        }""",
        ["Relu", "Add"],
    ),
    "remove-unused": (
        """(%x: f32[2,3]) -> (%z) {
          %a: f32[2,3] = Neg(%x)
          %z: f32[2,3] = Relu(%x)
        }""",
        ["Relu"],
    ),
    "form-composites": (
        """(%x: f32[2,3]) -> (%z) {
          %s: f32[2,3] = Sigmoid(%x)
          %z: f32[2,3] = Mul(%x, %s)
        }""",
        ["Swish"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_recipe(name):
    text, ops = CASES[name]
    graph = graph_of(text)
    done = apply(graph, name)
    verify(done, infer)
    if ops is not None:
        assert [node.op for node in done.nodes] == ops, nodes_of(done)
    else:
        assert len(done.nodes) <= len(graph.nodes)
    assert_same(graph, done, recipe_named(name).exactness)
    assert apply(done, name) is done


def test_flatten_behind_a_global_mean_goes():
    graph = graph_of("""(%x: f32[2,3,4,4]) -> (%z) {
      %p: f32[2,3,1,1] = GlobalAveragePool(%x)
      %f: f32[2,3] = Flatten(%p)
      %z: f32[2,3] = Relu(%f)
    }""")
    done = apply(graph, "remove-flatten")
    assert [node.op for node in done.nodes] == ["ReduceMean", "Relu"]
    assert_same(graph, done, recipe_named("remove-flatten").exactness)


def test_expanded_composites_compute_the_same():
    graph = graph_of("""(%x: f32[2,3]) -> (%z) {
      %s: f32[2,3] = Softmax(%x)
      %z: f32[2,3] = Gelu(%s)
    }""")
    done = apply(graph, "expand-composites")
    assert "Softmax" not in {node.op for node in done.nodes}
    assert_same(graph, done, recipe_named("expand-composites").exactness)


def test_normalization_stays_where_its_layer_is_read_twice():
    graph = graph_of("""(%x: f32[1,2,5,5]) -> (%n, %c) {
      const %w: f32[3,2,3,3]
      const %s: f32[3]
      const %b: f32[3]
      const %m: f32[3]
      const %v: f32[3]
      %c: f32[1,3,3,3] = Conv(%x, %w)
      %n: f32[1,3,3,3] = BatchNormalization(%c, %s, %b, %m, %v)
    }""")
    assert apply(graph, "fuse-batch-norm") is graph


def test_a_shared_weight_is_fused_into_each_layer_on_its_own():
    graph = graph_of("""(%x: f32[1,3,5,5]) -> (%y, %z) {
      const %w: f32[3,3,1,1]
      const %s: f32[3]
      const %b: f32[3]
      const %m: f32[3]
      const %v: f32[3]
      %c: f32[1,3,5,5] = Conv(%x, %w)
      %y: f32[1,3,5,5] = BatchNormalization(%c, %s, %b, %m, %v)
      %z: f32[1,3,5,5] = Conv(%y, %w)
    }""")
    done = apply(graph, "fuse-batch-norm")
    assert [node.op for node in done.nodes] == ["Conv", "Conv"]
    assert "w" in done.constants
    assert_same(graph, done, recipe_named("fuse-batch-norm").exactness)
