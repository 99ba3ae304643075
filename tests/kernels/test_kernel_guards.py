"""Guards of reductions: taken out of the value, and turned into bounds of taps."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.indices import evaluate
from weft.kernels.guards import Guard, unguarded
from weft.kernels.products import tiled_choice
from weft.loops.affine import AffineForm
from weft.loops.nodes import Axis, Binary, Expr, For, Reduce, Store, Var
from weft.loops.text import parse, show_expr
from weft.loops.walk import index

TAPS = 3


def expression(text: str) -> Expr:
    """An expression over positions ``y`` and ``z`` and taps ``i`` and ``j``."""
    kernel = parse(
        "kernel k(x: f32[9] read, w: f32[9] read, n: i64[9] read, out: f32[9] write) "
        f"{{ for y in 0..9 {{ for z in 0..9 {{ for i in 0..3 {{ for j in 0..3 {{ "
        f"out[y] = {text} }} }} }} }} }}"
    )
    stmt = kernel.body[0]
    while isinstance(stmt, For):
        stmt = stmt.body[0]
    assert isinstance(stmt, Store)
    return stmt.value


def reduce_of(text: str, op: str = "sum") -> Reduce:
    return Reduce(op, (Axis("i", TAPS), Axis("j", TAPS)), expression(text))


@pytest.mark.parametrize(
    ("value", "op", "bare", "guards"),
    [
        (
            "select(0 <= y + i - 1 and y + i - 1 < 8, x[y + i - 1], 0.0) * w[i]",
            "sum",
            "x[y + i - 1] * w[i]",
            [
                Guard(AffineForm({Var("y"): 1}, -1), "i", 1),
                Guard(AffineForm({Var("y"): -1}, 8), "i", -1),
            ],
        ),
        (
            "w[i] * select(y*2 - j > 3, x[y], 0.0)",
            "sum",
            "w[i] * x[y]",
            [Guard(AffineForm({Var("y"): 2}, -4), "j", -1)],
        ),
        ("select(i >= 1, x[i], -inf)", "max", "x[i]", [Guard(AffineForm({}, -1), "i", 1)]),
        (
            "select((y + 1) // 2 - i < 4, x[i], inf)",
            "min",
            "x[i]",
            [Guard(AffineForm({expression("f32((y + 1) // 2)").x: -1}, 3), "i", 1)],
        ),
        ("x[i] * w[j]", "sum", "x[i] * w[j]", []),
    ],
)
def test_guards_are_taken_out(value, op, bare, guards):
    found = unguarded(reduce_of(value, op))
    assert found is not None
    assert show_expr(found[0]) == bare
    assert list(found[1]) == guards


@pytest.mark.parametrize(
    ("value", "op"),
    [
        ("select(i >= 1, x[i], 1.0)", "sum"),  # not what changes nothing
        ("select(i >= 1, x[i], 0.0)", "max"),
        ("select(y >= 1, x[i], 0.0)", "sum"),  # no tap
        ("select(i + j >= 1, x[i], 0.0)", "sum"),  # two taps
        ("select(i // 2 >= 1, x[i], 0.0)", "sum"),  # not affine in a tap
        ("select(n[y] + i >= 1, x[i], 0.0)", "sum"),  # data
        ("select(i != 1, x[i], 0.0)", "sum"),
        ("select(x[i] > 0.0, x[i], 0.0)", "sum"),
    ],
)
def test_other_conditions_are_refused(value, op):
    assert unguarded(reduce_of(value, op)) is None


coefficients = st.integers(-4, 4).filter(bool)


@given(st.integers(-3, 3), coefficients, st.integers(-9, 9))
def test_bounds_of_taps_are_where_the_guard_holds(factor, inner, const):
    outer = AffineForm({Var("y"): factor} if factor else {}, const)
    guard = Guard(outer, "i", inner)
    start, stop = guard.least(), guard.last()
    assert (start is None) == (inner < 0)
    assert (stop is None) == (inner > 0)
    for y, tap in product(range(5), range(-20, 20)):
        inside = (start is None or tap >= evaluate(start, {"y": y})) and (
            stop is None or tap < evaluate(stop, {"y": y})
        )
        assert inside == (factor * y + inner * tap + const >= 0)
        if guard.is_along("y"):
            assert inside == guard.holds(y, tap)


def test_where_a_guard_stands():
    quotient = Binary("floordiv", Binary("add", Var("y"), Var("z")), index(2))
    guard = Guard(AffineForm({quotient: 1, Var("y"): 2}, 0), "i", 1)
    assert guard.outs == {"y", "z"}
    assert not guard.is_along("y")
    assert Guard(AffineForm({Var("y"): 2}, 7), "i", 1).is_along("y")
    assert not Guard(AffineForm({}, 7), "i", 1).is_along("y")


@pytest.mark.parametrize("factor", [-3, -1, 0, 1, 2])
@pytest.mark.parametrize("inner", [-2, 0, 1])
@pytest.mark.parametrize("const", [-7, 0, 5])
def test_outputs_for_which_a_guard_holds(factor: int, inner: int, const: int) -> None:
    outer = AffineForm({Var("y"): factor} if factor else {}, const)
    guard = Guard(outer, "i", inner)
    for tap in range(5):
        first, last = guard.outs_inside(tap)
        found = [first <= out <= last for out in range(12)]
        assert found == [guard.holds(out, tap) for out in range(12)]


def test_the_part_of_a_window_that_lies_inside() -> None:
    # Of 3 taps around 4 outputs the first of the first and the last of the last are outside.
    guards = [
        Guard(AffineForm({Var("y"): 1}, -1), "i", 1),
        Guard(AffineForm({Var("y"): -1}, 4), "i", -1),
    ]
    assert tiled_choice.inside(guards, 4, 3) == 10 / 12
    # Windows as large as files may claim take no time.
    assert 0 < tiled_choice.inside(guards, 10**9, 10**9) < 1
