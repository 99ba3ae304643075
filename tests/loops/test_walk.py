"""Walks: types, free variables, substitution and renaming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from tests.counted import lines_run
from weft.dtypes import DType
from weft.loops.bounds import unproven
from weft.loops.nodes import (
    Axis,
    Binary,
    Bits,
    Buffer,
    Cast,
    Const,
    Conversion,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    Var,
)
from weft.loops.ranges import Facts
from weft.loops.simplify import simplify
from weft.loops.statements import loaded, names_in, rename_buffers, stored, substitute_stmts
from weft.loops.text import parse, show, show_expr
from weft.loops.value_numbering import Numbering
from weft.loops.walk import (
    FreshNames,
    bound_vars,
    dtype_of,
    free_vars,
    index,
    rename_axes,
    substitute,
    walk,
)

A, B, K = Var("a"), Var("b"), Var("k")
X = Load("x", (A, K), DType.F16)
TOTAL = Reduce("sum", (Axis("k", 4),), Binary("mul", X, X))


@pytest.mark.parametrize(
    ("expr", "dtype"),
    [
        (A, DType.I64),
        (X, DType.F16),
        (TOTAL, DType.F16),
        (Binary("lt", X, X), DType.BOOL),
        (Unary("isnan", X), DType.BOOL),
        (Unary("neg", X), DType.F16),
        (Cast(DType.U8, X), DType.U8),
        (Bits(DType.I32, X), DType.I32),
        (Select(Binary("eq", A, B), A, B), DType.I64),
        (Const(True, DType.BOOL), DType.BOOL),
    ],
)
def test_types(expr, dtype):
    assert dtype_of(expr) is dtype


def test_axes_are_bound_inside_their_reduction_only():
    assert free_vars(TOTAL) == {"a"}
    assert free_vars(Binary("add", TOTAL, Cast(DType.F16, K))) == {"a", "k"}
    assert bound_vars(TOTAL) == {"k"}


def test_substitution_is_simultaneous_and_stops_at_axes():
    swapped = substitute(Binary("sub", A, B), {"a": B, "b": A})
    assert swapped == Binary("sub", B, A)
    replaced = substitute(TOTAL, {"a": index(3), "k": index(9)})
    assert show_expr(replaced) == "sum(k:4 | x[3, k] * x[3, k])"
    assert substitute(TOTAL, {"z": A}) is TOTAL


def test_axes_are_renamed_with_what_they_bind():
    nested = Reduce("max", (Axis("k", 2),), Binary("add", TOTAL, Cast(DType.F16, K)))
    renamed = rename_axes(nested, FreshNames({"k"}))
    assert show_expr(renamed) == "max(k_2:2 | sum(k_1:4 | x[a, k_1] * x[a, k_1]) + f16(k_2))"


def test_walks_cost_the_distinct_nodes():
    value = X
    for _ in range(200):
        value = Binary("add", value, value)
    assert sum(1 for _ in walk(value)) == 203
    assert free_vars(value) == {"a", "k"}
    assert substitute(value, {"z": A}) is value


def test_names_are_not_handed_out_twice():
    names = FreshNames({"i"})
    assert [names("i"), names("i"), names("j"), names("for")] == ["i_1", "i_2", "j", "for_1"]


KERNEL = """\
kernel k(x: i64[4] read, y: i64[4] write) {
  for i in 0..x[0] {
    local t: i64[] {
      t[] = n + i
      if t[] < 4 {
        y[t[]] = x[i]
      }
    }
  }
}
"""


def test_what_statements_name():
    kernel = parse(KERNEL)
    assert stored(kernel.body) == {"t", "y"}
    assert loaded(kernel.body) == {"t", "x"}
    assert names_in(kernel.body) == {"i", "n", "t", "x", "y"}


def test_statements_are_rewritten_everywhere():
    kernel = parse(KERNEL)
    renamed = rename_buffers(kernel.body, {"x": "u", "t": "v"})
    assert stored(renamed) == {"v", "y"}
    assert loaded(renamed) == {"v", "u"}
    (loop,) = substitute_stmts(kernel.body, {"n": index(7)})
    text = show(type(kernel)("k", kernel.params, (loop,)))
    assert text == KERNEL.replace("n + i", "7 + i")


@dataclass(frozen=True, slots=True)
class Same(Conversion):
    """A node that nothing but the walks knows."""

    dtype: DType
    x: Expr


def test_a_new_conversion_needs_no_case():
    kept: Any = Same(DType.F32, Load("x", (A,), DType.F64))
    assert dtype_of(kept) is DType.F32
    moved = substitute(kept, {"a": index(2)})
    assert moved == Same(DType.F32, Load("x", (index(2),), DType.F64))
    numbers, again = Numbering(), cast("Any", Same(DType.F32, kept.x))
    assert numbers(kept) == numbers(again) != numbers(Cast(DType.F32, kept.x))
    nothing: Any = Same(DType.F64, kept.x)
    assert simplify(nothing) == kept.x
    outside = unproven(kept, Facts().bind({"a": (0, 4)}), {"x": Buffer("x", DType.F64, (4,))})
    assert outside is not None
    assert (outside.buffer, outside.interval) == ("x", (0, 4))


def test_types_of_long_sums_are_told_at_once():
    one = total = Load("x", (Var("i"),), DType.F32)
    for _ in range(300):
        total = Binary("add", total, one)
    assert lines_run(lambda: dtype_of(total)) < 50
