"""Delete, replace, insert, rename, views; each with its refusals, whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.surgery.nets import block, check, image, run
from weft import layers
from weft.errors import UserError
from weft.ir.history import HistoryEntry
from weft.ir.types import parse_type
from weft.ops.trace import trace

X = image(1, 3, 8, 8)


def ops(net: weft.Net) -> list[str]:
    return [node.op for node in net.graph.nodes]


def test_delete_takes_what_only_it_needed() -> None:
    net = block().delete("sum", keep={"sum": "r"})
    check(net.graph)
    assert ops(net) == ["Conv", "Relu", "Tanh", "Sigmoid"] or sorted(ops(net)) == sorted(
        ["Conv", "Relu", "Tanh", "Sigmoid"]
    )
    assert [*net.graph.constants] == ["conv.weight", "conv.bias"]
    assert net.history[-1] == HistoryEntry("delete", "sum")
    relu = np.maximum(run(block().with_outputs(["c"]).graph, X)[0], 0)
    np.testing.assert_allclose(run(net.graph, X)[0], 1 / (1 + np.exp(-relu)), rtol=1e-6)


def test_delete_at_the_ends_keeps_the_outputs_names() -> None:
    net = block().delete(["tail", "side"])
    check(net.graph)
    assert net.graph.outputs == ("y", "early")
    whole = block().with_outputs(["t", "r"])
    for got, want in zip(run(net.graph, X), run(whole.graph, X), strict=True):
        np.testing.assert_array_equal(got, want)


def test_delete_under_an_output_that_is_given_twice() -> None:
    net = block()  # files may name an output twice
    net = net.with_graph(replace(net.graph, outputs=("y", "y"))).delete("tail")
    check(net.graph)
    assert net.graph.outputs == ("y", "y")
    wanted = run(block().with_outputs(["t"]).graph, X)[0]
    for got in run(net.graph, X):
        np.testing.assert_array_equal(got, wanted)


def test_delete_everything_between_input_and_output() -> None:
    net = weft.trace(lambda x: weft.ops.relu(weft.ops.neg(x)), "f32[2,3]").delete(["relu", "neg"])
    check(net.graph)
    assert ops(net) == ["Identity"]
    np.testing.assert_array_equal(run(net.graph, np.ones((2, 3), np.float32))[0], 1)


def test_a_view_is_in_a_fixed_order() -> None:
    net = block()
    for names in (["sum", "conv2", "relu"], ["relu", "sum", "conv2"]):
        view = net.view(names)
        assert view.names == ("relu", "conv2", "sum")
        assert view.inputs == ("c",)
        assert view.constants == ("conv2.weight", "conv2.bias")
        assert view.outputs == ("r", "t")
    check(view.subgraph())
    inside = run(net.with_outputs(["c", "r", "t"]).graph, X)
    for got, want in zip(run(view.subgraph(), inside[0]), inside[1:], strict=True):
        np.testing.assert_array_equal(got, want)


def test_replace_several_inputs_and_outputs() -> None:
    net = block()

    def other(c: weft.Value) -> tuple[weft.Value, weft.Value]:
        r = weft.ops.max(c, np.float32(0))
        return r, layers.Conv(4, 3, padding=1)(r) + r

    same = net.replace(["relu", "conv2", "sum"], net.view(["relu", "conv2", "sum"]).subgraph())
    check(same.graph)
    np.testing.assert_array_equal(run(same.graph, X)[0], run(net.graph, X)[0])
    changed = net.replace(["relu", "conv2", "sum"], other)
    check(changed.graph)
    assert changed.graph.outputs == ("y", "early")
    np.testing.assert_allclose(run(changed.graph, X)[1], run(net.graph, X)[1], rtol=1e-6)
    assert "conv2.weight" not in changed.graph.constants
    assert str(changed.history[-1]) == "replace 3 nodes by 3: relu, conv2, sum"
    both = net.replace(
        "sum",
        lambda a, b: weft.ops.sub(b, a),
        inputs={"x0": "s", "x1": "r"},
        outputs={"t": "sub_out"},
    )
    s, r, t = run(both.with_outputs(["s", "r", "t"]).graph, X)
    np.testing.assert_array_equal(t, r - s)


def test_replace_by_a_net() -> None:
    net = block()
    part = weft.trace(layers.Conv(4, 1), "f32[1,4,8,8]", name="pointwise")
    done = net.replace("conv2", part)
    check(done.graph)
    (weight,) = (a for name, a in done.weights.items() if name.endswith("pointwise.conv.weight"))
    assert weight.shape == (4, 4, 1, 1)


def test_insert_on_an_edge() -> None:
    net = block()
    everywhere = net.insert("r", lambda x: x * 2.0)
    check(everywhere.graph)
    np.testing.assert_allclose(
        run(everywhere.graph, X)[1],
        np.tanh(2 * np.arctanh(run(net.graph, X)[1].astype(np.float64))),
        rtol=1e-3,
    )
    one = net.insert("r", weft.ops.neg, users=["side"])
    check(one.graph)
    np.testing.assert_array_equal(run(one.graph, X)[1], -run(net.graph, X)[1])
    np.testing.assert_array_equal(run(one.graph, X)[0], run(net.graph, X)[0])
    at_the_end = net.insert("y", weft.ops.neg)
    np.testing.assert_array_equal(run(at_the_end.graph, X)[0], -run(net.graph, X)[0])


def test_a_name_is_as_good_as_a_list_of_one() -> None:
    net = block()
    assert net.view("relu") == net.view(["relu"])
    assert net.insert("r", weft.ops.relu, users="sum").graph == (
        net.insert("r", weft.ops.relu, users=["sum"]).graph
    )
    assert net.extract("x", "r").graph == net.extract(["x"], ["r"]).graph
    assert net.with_outputs("r").graph == net.with_outputs(["r"]).graph


def test_to_delete_nothing_changes_nothing() -> None:
    net = block()
    assert net.delete([]).graph is net.graph


def test_rename() -> None:
    net = block().rename({"x": "image", "y": "scores"}, {"conv": "stem"})
    check(net.graph)
    assert net.graph.inputs == ("image",)
    assert net.graph.outputs == ("scores", "early")
    assert net.graph.nodes[0].name == "stem"
    np.testing.assert_array_equal(run(net.graph, X)[0], run(block().graph, X)[0])


REFUSALS: list[tuple[Callable[[weft.Net], object], str]] = [
    (
        lambda net: net.delete("sum"),
        "delete: several inputs could take the place of output t; got s, r (node sum). "
        "Say which: keep={'sum': 's'}.",
    ),
    (
        lambda net: net.delete("conv"),
        "delete: no input has the type of output c, f32[1,4,8,8]; got x f32[1,3,8,8], "
        "conv.weight f32[4,3,3,3], conv.bias f32[4] (node conv). Replace the node instead.",
    ),
    (lambda net: net.delete("nothing"), "graph net has no node nothing"),
    (
        lambda net: net.delete("sum", keep={"tail": "t"}),
        "delete: tail is not among the nodes to delete; got sum",
    ),
    (
        lambda net: net.delete("sum", keep={"sum": "x"}),
        "delete: x is not an input; got s, r (node sum)",
    ),
    (
        lambda net: net.delete("conv", keep={"conv": "x"}),
        "delete: x must have the type of output c, f32[1,4,8,8]; got f32[1,3,8,8] (node conv)",
    ),
    (
        lambda net: net.view(["relu", "sum"]),
        "view: node sum reads s, which other nodes compute from the view's outputs; got relu, sum. "
        "Include the nodes in between.",
    ),
    (lambda net: net.view([]), "view: there must be at least one node; got none"),
    (
        lambda net: net.replace("relu", trace(lambda a, b: a + b, [X_TYPE, X_TYPE])),
        "replace: the nodes have the inputs c; got x0, x1 of what comes in their place. "
        "Give inputs, or another graph.",
    ),
    (
        lambda net: net.replace("relu", lambda x: (x, x)),
        "replace: the nodes have the outputs r; got x_copy, x_copy_1 of what comes in their "
        "place. Give outputs, or another graph.",
    ),
    (
        lambda net: net.replace("conv2", layers.Conv(5, 3, padding=1)),
        "replace: s becomes f32[1,5,8,8], which cannot follow: add: the shapes do not broadcast; "
        "got f32[1,5,8,8], f32[1,4,8,8] (node sum). "
        "Keep the type f32[1,4,8,8], or replace that node, too.",
    ),
    (
        lambda net: net.insert("q", weft.ops.relu),
        "insert: graph net has no value q",
    ),
    (
        lambda net: net.insert("conv2.wieght", weft.ops.relu),
        "insert: graph net has no value conv2.wieght. "
        "Did you mean conv2.weight or conv.weight or conv2.bias?",
    ),
    (
        lambda net: net.insert("r", weft.ops.relu, users=["tail"]),
        "insert: node tail does not read value r. Those that do: conv2, sum, side.",
    ),
    (
        lambda net: net.insert("r", weft.ops.relu, users=[]),
        "insert: value r must have users after the insertion; got no users",
    ),
    (
        lambda net: net.insert("r", layers.Conv(3, 3)),
        "insert: the part between value r and its users must keep its type, f32[1,4,8,8]; "
        "got a part that gives f32[1,3,6,6]. "
        "Replace the users instead, if they can read another type.",
    ),
    (
        lambda net: net.insert("tail", weft.ops.relu),
        "insert: graph net has no value tail. It is a node, which makes y.",
    ),
    (
        lambda net: net.delete("t"),
        "graph net has no node t. It is a value, which node sum makes.",
    ),
    (lambda net: net.delete("x"), "graph net has no node x. It is an input of the graph."),
    (lambda net: net.view("tial"), "graph net has no node tial. Did you mean tail?"),
    (
        lambda net: net.replace("sum", weft.ops.relu),
        "replace: the function must take 2 values, one for each input; got relu(x, name) (the "
        "part that reads s f32[1,4,8,8], r f32[1,4,8,8]). It cannot be called so: too many "
        "positional arguments.",
    ),
    (
        lambda net: net.replace("relu", weft.ops.relu, outputs={"q": "relu_out"}),
        "replace: value r is still read by node conv2 (node relu). "
        "Give an output of the subgraph for it.",
    ),
    (
        lambda net: net.replace("relu", lambda x: None),
        "replace: the function must return a value or a tuple of values; got nothing "
        "(the part that reads c f32[1,4,8,8]). Does it lack a return?",
    ),
    (
        lambda net: net.rename({"x": 3}),  # type: ignore[dict-item]
        "rename: the name of a value must be a string; got 3",
    ),
    (lambda net: net.rename({"x": "c"}), "there is a value c already"),
    (
        lambda net: net.rename(nodes={"relu": ""}),
        "rename: a node cannot have an empty name (node relu)",
    ),
]
X_TYPE = parse_type("f32[1,4,8,8]")


@pytest.mark.parametrize(("edit", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_a_failed_edit_says_why_and_changes_nothing(
    edit: Callable[[weft.Net], object], message: str
) -> None:
    net = block()
    before = block().graph
    with pytest.raises(UserError) as caught:
        edit(net)
    assert str(caught.value) == message
    assert net.graph == before
    assert net.history == before.history
