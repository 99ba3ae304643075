"""Simplification: equal in value everywhere, normal in form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from tests.loops.indices import CONDITIONS, INDICES, RANGES, evaluate, points
from tests.loops.test_ranges import condition_of, index_of
from tests.turns import examples
from weft.dtypes import DType
from weft.loops.nodes import Binary, Bits, Cast, Const, Load, Select, Unary, Var
from weft.loops.ranges import Facts
from weft.loops.simplify import simplify, simplify_kernel
from weft.loops.text import parse, show, show_expr
from weft.loops.walk import index


@settings(max_examples=examples(500), deadline=None)
@given(INDICES, RANGES)
def test_an_index_keeps_its_value(expr, ranges):
    simple = simplify(expr, Facts().bind(ranges))
    for values in points(ranges):
        assert evaluate(simple, values) == evaluate(expr, values)


@settings(max_examples=examples(300), deadline=None)
@given(INDICES, CONDITIONS, RANGES)
def test_an_index_keeps_its_value_under_an_assumption(expr, condition, ranges):
    simple = simplify(expr, Facts().bind(ranges).assume(condition))
    for values in points(ranges):
        if evaluate(condition, values):
            assert evaluate(simple, values) == evaluate(expr, values)


@settings(max_examples=examples(300), deadline=None)
@given(CONDITIONS, RANGES)
def test_a_condition_keeps_its_truth(condition, ranges):
    simple = simplify(condition, Facts().bind(ranges))
    for values in points(ranges):
        assert bool(evaluate(simple, values)) == bool(evaluate(condition, values))


@settings(max_examples=examples(200), deadline=None)
@given(INDICES, RANGES)
def test_simplifying_again_keeps_the_value_of_the_first(expr, ranges):
    facts = Facts().bind(ranges)
    once = simplify(expr, facts)
    assert simplify(once, Facts().bind(ranges)) is not None
    for values in points(ranges):
        assert evaluate(simplify(once, facts), values) == evaluate(once, values)


@pytest.mark.parametrize(
    ("ranges", "text", "expected"),
    [
        ({"a": (0, 9), "b": (0, 15)}, "(16*a + b) // 16", "a"),
        ({"a": (0, 9), "b": (0, 15)}, "(16*a + b) % 16", "b"),
        ({"a": (0, 9), "b": (0, 15)}, "(32*a + 2*b) // 16", "a * 2 + b // 8"),
        ({"a": (0, 9), "b": (0, 15)}, "(a*16 + b) // 7 * 7 + (a*16 + b) % 7", "a * 16 + b"),
        ({"a": (0, 99)}, "a // 4 // 5", "a // 20"),
        ({"a": (0, 9)}, "a + 3 - a - 1", "2"),
        ({"a": (0, 9)}, "a * 3 - 2 * a + 0", "a"),
        ({"a": (0, 9)}, "max(a, 0)", "a"),
        ({"a": (0, 9)}, "min(a + 3, a + 1)", "a + 1"),
        ({"a": (4, 4)}, "a + 1", "5"),
        ({"a": (0, 9)}, "select(a < 10, a, 7)", "a"),
        ({"a": (0, 9)}, "select(a < 5, min(a, 4), max(a, 5))", "a"),
        ({"a": (0, 9)}, "0 - a", "0 - a"),
        ({"a": (0, 9), "b": (0, 9)}, "5 - 2*a + b", "b - a * 2 + 5"),
        # It may wrap, so it stays.
        ({}, "(x[0]*16 + 3) // 16", "(x[0] * 16 + 3) // 16"),
    ],
)
def test_index_forms(ranges, text, expected):
    assert show_expr(simplify(index_of(text), Facts().bind(ranges))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < 10", "true"),
        ("a >= 10", "false"),
        ("a < 5 and a < 10", "a < 5"),
        ("a < 5 and a > 7", "false"),
        ("a < 5 or a < 10", "true"),
        ("not (not (a < 5))", "a < 5"),
        ("not (a < 5 and (a == 3 or x[a] > 2))", "a >= 5 or a != 3 and x[a] <= 2"),
        ("a < 5 and x[a] > 0 and a < 7", "a < 5 and x[a] > 0"),
    ],
)
def test_condition_forms(text, expected):
    simple = simplify(condition_of(text), Facts().bind({"a": (0, 9)}))
    assert show_expr(simple) == expected


X = Load("x", (index(0),), DType.F32)


def f32(value: float) -> Const:
    return Const(value, DType.F32)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Binary("mul", X, f32(1.0)), X),
        (Binary("mul", f32(1.0), X), X),
        (Binary("div", X, f32(1.0)), X),
        (Binary("sub", X, f32(0.0)), X),
        (Cast(DType.F32, X), X),
        (Bits(DType.F32, X), X),
        # -0.0 + 0.0 is 0.0, NaN * 0 is NaN, x - -0.0 is x + 0.0: none of them goes away.
        (Binary("add", X, f32(0.0)), Binary("add", X, f32(0.0))),
        (Binary("mul", X, f32(0.0)), Binary("mul", X, f32(0.0))),
        (Binary("sub", X, f32(-0.0)), Binary("sub", X, f32(-0.0))),
        # Never reordered.
        (
            Binary("add", Binary("add", X, f32(1.0)), f32(2.0)),
            Binary("add", Binary("add", X, f32(1.0)), f32(2.0)),
        ),
    ],
)
def test_floats_keep_every_value(expr, expected):
    assert simplify(expr) == expected


def test_constants_are_folded_in_their_type():
    tenth, fifth = f32(0.1), f32(0.2)
    folded = simplify(Binary("add", tenth, fifth))
    assert folded == f32(float(np.float32(0.1) + np.float32(0.2)))
    top = Const(127, DType.I8)
    assert simplify(Binary("add", top, Const(1, DType.I8))) == Const(-128, DType.I8)
    assert simplify(Cast(DType.U8, Const(-1, DType.I64))) == Const(255, DType.U8)
    assert simplify(Cast(DType.I32, f32(-2.7))) == Const(-2, DType.I32)
    assert simplify(Cast(DType.BOOL, f32(0.5))) == Const(True, DType.BOOL)
    zero = simplify(Unary("neg", f32(0.0)))
    assert isinstance(zero, Const)
    assert math.copysign(1.0, zero.value) == -1.0
    half = simplify(Binary("mul", Const(0.1, DType.F16), Const(3.0, DType.F16)))
    assert half == Const(float(np.float16(0.1) * np.float16(3.0)), DType.F16)


def test_a_cast_that_c_leaves_undefined_is_left_alone():
    for value in (1e10, float("nan"), float("inf")):
        assert isinstance(simplify(Cast(DType.I32, f32(value))), Cast)


def test_not_less_is_not_at_least_for_floats():
    less = Binary("lt", X, f32(1.0))
    assert simplify(Unary("not", less)) == Unary("not", less)
    equal = Binary("eq", X, f32(1.0))
    assert simplify(Unary("not", equal)) == Binary("ne", X, f32(1.0))


def test_equal_sides_of_a_selection_become_one_unless_zeros_may_differ():
    condition = condition_of("x[0] < 3")
    assert simplify(Select(condition, Var("a"), Var("a"))) == Var("a")
    zeros = Select(condition, f32(0.0), f32(-0.0))
    assert simplify(zeros) == zeros


def test_statements():
    kernel = parse("""
    kernel k(x: f32[8] read, y: f32[8] write) {
      for i in 0..8 {
        if i < 9 { y[i] = x[i] } else { y[i] = 0.0 }
        for j in i..i + 1 { y[j] = x[j + 0] }
        for j1 in 3..2 { y[j1] = 0.0 }
        if i < 0 { y[i] = 1.0 } else { y[i] = select(0 <= i, x[i], 2.0) }
        if i == 2 { } else { y[i] = 3.0 }
        if i < 5 { if i < 6 { y[i] = 4.0 } }
        if i == 3 { y[i] = x[i + 1] }
      }
      for z in 4..5 parallel { y[z] = x[z] }
    }
    """)
    assert (
        show(simplify_kernel(kernel))
        == """\
kernel k(x: f32[8] read, y: f32[8] write) {
  for i in 0..8 {
    y[i] = x[i]
    y[i] = x[i]
    y[i] = x[i]
    if i != 2 {
      y[i] = 3.0
    }
    if i < 5 {
      y[i] = 4.0
    }
    if i == 3 {
      y[3] = x[4]
    }
  }
  y[4] = x[4]
}
"""
    )


def test_what_nobody_reads_is_not_computed():
    kernel = parse("""
    kernel k(x: i8[8] read, y: i8[8] write) {
      for i in 0..2 {
        local sum: i32[] {
          local once: f32[] {
            sum[] = 0:i32
            for j in 0..4 { sum[] = sum[] + i32(x[4 * i + j]) }
            once[] = f32(sum[])
            y[i] = min(max(i8(once[]), 127:i8), 127:i8)
          }
        }
      }
    }
    """)
    assert (
        show(simplify_kernel(kernel))
        == """\
kernel k(x: i8[8] read, y: i8[8] write) {
  for i in 0..2 {
    y[i] = 127:i8
  }
}
"""
    )


def test_cost_is_that_of_the_distinct_nodes():
    value = X
    for _ in range(60):
        value = Binary("add", value, value)
    assert simplify(value) is value
    deep = Var("a")
    for _ in range(60):
        deep = Binary("max", deep, Binary("add", deep, index(1)))
    assert show_expr(simplify(deep, Facts().bind({"a": (0, 9)}))) == "a + 60"
