"""Equal expressions: their numbers, and what replaces them."""

from __future__ import annotations

from weft.dtypes import DType
from weft.loops.nodes import Axis, Binary, Const, Load, Reduce, Unary, Var
from weft.loops.text import show_expr
from weft.loops.value_numbering import Numbering, ValueNumbers
from weft.loops.walk import map_expr, rename_axes

A, K = Var("a"), Var("k")
X = Load("x", (A, K), DType.F32)
TOTAL = Reduce("sum", (Axis("k", 4),), Binary("mul", X, X))


def test_numbering_sees_through_axis_names_and_tells_zeros_apart():
    number = Numbering()
    other = rename_axes(TOTAL, lambda name: f"{name}_x")
    assert number(TOTAL) == number(other)
    # A copy that shares nothing with the first.
    copy = map_expr(TOTAL, lambda node: Var("a") if node == A else node)
    assert number(copy) == number(TOTAL)
    zeros = [Const(zero, DType.F32) for zero in (0.0, -0.0)]
    assert zeros[0] == zeros[1]
    assert number(zeros[0]) != number(zeros[1])
    inner = Reduce("sum", (Axis("i", 2),), Reduce("sum", (Axis("j", 2),), Var("i")))
    outer = Reduce("sum", (Axis("i", 2),), Reduce("sum", (Axis("j", 2),), Var("j")))
    assert number(inner) != number(outer)


def test_numbering_costs_the_distinct_nodes():
    value = X
    for _ in range(200):
        value = Binary("add", value, value)
    assert Numbering()(value) == 202


def test_the_largest_known_part_is_replaced():
    known = ValueNumbers()
    known.add(TOTAL, Load("total", (), DType.F32))
    known.add(Unary("exp", TOTAL), Load("power", (), DType.F32))
    # Whatever the axis is called; a part of another op, or of another operand, stays.
    again = rename_axes(TOTAL, lambda name: f"{name}_x")
    value = Binary("add", Unary("exp", again), Binary("mul", again, Unary("exp", X)))
    assert show_expr(known.settled(value)) == "power[] + total[] * exp(x[a, k])"
    assert known.find(X) is None
