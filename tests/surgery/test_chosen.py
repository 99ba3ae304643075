"""Nodes and values as users give them, and replacements that change types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import layers
from weft.api import Net
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.match.describe import query_of
from weft.match.view import Match
from weft.ops.values import Value
from weft.rewrite.recipe import Recipe
from weft.rewrite.rule import Exactness, Rule

X = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def net() -> Net:
    return weft.trace(
        weft.sequential(
            [
                layers.Conv(4, 3, name="conv"),
                weft.ops.relu,
                weft.ops.relu,
                layers.Flatten(),
                layers.Linear(5, name="head"),
            ]
        ),
        "f32[1,3,8,8]",
    )


def ops(net: Net) -> list[str]:
    return [node.op for node in net.graph.nodes]


def test_nodes_are_names_nodes_or_matches(net: Net) -> None:
    matches = net.query("Relu")
    node = net.graph.by_name["relu"]
    wanted = ["Conv", "Tanh", "Relu", "Flatten", "Gemm"]
    for chosen in ("relu", ["relu"], node, (node,), matches[0], matches[0].nodes, matches[:1]):
        assert ops(net.replace(chosen, weft.ops.tanh)) == wanted
        assert ops(net.delete(chosen)) == ["Conv", "Relu", "Flatten", "Gemm"]
        assert net.view(chosen).names == ("relu",)
        assert "marked" in net.draw(highlight={"marked": chosen})
        assert query_of(net.graph, chosen) == "relu_out = Relu(conv_out)"
    pair = net.query("Relu -> Relu")[0]
    assert ops(net.replace(pair, weft.ops.tanh)) == ["Conv", "Tanh", "Flatten", "Gemm"]
    assert net.view(net.view(pair)).outputs == ("relu_1_out",)
    assert (
        ops(net.insert(net.graph.by_name["relu_1"], weft.ops.neg, net.query("Flatten")))[3] == "Neg"
    )
    assert net.split(pair)[0].graph.outputs == ("relu_1_out",)
    assert list(net.with_outputs(node).outputs) == ["relu_out"]
    assert ops(net.extract(node, net.query("Flatten"))) == ["Relu", "Flatten"]


def test_pictures_mark_what_is_given(net: Net) -> None:
    matches = net.query("Relu")
    assert "match 2" in net.draw(highlight=matches)
    for chosen in (matches[0], "relu", ["relu", net.graph.by_name["conv"]]):
        assert "marked" in net.draw(highlight=chosen)  # type: ignore[arg-type]
    assert "marked" not in net.draw(highlight=net.query("Gelu"))


def test_all_matches_are_replaced(net: Net) -> None:
    done = net.replace_all("Relu", weft.ops.hard_swish)
    assert ops(done) == ["Conv", "HardSwish", "HardSwish", "Flatten", "Gemm"]
    assert str(done.history[-1]) == "replace 2 nodes by 2: relu, relu_1"

    def leaky(match: Match, value: Value) -> Value:
        alpha = 0.1 if match.root.name == "relu" else 0.2
        return weft.ops.leaky_relu(value, alpha=alpha)

    done = net.replace_all(net.query("Relu"), leaky)
    found = [node.attributes.alpha for node in done.graph.nodes if node.op == "LeakyRelu"]
    assert found == [0.1, 0.2]
    assert net.replace_all("Gelu", weft.ops.relu).graph == net.graph
    half = net.replace_all("Relu -> Relu", lambda x: x)
    assert ops(half) == ["Conv", "Identity", "Flatten", "Gemm"]
    once = weft.trace(weft.ops.relu, "f32[1,4,6,6]")
    assert ops(net.replace_all("Relu -> Relu", once.graph)) == ["Conv", "Relu", "Flatten", "Gemm"]
    assert np.array_equal(
        net.replace_all("Relu -> Relu", once.graph).reference(X)[0], net.reference(X)[0]
    )


def test_types_may_change_where_all_that_follows_can(net: Net) -> None:
    whole = weft.trace(
        lambda x: weft.ops.global_average_pool(
            weft.ops.relu(weft.ops.conv(x, np.ones((4, 3, 3, 3), np.float32), name="conv"))
        ),
        "f32[1,3,8,8]",
    )
    wide = whole.replace("conv", layers.Conv(6, 5))
    assert [str(type) for type in wide.outputs.values()] == ["f32[1,6,1,1]"]
    assert str(wide.graph.types["conv_out"]) == "f32[1,6,4,4]"
    assert wide.reference(X)[0].shape == (1, 6, 1, 1)
    twice = whole.replace_all("Conv", layers.Conv(2, 1))
    assert [str(type) for type in twice.outputs.values()] == ["f32[1,2,1,1]"]
    passed = whole.replace("conv", lambda x: x)
    assert [str(type) for type in passed.outputs.values()] == ["f32[1,3,1,1]"]


def rule(name: str = "double", exactness: Exactness = Exactness.BIT_EXACT) -> Rule:
    return Rule(name, "a = Relu(x)\ny = Relu(a)", lambda m, b: b.op("Relu", m["x"]), exactness, "")


def test_rules_are_applied(net: Net) -> None:
    done = net.rewrite(rule())
    assert ops(done) == ["Conv", "Relu", "Flatten", "Gemm"]
    assert str(done.history[-1]) == "rewrite double (1)"
    loose = rule("loose", Exactness.APPROXIMATE)
    told = net.rewrite([loose, "merge-casts"])
    assert told.graph == net.graph
    assert str(told.history[-1]) == (
        "rewrite loose (skipped: approximate, allow=reassociating), merge-casts (0)"
    )
    assert ops(net.rewrite([loose], allow="approximate")) == ops(done)
    never = Rule(
        "never", "y = Relu(x)", lambda m, _: m["x"], Exactness.BIT_EXACT, "", lambda _: "no"
    )
    assert str(net.rewrite(never).history[-1]) == "rewrite never (refused at relu: no)"


def test_recipes_and_differences(net: Net) -> None:
    def without(graph: Graph, _: object) -> Graph:
        return Net(graph).delete("relu").graph

    mine = Recipe("mine", "Takes one out.", Exactness.BIT_EXACT, without)
    done = net.apply(mine)
    assert ops(done) == ["Conv", "Relu", "Flatten", "Gemm"]
    assert str(done.history[-1]) == "mine"
    assert str(net.diff(done)).splitlines()[3:5] == [
        "- %relu_out: f32[1,4,6,6] = Relu(%conv_out)  # relu",
        "- %relu_1_out: f32[1,4,6,6] = Relu(%relu_out)  # relu_1",
    ]
    assert not net.diff(net.graph)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda net: net.replace(3, weft.ops.relu),
            "replace: nodes are given by their names, as nodes, or as matches; got int 3",
        ),
        (
            lambda net: net.delete(["relu", None]),
            "delete: nodes are given by their names, as nodes, or as matches; got NoneType None",
        ),
        (
            lambda net: net.insert(["relu_out", "conv_out"], weft.ops.relu),
            "insert: one value is expected; got relu_out, conv_out",
        ),
        (
            lambda net: net.extract(3, "relu_out"),
            "extract: values are given by their names, or as nodes or matches; got int 3",
        ),
        (
            lambda net: net.delete(weft.trace(weft.ops.gelu, "f32[2]").query("Gelu")[0]),
            "delete: graph net has no node gelu; got a match of another graph. "
            "Did you mean relu or relu_1?",
        ),
        (
            lambda net: net.draw(highlight=3),
            "draw: nodes are given by their names, as nodes, or as matches; got int 3",
        ),
        (
            lambda net: net.replace_all(3, weft.ops.relu),
            "replace: expected a query or its matches; got int. "
            "Net.replace replaces nodes by their names.",
        ),
        (
            lambda net: net.replace_all(net.query("Relu -> Relu?", overlaps="every"), lambda x: x),
            "replace: matches 1 and 2 share node relu. Use greedy or best overlaps.",
        ),
        (
            lambda net: net.replace("conv", layers.Conv(6, 3)),
            "replace: flatten_out becomes f32[1,216], which cannot follow: gemm: a has 216 "
            "columns, b has 144 rows; they must be equal; got a f32[1,216], b f32[5,144], "
            "c f32[5] (node head). Keep the type f32[1,144], or replace that node, too.",
        ),
        (
            lambda net: net.rewrite("merge-rel"),
            "unknown rule; got merge-rel. Did you mean merge-relu or merge-views or merge-add?",
        ),
        (
            lambda net: net.rewrite(3),
            "rules must be Rules or names; got int",
        ),
        (
            lambda net: net.rewrite([rule(), rule()]),
            "rules must have unique names; got two double",
        ),
        (
            lambda net: net.rewrite(rule(), allow="exact"),
            "an exactness must be one of bit-exact, reassociating, approximate; got 'exact'. "
            "Did you mean bit-exact?",
        ),
        (
            lambda net: net.apply(rule()),
            "a recipe must be a name or a Recipe; got Rule. Net.rewrite applies rules.",
        ),
        (
            lambda net: net.rewrite(Recipe("r", "", Exactness.BIT_EXACT, lambda graph, _: graph)),
            "rules must be Rules or names; got Recipe. Net.apply applies recipes.",
        ),
        (lambda net: net.diff(3), "diff: expected a net or a graph; got int"),
    ],
)
def test_what_is_none_of_these(net: Net, edit: Callable[[Net], object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        edit(net)
    assert str(caught.value) == message
