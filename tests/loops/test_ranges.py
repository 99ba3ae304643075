"""Interval analysis: sound everywhere, and tight on the shapes that kernels have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.loops.indices import CONDITIONS, INDICES, RANGES, evaluate, points
from tests.turns import examples
from weft.dtypes import DType
from weft.loops.nodes import Binary, Cast, For, If, Load, Select, Store, Var
from weft.loops.ranges import Facts
from weft.loops.simplify import assuming, simplify
from weft.loops.text import parse
from weft.loops.walk import index

A, B = Var("a"), Var("b")


@settings(max_examples=examples(400), deadline=None)
@given(INDICES, CONDITIONS, RANGES)
def test_every_value_lies_in_the_interval(expr, condition, ranges):
    facts = Facts().bind(ranges)
    given_condition = facts.assume(condition)
    refuted = facts.assume(condition, False)
    for values in points(ranges):
        value = evaluate(expr, values)
        low, high = facts.range(expr)
        assert low <= value <= high
        where = given_condition if evaluate(condition, values) else refuted
        assert not where.impossible
        low, high = where.range(expr)
        assert low <= value <= high


@settings(max_examples=examples(400), deadline=None)
@given(CONDITIONS, CONDITIONS, RANGES)
def test_decisions_hold(condition, assumed, ranges):
    facts = Facts().bind(ranges)
    narrower = facts.assume(assumed)
    for values in points(ranges):
        truth = bool(evaluate(condition, values))
        assert facts.decide(condition) in (None, truth)
        if evaluate(assumed, values):
            assert narrower.decide(condition) in (None, truth)


def test_selections_in_guards_take_little_work(monkeypatch):
    narrowed: list[object] = []
    narrow = Facts._narrow
    monkeypatch.setattr(Facts, "_narrow", lambda *a: narrowed.append(a) or narrow(*a))
    a, b, c = Var("a"), Var("b"), Var("c")
    chosen = Select(Binary("lt", c, c), a, c)
    least = Binary("min", Binary("floordiv", c, index(3)), Binary("add", a, c))
    most = Binary("max", chosen, Binary("add", b, a))
    known = Facts().bind({"a": (3, 6), "b": (-1, 3), "c": (1, 5)})
    assert known.assume(Binary("gt", least, most)).impossible
    # It were 19,089 where each side of the selection put all facts to one another.
    assert len(narrowed) < 1000


def condition_of(text: str):
    kernel = parse(f"kernel k(x: i64[9] read, n: i32[9] read) {{ if {text} {{ }} }}")
    (only,) = kernel.body
    assert isinstance(only, If)
    return only.condition


def index_of(text: str):
    condition = condition_of(f"{text} == 0")
    assert isinstance(condition, Binary)
    return condition.lhs


@pytest.mark.parametrize(
    ("ranges", "assumed", "expr", "expected"),
    [
        ({"y": (0, 27), "i": (0, 2)}, "0 <= y*2+i-1 and y*2+i-1 < 56", "y*2+i-1", (0, 55)),
        ({"y": (0, 27), "i": (0, 2)}, "1 - y*2 <= i and i < 57 - y*2", "y*2+i-1", (0, 55)),
        ({"o": (0, 3), "i": (0, 15)}, "o*16 + i < 50", "o*16 + i", (0, 49)),
        ({"o": (0, 3), "i": (0, 15)}, "o*16 + i < 50", "o*32 + i*2 + 1", (1, 99)),
        # Two guards, one flattened index.
        (
            {"y": (0, 7), "i": (0, 2), "x": (0, 7), "j": (0, 2)},
            "0 <= y+i-1 and y+i-1 < 8 and 0 <= x+j-1 and x+j-1 < 8",
            "(y+i-1)*8 + (x+j-1)",
            (0, 63),
        ),
        # What data says is as good as what loops say.
        ({"i": (0, 8)}, "0 <= x[i] and x[i] < 5", "x[i]", (0, 4)),
        ({"i": (0, 8)}, "x[i] + 1 < 5 and 0 <= x[i] + 1", "x[i]", (-1, 3)),
        ({"i": (0, 8)}, "not (x[i] < 0 or x[i] > 4)", "x[i]", (0, 4)),
        ({"i": (0, 8)}, "i64(n[i]) >= 0 and n[i] < 5:i32", "i64(n[i])", (0, 4)),
        ({"i": (0, 8)}, "i >= 0", "min(max(x[i], 0), 4)", (0, 4)),
        ({"i": (0, 8)}, "i >= 0", "select(x[i] < 0, 0, min(x[i], 4))", (0, 4)),
        ({"i": (0, 8)}, "i < min(a, 4) and max(b, 2) <= i", "i", (2, 3)),
        # As in transposed convolution.
        (
            {"y": (0, 15), "i": (0, 2)},
            "(y - i) % 2 == 0 and 0 <= (y-i)//2 and (y-i)//2 < 8",
            "(y - i)//2",
            (0, 7),
        ),
        # Bounds of loops that were divided, as of dilated windows.
        (
            {"y": (0, 8), "i": (0, 2)},
            "(3 - y)//2 <= i and i < min(3, (10 - y)//2 + 1)",
            "y + i*2 - 2",
            (0, 8),
        ),
        ({"y": (0, 6), "i": (0, 1)}, "i < (0 - (y+1)%2)//2 + 2", "(y+1)%2 + i*2", (0, 2)),
        ({"z": (0, 1)}, "z >= 0", "z + (0 - z)//2*2 + 1", (0, 1)),
        # A remainder says where the dividend may end.
        ({"c": (0, 23)}, "c % 8 < 4", "c + 4", (4, 23)),
        ({"c": (0, 23)}, "c % 8 >= 4", "c - 4", (0, 19)),
        ({"a": (1, 17), "b": (0, 2)}, "(a + b*20) % 6 == 5", "a + b*20", (5, 53)),
        ({"f": (0, 55)}, "f >= 0", "f // 8", (0, 6)),
        ({"f": (0, 55)}, "f >= 0", "f % 8", (0, 7)),
        ({"f": (0, 55)}, "f != 0", "f", (1, 55)),
        # A quotient bounds what is divided.
        ({"y": (0, 15)}, "y//8*8 + y//4%2 <= 0", "y//4", (0, 0)),
    ],
)
def test_interval_under_an_assumption(ranges, assumed, expr, expected):
    facts = Facts().bind(ranges).assume(condition_of(assumed))
    assert facts.range(index_of(expr)) == expected


def test_loop_bounds_that_are_expressions_are_assumptions():
    start = Binary("max", index(0), Binary("sub", index(1), Binary("mul", A, index(2))))
    stop = Binary("min", index(3), Binary("sub", index(57), Binary("mul", A, index(2))))
    inside = Facts().bind({"a": (0, 28)}).enter(For("b", start, stop, ()))
    assert inside.range(index_of("a*2 + b - 1")) == (0, 55)


def test_contradictions_are_impossible():
    facts = Facts().bind({"a": (0, 3), "b": (0, 3)})
    assert facts.assume(condition_of("a > 3")).impossible
    assert facts.assume(condition_of("a + b < 2 and a + b > 3")).impossible
    assert not facts.assume(condition_of("a > 2")).impossible


def test_what_may_wrap_is_not_trusted():
    load = Load("x", (index(0),), DType.I64)
    low, high = DType.I64.limits
    facts = Facts().assume(Binary("lt", Binary("add", load, index(1)), index(5)))
    # load + 1 wraps to the smallest integer, which is below 5.
    assert facts.range(load) == (low, high)
    assert Facts().range(Binary("mul", load, index(2))) == (low, high)
    narrow = Load("n", (index(0),), DType.I8)
    one = Cast(DType.I8, index(1))
    assert Facts().range(Binary("add", narrow, one)) == (-128, 127)
    assert Facts().range(Cast(DType.I64, narrow)) == (-128, 127)


def test_a_constant_that_wraps_is_no_bound():
    assert (
        not Facts()
        .bind({"a": (0, 9)})
        .assume(condition_of(f"a < 1 + {2**63 - 1}"), False)
        .impossible
    )


def test_facts_about_data_end_where_the_data_are_stored_to():
    condition = condition_of("0 <= x[0] and x[0] < 5")
    load = index_of("x[0]")
    overwrites = (Store("x", (index(0),), index(99)),)
    assert Facts().assume(condition).range(load) == (0, 4)
    assert Facts().assume(condition, True, overwrites).range(load) == DType.I64.limits


def test_the_sides_of_a_selection_know_its_condition():
    clamp = Select(Binary("lt", A, B), A, B)
    facts = Facts().bind({"a": (0, 9), "b": (3, 5)})
    assert facts.range(clamp) == (0, 5)


def test_a_minimum_is_bounded_beside_its_arms():
    """Its quotient said that it is 4 at least: from there, 5 follows for it, not for an arm."""
    facts = Facts().bind({"b": (0, 2), "p": (0, 2)})
    known = facts.assume(condition_of("min(b*3+p, 7)//4*4-1 >= 0 and min(b*3+p, 7)*4-17 >= 0"))
    assert known.range(index_of("min(b*3+p, 7)*4-17")) == (3, 11)


def test_conditions_are_known_in_the_terms_that_they_leave():
    """``b`` can only be 1, so that indices are simplified with it."""
    facts = Facts().bind({"b": (0, 1), "p": (0, 3)})
    condition = condition_of("(b*4+p)//3*4-1 >= 0 and (b*4+p)%3*4-1 >= 0 and b >= 1")
    index = simplify(index_of("(b*4+p)%3*4-1"), assuming(condition, facts, ()))
    assert assuming(condition, facts, ()).range(index) == (3, 7)
