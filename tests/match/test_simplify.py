"""Repetitions of repetitions, and what a query cannot do without."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.match.test_matcher import graph_of
from weft.match.compile import compile_query
from weft.match.parse import parse
from weft.match.pattern import PatternRepeat
from weft.match.query import query
from weft.match.simplify import simplified

MOST = 30


def counts(repeat: PatternRepeat, end: int = MOST) -> set[int]:
    return set(range(repeat.least, (end if repeat.most is None else repeat.most) + 1))


@settings(deadline=None)
@given(*[st.integers(0, 4), st.one_of(st.none(), st.integers(0, 4))] * 2)
def test_counts_stay_the_same(least: int, more: int | None, low: int, span: int | None) -> None:
    outer = "" if more is None else least + more
    inner = "" if span is None else low + span
    (statement,) = parse(f"(Relu{{{low},{inner}}}){{{least},{outer}}}").statements
    repeat = statement.expression
    assert isinstance(repeat, PatternRepeat)
    assert isinstance(repeat.body, PatternRepeat)
    reached: set[int] = set()
    sums = {0}
    for rounds in range(MOST + 1):
        if rounds in counts(repeat):
            reached |= sums
        sums = {a + b for a in sums for b in counts(repeat.body) if a + b <= MOST}
    new = simplified(statement).expression
    assert isinstance(new, PatternRepeat)
    simple = not isinstance(new.body, PatternRepeat)
    without_gaps = reached == set(range(min(reached), max(reached) + 1))
    assert simple == without_gaps
    if simple:
        assert {each for each in counts(new) if each <= MOST} == reached


CHAIN = graph_of(
    """(%x: f32[4]) -> (%d) {
        %a: f32[4] = Relu(%x)
        %b: f32[4] = Neg(%a)
        %c: f32[4] = Relu(%b)
        %d: f32[4] = Neg(%c)
    }"""
)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("((*?)*)* -> Neg", "** -> Neg"),
        ("((n: *)+)* -> output", "(n: *)* -> output"),
        ("((n: Relu -> Neg){1,2}){1,2}", "(n: Relu -> Neg){1,4}"),
        ("((n: Relu){1})? -> Neg", "(n: Relu)? -> Neg"),
    ],
)
def test_matches_stay_the_same(text: str, same: str) -> None:
    def told(asked: str) -> list[object]:
        found = query(CHAIN, asked, overlaps="every")
        return [([node.name for node in each.nodes], each.lists, each.named) for each in found]

    assert told(text) == told(same) != []


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("Conv -> Relu? -> (Add | Add -> Neg) -> (Exp)*", {"Conv", "Add"}),
        ("* -> (Relu){2,3} -> (?= Neg) -> (?! Exp) -> !Add", {"Relu", "Neg"}),
        ("y = Add{Neg, (Relu | Exp)}", {"Add", "Neg"}),
        ("s = Conv(x, w); (s -> Relu)? -> Neg", {"Neg"}),
    ],
)
def test_what_is_needed(text: str, needs: set[str]) -> None:
    assert compile_query(text).needs == needs


def test_a_missing_op_ends_the_search_before_it_begins() -> None:
    assert len(query(CHAIN, "((* | * -> *)* | (* -> *)*)* -> Gemm")) == 0
