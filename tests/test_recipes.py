"""The table of recipes, and how recipes are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import graph_of
from weft.api import Net
from weft.errors import UserError
from weft.recipes import RECIPES, apply, parse_steps, recipe_named
from weft.rewrite.recipe import described

GRAPH = """(%x: f32[2,3]) -> (%z) {
  %d: f32[2,3] = Dropout(%x)
  %z: f32[2,3] = Relu(%d)
}"""


def test_the_table():
    names = [each.name for each in RECIPES]
    assert len(set(names)) == len(names)
    for recipe in RECIPES:
        assert recipe.doc.endswith("."), recipe.name
        assert all(each.doc for each in described(recipe)), recipe.name
        assert recipe_named(recipe.name) is recipe


def test_an_unknown_recipe():
    with pytest.raises(UserError) as error:
        apply(graph_of(GRAPH), "shareconstant")
    assert str(error.value) == ("unknown recipe; got shareconstant. Did you mean share-constants?")


def test_steps():
    assert parse_steps(["prune", "tile-conv", "axis=2", "nodes=a=b,c", "prune"]) == [
        ("prune", {}),
        ("tile-conv", {"axis": "2", "nodes": "a=b,c"}),
        ("prune", {}),
    ]
    with pytest.raises(UserError, match=r"a recipe's name must come before its parameters"):
        parse_steps(["axis=2"])
    with pytest.raises(UserError, match=r"parameter axis of tile is given twice; got axis=3"):
        parse_steps(["tile", "axis=2", "axis=3"])


def test_from_python():
    net = Net(graph_of(GRAPH))
    done = net.apply("remove-dropout")
    assert [node.op for node in done.graph.nodes] == ["Relu"]
    assert str(done.graph.history[-1]) == "remove-dropout"
    assert done.apply("remove-dropout") is done
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    np.testing.assert_array_equal(done.reference(x)[0], np.maximum(x, 0))


def test_weights_that_nothing_reads_any_more_go():
    graph = graph_of("""(%x: f32[1,2,6,6]) -> (%y, %z) {
      const %w: f32[4,2,3,3]
      const %v: f32[4,2,1,1]
      %y: f32[1,4,4,4] = Conv(%x, %w)
      %z: f32[1,4,6,6] = Conv(%x, %v)
    }""")
    done = apply(graph, "tile-conv", {"axis": "out", "parts": 2, "nodes": graph.nodes[0].name})
    assert "w" not in done.constants
    assert "v" in done.constants
    assert len(done.constants) == 3
    assert set(done.constants) <= set(done.types)
