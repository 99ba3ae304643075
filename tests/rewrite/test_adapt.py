"""Types that a backend lacks: casts around what uses them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import assert_same, graph_of, infer, outputs_of
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.recipes import apply, recipe_named
from weft.rewrite.adapt import CONVERSIONS
from weft.rewrite.recipe import parameters_of
from weft.rewrite.rule import Exactness

HALF = """(%x: f16[2,3], %i: i64[2]) -> (%y, %g) {
  const %w: f16[3,4]
  %p: f16[2,4] = MatMul(%x, %w)
  %r: f16[2,4] = Clip(%p) {max=6.0, min=0.0}
  %y: f16[2,4] = Add(%r, %p)
  %g: f16[2,4] = Gather(%y, %i)
}"""


def computed(graph: Graph) -> set[DType]:
    """Types that nodes other than conversions make."""
    return {
        graph.types[value].dtype
        for node in graph.nodes
        if node.op not in CONVERSIONS
        for value in node.outputs
        if value
    }


def test_floats_that_a_backend_lacks():
    graph = graph_of(
        HALF.replace("%i: i64[2]", "%k: f16[2,4]").replace(
            "%g: f16[2,4] = Gather(%y, %i)", "%g: f16[2,4] = Mul(%y, %k)"
        )
    )
    done = apply(graph, "adapt-types", {"dtypes": "f32"})
    verify(done, infer)
    assert computed(done) == {DType.F32}
    assert [done.types[value].dtype for value in done.outputs] == [DType.F16, DType.F16]
    assert_same(graph, done, Exactness.BIT_EXACT)


def test_integers_stay_where_only_floats_are_named():
    done = apply(graph_of(HALF), "adapt-types", {"dtypes": ["f32"]})
    gather = next(node for node in done.nodes if node.op == "Gather")
    assert [done.types[value].dtype for value in gather.inputs] == [DType.F32, DType.I64]


def test_without_rounding_between():
    graph = graph_of(HALF)
    kept = apply(graph, "adapt-types", {"dtypes": "f32"})
    done = apply(graph, "adapt-types", {"dtypes": "f32", "between": "no"})
    verify(done, infer)
    casts = [sum(node.op == "Cast" for node in each.nodes) for each in (kept, done)]
    assert casts[1] < casts[0]
    inputs = {"x": np.array([[1, 2, 3], [-1, 2, 0.5]], np.float16), "i": np.array([1, 0])}
    for value, array in evaluate(graph, inputs, OPS).items():
        np.testing.assert_allclose(evaluate(done, inputs, OPS)[value], array, rtol=4e-3)


def test_only_some_ops():
    graph = graph_of(HALF)
    done = apply(graph, "adapt-types", {"dtypes": "f32", "ops": "MatMul"})
    types = {node.op: done.types[node.outputs[0]].dtype for node in done.nodes}
    assert (types["MatMul"], types["Clip"], types["Add"]) == (DType.F32, DType.F16, DType.F16)


def test_narrower_types_only_when_asked_for():
    graph = graph_of("""(%x: f64[2,3]) -> (%y) {
      %y: f64[2,3] = Exp(%x)
    }""")
    with pytest.raises(UserError) as error:
        apply(graph, "adapt-types", {"dtypes": "f32,f16"})
    (node,) = graph.nodes
    assert str(error.value) == (
        "adapt-types: no type of the backend holds every f64; "
        f"got f32, f16 (node {node.name}). Give lossy=yes to use one that does not."
    )
    done = apply(graph, "adapt-types", {"dtypes": "f32,f16", "lossy": True})
    assert computed(done) == {DType.F32}
    np.testing.assert_allclose(outputs_of(done)["y"], outputs_of(graph)["y"], rtol=1e-6)
    recipe = recipe_named("adapt-types")
    promised = [
        recipe.exactness_with(parameters_of(recipe, {"dtypes": "f32", "lossy": lossy}))
        for lossy in ("no", "yes")
    ]
    assert promised == [Exactness.REASSOCIATING, Exactness.APPROXIMATE]


def test_small_integers():
    graph = graph_of("""(%x: i8[2,3], %k: i8[2,3]) -> (%y) {
      %s: i8[2,3] = Add(%x, %k)
      %y: i8[2,3] = Max(%s, %x)
    }""")
    done = apply(graph, "adapt-types", {"dtypes": "i32"})
    verify(done, infer)
    assert computed(done) == {DType.I32}
    assert_same(graph, done, Exactness.BIT_EXACT)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dtypes": "float"}, "unknown type; got float. There are: f64, f32,"),
        ({"dtypes": "f32", "ops": "Sofmax"}, "Sofmax is not an op of Weft. Did you mean Softmax"),
        ({"dtypes": "i16"}, "gather: "),
    ],
)
def test_refusals(values, message):
    with pytest.raises(UserError) as error:
        apply(graph_of(HALF), "adapt-types", {**values, "lossy": "yes"})
    assert str(error.value).startswith(message)
