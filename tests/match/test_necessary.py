"""Nodes at which no match begins, known without a search: never one at which there is one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.match.test_matcher import NET, graph_of
from tests.plan.nets import nets
from tests.turns import examples
from weft.ir.graph import Graph
from weft.match.compile import compile_rule
from weft.match.matcher import GraphSearch
from weft.match.necessary import may_match
from weft.match.view import GraphView
from weft.rewrite.recipes import pipeline

RULES = [rule for stage in pipeline() for rule in stage.rules]


def promising(graph: Graph, text: str) -> list[str]:
    """The nodes at which a search is worth while."""
    program, view = compile_rule(text), GraphView(graph)
    return [node.name for node in graph.nodes if may_match(program, node, view)]


@given(nets())
@settings(max_examples=examples(30), deadline=None)
def test_no_match_is_passed_over(drawn: tuple[Graph, object]) -> None:
    graph, _ = drawn
    view = GraphView(graph)
    for rule in RULES:
        for node in graph.nodes:
            if any(GraphSearch(view, rule.pattern).matches(node)):
                assert may_match(rule.pattern, node, view)


def test_rules_for_batch_norms_skip_what_has_none() -> None:
    text = "Conv(n, w)"
    before = [rule for rule in RULES if rule.name == "fold-batch-norm-before"]
    graph = graph_of(
        """(%x: f32[1,2,5], %w: f32[2,2,1]) -> (%a) {
            %a: f32[1,2,5] = Conv(%x, %w)
        }"""
    )
    view = GraphView(graph)
    assert before
    assert promising(graph, text) == ["a"]
    assert not any(may_match(rule.pattern, graph.nodes[0], view) for rule in before)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Mul(x, Mul(y, z))", ["e", "f"]),
        ("Mul(LeakyRelu(x), y)", []),
        ("Mul(x, LeakyRelu(y))", ["d"]),
        ("n = Mul(x, y)\nm = Mul(n, n)", ["f"]),
        ("Mul(x, LeakyRelu(y) | Mul(y, z))", ["d", "e", "f"]),
        ("Add(x, Relu(y)) | Mul(x, Mul(y, z))", ["b", "e", "f"]),
        # What says nothing of who makes an operand, or of the order, leaves it to the search.
        ("Mul(x, *(...))", ["d", "e", "f"]),
        ("Mul{LeakyRelu(x), y}", ["d", "e", "f"]),
        ("Mul(x, const y)", ["d", "e", "f"]),
        ("*(...)", ["a", "b", "c", "d", "e", "f"]),
    ],
)
def test_who_must_make_operands(text: str, wanted: list[str]) -> None:
    assert promising(NET, text) == wanted


def test_an_operand_that_is_missing_has_no_maker() -> None:
    graph = graph_of(
        """(%x: f32[1,2,5], %w: f32[2,2,1], %k: f32[2]) -> (%a, %c) {
            %a: f32[1,2,5] = Conv(%x, %w)
            %b: f32[2] = Relu(%k)
            %c: f32[1,2,5] = Conv(%x, %w, %b)
        }"""
    )
    assert promising(graph, "Conv(x, w, Relu(b))") == ["c"]
    assert promising(graph, "Conv(x, w, b?)") == ["a", "c"]
