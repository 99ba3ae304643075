"""The order in which statements are run: what is dear waits, and nothing changes its meaning."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.match.test_matcher import graph_of
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.match.order import in_order, opened, roots_of
from weft.match.parse import parse
from weft.match.query import query


def residual(blocks: int) -> Graph:
    """Blocks with a shortcut each: ever more ways lead from one to the other."""
    lines: list[str] = []
    for place in range(blocks):
        lines += [
            f"%n{place}: f32[4] = Neg(%v{place})",
            f"%r{place}: f32[4] = Relu(%n{place})",
            f"%e{place}: f32[4] = Exp(%r{place})",
            f"%v{place + 1}: f32[4] = Add(%e{place}, %n{place})",
        ]
    return graph_of(f"(%v0: f32[4]) -> (%v{blocks}) {{\n" + "\n".join(lines) + "\n}")


def test_a_join_bounds_what_lies_between() -> None:
    found = query(residual(250), "x: Neg -> ** -> a: Add; x -> a")
    assert [(match.root.name, match.node("a").name) for match in found] == [
        (f"n{place}", f"v{place + 1}") for place in range(250)
    ]
    assert {len(match.nodes) for match in found} == {4}


def test_without_the_join_there_are_too_many() -> None:
    with pytest.raises(UserError, match="it can match in too many ways"):
        query(residual(250), "x: Neg -> ** -> a: Add")


STATEMENTS = ("x: Neg -> ** -> a: Add", "x -> a", "a -> n: Neg", "y: * -> x")


@pytest.mark.parametrize("order", list(permutations(STATEMENTS)))
def test_order_says_nothing_about_what_matches(order: tuple[str, ...]) -> None:
    found = query(residual(4), "; ".join(order), overlaps="every")
    told = {
        tuple(sorted((name, node.name) for name, node in match.named.items())) for match in found
    }
    assert told == {
        (("a", f"v{place}"), ("n", f"n{place}"), ("x", f"n{place - 1}"), ("y", f"v{place - 1}"))
        for place in (2, 3)
    }


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("x: Neg -> ** -> a: Add; x -> a", [(0, True), (2, True), (1, True)]),
        ("Neg -> ** -> a: Add; a -> Exp", [(0, True), (1, True)]),
        ("x -> a; x: Neg -> ** -> a: Add", [(0, True), (1, True)]),
        ("** -> a: Add; a -> Exp", [(0, True), (1, True)]),
        ("Neg -> a: Add; a -> Exp", [(0, True), (1, True)]),
        ("input x -> b: Neg -> ** -> Add; b -> Exp", [(0, True), (2, True), (1, True)]),
        ("y = Add(x, Neg); x -> ** -> Exp; x -> Relu", [(0, False), (2, True), (1, True)]),
    ],
)
def test_the_order(text: str, order: list[tuple[int, bool]]) -> None:
    statements = opened(parse(text).statements)
    found = in_order(roots_of(statements))
    assert [(statements.index(each), forward) for each, forward in found] == order


def test_a_match_begins_where_the_first_statement_does() -> None:
    graph = residual(3)
    for text in ("x: Neg -> ** -> a: Add; x -> a", "n: Neg -> Relu(x) -> ** -> Add; x -> Add"):
        assert {match.root.op for match in query(graph, text)} == {"Neg"}
