"""Ten recipes in a row on random networks: the outputs stay what the reference says."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plan.nets import nets
from tests.rewrite.checks import infer
from tests.turns import examples
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.recipes import RECIPES, apply, recipe_named
from weft.rewrite.recipe import described, parameters_of
from weft.rewrite.rule import Exactness

PARAMETERS = {
    "tile-conv": {
        "axis": st.sampled_from(["0", "out", "in", "2", "3"]),
        "parts": st.integers(2, 3),
    },
    "tile-matmul": {
        "axis": st.sampled_from(["rows", "columns", "inner"]),
        "parts": st.integers(2, 3),
    },
    "adapt-types": {"dtypes": st.just("f64"), "between": st.booleans()},
}
"""What is drawn of recipes that do not run without; the others run with their defaults."""
EXACT = [
    each.name
    for each in RECIPES
    if each.name in PARAMETERS
    or (
        each.exactness is not Exactness.APPROXIMATE
        and all(parameter.default is not None for parameter in described(each))
    )
]
"""Recipes after which the outputs must be the same up to rounding."""


@st.composite
def steps(draw):
    """A recipe and parameters; of ``tile-chain``, places in the graph that is there by then."""
    name = draw(st.sampled_from([*EXACT, "tile-chain"]))
    if name == "tile-chain":
        return name, {
            "first": draw(st.integers(0, 30)),
            "last": draw(st.integers(1, 6)),
            "axes": draw(st.integers(0, 3)),
            "parts": 2,
        }
    return name, {key: draw(each) for key, each in PARAMETERS.get(name, {}).items()}


def applied(graph: Graph, name: str, values: dict) -> Graph:
    """The graph after a recipe, or the graph itself where it refuses."""
    if name == "tile-chain":
        first = values["first"] % len(graph.nodes)
        last = min(first + values["last"], len(graph.nodes) - 1)
        nodes = {"first": graph.nodes[first].name, "last": graph.nodes[last].name}
        values = {**values, **nodes}
    try:
        done = apply(graph, name, values)
    except UserError:
        return graph
    verify(done, infer)
    recipe = recipe_named(name)
    promise = recipe.exactness_with(parameters_of(recipe, values))
    assert promise is not Exactness.APPROXIMATE
    return done


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    """Equal up to rounding; what is not finite must be where it was."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    finite = np.isfinite(expected)
    if expected.dtype.kind != "f" or not finite.any():
        return np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f")
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True):
        return False
    span = max(1.0, float(np.abs(expected[finite]).max()))
    return bool(np.abs(found[finite] - expected[finite]).max() <= 1e-3 * span)


def test_infinities_are_compared_as_they_are() -> None:
    """A window of max pooling that lies in the padding gives -inf."""
    given = np.array([-np.inf, 1.0, np.nan], np.float32)
    assert close(given, given)
    assert not close(np.array([np.inf, 1.0, np.nan], np.float32), given)
    assert not close(np.array([-np.inf, np.inf, np.nan], np.float32), given)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(net=nets(8), chosen=st.lists(steps(), min_size=10, max_size=10))
def test_ten_recipes(net, chosen):
    graph, arrays = net
    if not graph.nodes:
        return
    expected = evaluate(graph, arrays, OPS)
    done = graph
    for name, values in chosen:
        if done.nodes and len(done.nodes) < 300:
            done = applied(done, name, values)
    assert (done.inputs, done.outputs) == (graph.inputs, graph.outputs)
    found = evaluate(done, arrays, OPS)
    for value, array in expected.items():
        assert close(found[value], array), (value, [str(each) for each in done.history])
