"""What a user may get wrong: every mistake is told in a sentence, none as Python's error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import layers, ops
from weft.api import Net
from weft.errors import UserError
from weft.rewrite.recipe import Recipe
from weft.rewrite.rule import Exactness

W = np.ones((4, 3, 3, 3), np.float32)
X = weft.input("x", "f32[1,3,8,8]")
NET = weft.net([X], [ops.relu(ops.conv(X, W))])
NO_ARRAY = "must be an array, a DLPack tensor or a buffer"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: X.named(3), "the name of a value must be a string; got 3"),
        (
            lambda: X == 0,
            "`==` compares identity, not elements; got Value(x: f32[1,3,8,8]). Use weft.ops.equal.",
        ),
        (
            lambda: np.array(X),
            "a symbolic value has no elements; "
            "got Value(x: f32[1,3,8,8]). Functions of weft.ops take symbolic values; compile() "
            "returns a function of arrays.",
        ),
        (
            lambda: weft.net([X], [X], name=3),  # type: ignore[arg-type]
            "net: the name must be a string; got 3",
        ),
        (
            lambda: weft.net([X], [X], seed=-1),
            "net: the seed must be a whole number, 0 or more; got -1",
        ),
        (
            lambda: layers.Conv(4, 3)(3),  # type: ignore[arg-type]
            "Conv: the input must be a symbolic value; got int. "
            "weft.trace(layer, type) returns a network; its compile() runs on arrays.",
        ),
        (
            lambda: NET.delete("relu", keep="x"),  # type: ignore[arg-type]
            "delete: keep gives the value that stays, by node; got str 'x'",
        ),
        (
            lambda: NET.replace("relu", ops.tanh, inputs=["x"]),  # type: ignore[arg-type]
            "replace: inputs gives a value, by input of the part; got list ['x']",
        ),
        (
            lambda: NET.rename("x"),  # type: ignore[arg-type]
            "rename: new names are given by the old ones; got str 'x'",
        ),
        (
            lambda: NET.rename({3: "x"}),  # type: ignore[dict-item]
            "rename: new names are given by the old ones; got 3 for a name",
        ),
        (
            lambda: NET.with_shapes({"x": 3}),  # type: ignore[dict-item]
            "shapes: the shape of input x is a tuple of sizes; got 3. It is f32[1,3,8,8] now.",
        ),
        (
            lambda: NET.with_shapes((1, 3, 16, 16)),  # type: ignore[arg-type]
            "shapes: they are given by input, as {'x': (1, 3, 32, 32)}; got tuple (1, 3, 16, 16)",
        ),
        (lambda: NET.freeze(3), "freeze: arrays are given by input; got int 3"),  # type: ignore[arg-type]
        (lambda: NET.freeze({"x": 3}), f"input x {NO_ARRAY}; got int"),  # type: ignore[dict-item]
        (
            lambda: NET.with_weights(3),  # type: ignore[arg-type]
            "weights are arrays by name, or the path of a file; got int 3",
        ),
        (lambda: NET.query(3), "query: expected text; got int"),  # type: ignore[arg-type]
        (
            lambda: NET.query("Conv", overlaps=3),  # type: ignore[arg-type]
            "overlaps are all, every, greedy, best; got 3",
        ),
        (
            lambda: NET.query("Conv[p]", predicates=[len]),  # type: ignore[arg-type]
            "query: predicates are functions by name; got list [<built-in function len>]",
        ),
        (
            lambda: NET.query("Conv[p]", predicates={"p": 3}),  # type: ignore[dict-item]
            "query: predicate p must be a function; got 3",
        ),
        (
            lambda: NET.query("c: Conv")[0]["c"],
            "match: c is a node, not a value; got conv. match.node('c') gives it.",
        ),
        (
            lambda: NET.query("c: Conv")[0].node("d"),
            "match: a name of the query is expected; got 'd'. There are: c.",
        ),
        (
            lambda: NET.query("Conv(x, w)")[0].node("x"),
            "match: no node computes x; got x, a constant or an input of the graph",
        ),
        (
            lambda: NET.query("Conv(x, w, b?)")[0].type("b"),
            "match: b is absent here, so it has no type",
        ),
        (
            lambda: NET.query("Conv(x, w)")[0].array("x"),
            "match: x must be a constant to have elements; got x. "
            "Write `const x` in the query, or ask match.constant('x').",
        ),
        (
            lambda: NET.query("(r: Relu)+")[0].node("r"),
            "match: a name of the query is expected; got 'r'. "
            "It has a value for every round: match.lists['r'].",
        ),
        (
            lambda: Recipe("r", "", Exactness.BIT_EXACT, 3),  # type: ignore[arg-type]
            "recipe r: `apply` must be a function; got 3",
        ),
        (
            lambda: Recipe("r", "", Exactness.BIT_EXACT, lambda graph, _: graph, int),
            "recipe r: `parameters` must be a dataclass; got <class 'int'>",
        ),
        (
            lambda: weft.merge({"a": NET}, 3),  # type: ignore[arg-type]
            "merge: wiring gives an output, by the input that it feeds; got int 3",
        ),
        (lambda: NET.reference(W), "input x is f32[1,3,8,8]; got f32[4,3,3,3]"),
        (lambda: NET.reference("a"), f"input x {NO_ARRAY}; got str"),  # type: ignore[arg-type]
        (
            lambda: Net("a.onnx"),  # type: ignore[arg-type]
            "Net needs a graph; got str. weft.load reads a file, weft.trace traces a function, "
            "weft.net builds a graph from values.",
        ),
    ],
)
def test_mistakes_are_told_in_a_sentence(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        wrong()
    assert str(caught.value) == message
