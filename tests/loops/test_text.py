"""Text: what is printed is read back, and what cannot be read is pointed at."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loops.kernels import nests
from tests.turns import examples
from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.definition import Compute
from weft.loops.nodes import (
    BINARY_OPS,
    UNARY_OPS,
    Access,
    Axis,
    Binary,
    Bits,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Local,
    LoopKind,
    Reduce,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.text import parse, show, show_compute, show_expr, show_stmts
from weft.loops.walk import index

DTYPES = st.sampled_from(list(DType))
# Words of the text form among them, where they may be names.
NAMES = st.sampled_from(["a", "x_1", "max", "read", "select", "f32", "vector", "stride", "info"])


@st.composite
def constants(draw: st.DrawFn) -> Const:
    dtype = draw(DTYPES)
    if dtype is DType.BOOL:
        return Const(draw(st.booleans()), dtype)
    if dtype.is_float:
        value = draw(st.one_of(st.floats(allow_nan=False), st.just(math.inf), st.just(-0.0)))
        return Const(value, dtype)
    return Const(draw(st.integers(*dtype.limits)), dtype)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> Expr:
    kinds = ["const", "var"] + [
        "unary",
        "binary",
        "binary",
        "cast",
        "bits",
        "select",
        "load",
    ] * bool(depth)
    part = expressions(max(depth - 1, 0))
    match draw(st.sampled_from(kinds)):
        case "const":
            return draw(constants())
        case "var":
            return Var(draw(NAMES))
        case "unary":
            return Unary(draw(st.sampled_from(sorted(UNARY_OPS))), draw(part))
        case "binary":
            return Binary(draw(st.sampled_from(sorted(BINARY_OPS))), draw(part), draw(part))
        case "cast":
            return Cast(draw(DTYPES), draw(part))
        case "bits":
            return Bits(draw(DTYPES), draw(part))
        case "select":
            return Select(draw(part), draw(part), draw(part))
        case _:
            where = tuple(draw(part) for _ in range(draw(st.integers(0, 2))))
            return Load("b", where, DType.F16)


@st.composite
def statements(draw: st.DrawFn, depth: int = 3) -> Stmt:
    kind = draw(st.sampled_from(["for", "if", "local", "store"])) if depth else "store"
    body = st.lists(statements(max(depth - 1, 0)), max_size=2).map(tuple)
    match kind:
        case "for":
            start, stop = draw(expressions(2)), draw(expressions(2))
            return For(draw(NAMES), start, stop, draw(body), draw(st.sampled_from(LoopKind)))
        case "if":
            return If(draw(expressions(2)), draw(body), draw(body))
        case "local":
            # Its name stays declared, so loads of it find this type.
            return Local(Buffer("t", draw(DTYPES), (2, 3), Access.LOCAL), draw(body))
        case _:
            return Store("b", (draw(expressions(2)),), draw(expressions()))


BUFFER = Buffer("b", DType.F16, (4, 5), Access.WRITE, (1, 4))


@settings(max_examples=examples(400), deadline=None)
@given(expressions())
def test_expressions_round_trip(expr):
    kernel = Kernel("k", (BUFFER,), (Store("b", (index(0),), expr),))
    found = parse(show(kernel))
    assert found == kernel
    # 0.0 == -0.0, so compare the text, too.
    assert show(found) == show(kernel)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(statements(), max_size=3).map(tuple))
def test_kernels_round_trip(body):
    kernel = Kernel("k", (BUFFER, Buffer("c", DType.U8, (), Access.SCRATCH)), body)
    assert parse(show(kernel)) == kernel


@settings(max_examples=examples(50), deadline=None)
@given(nests())
def test_well_formed_kernels_round_trip(kernel):
    assert parse(show(kernel)) == kernel


def test_nan_is_read_back():
    kernel = Kernel("k", (BUFFER,), (Store("b", (index(0),), Const(math.nan, DType.F64)),))
    assert show(parse(show(kernel))) == show(kernel)


A, B, C = Var("a"), Var("b"), Var("c")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Binary("sub", Binary("sub", A, B), C), "a - b - c"),
        (Binary("sub", A, Binary("sub", B, C)), "a - (b - c)"),
        (Binary("mul", Binary("add", A, B), C), "(a + b) * c"),
        (Binary("add", A, Binary("mul", B, C)), "a + b * c"),
        (Binary("mod", A, index(4)), "a % 4"),
        (Binary("add", A, index(-1)), "a + -1"),
        (Unary("neg", index(1)), "neg(1)"),
        (Binary("lt", Binary("shl", A, B), C), "a << b < c"),
        (Binary("lt", Binary("lt", A, B), C), "a < b < c"),
        (Binary("or", A, Binary("and", B, C)), "a or b and c"),
        (Binary("and", A, Binary("or", B, C)), "a and (b or c)"),
        (Binary("min", A, Binary("fmod", B, C)), "min(a, fmod(b, c))"),
        (Cast(DType.I8, Const(0.5, DType.F32)), "i8(0.5)"),
        (Bits(DType.U32, Const(0.5, DType.F32)), "bits_u32(0.5)"),
        (Const(3, DType.I8), "3:i8"),
        (Const(1e20, DType.F64), "1e+20:f64"),
        (Const(-math.inf, DType.F32), "-inf"),
        (Const(True, DType.BOOL), "true"),
        (Load("x", (), DType.F32), "x[]"),
        (Reduce("max", (Axis("i", 3), Axis("j", 2)), A), "max(i:3, j:2 | a)"),
    ],
)
def test_expressions_read_well(expr, text):
    assert show_expr(expr) == text


def test_a_whole_kernel():
    text = """\
kernel scan(x: f32[4, 8] read, n: i64[] read, y: f32[4, 8] strides(16, 1) write) {
  for i in max(0, n[])..4 parallel {
    local total: f32[] {
      total[] = 0.0
      for j in -1..8 vector {
        if j >= 0 and j < 8 {
          total[] = total[] + x[i, j]
        } else {
          y[i, 0] = select(isnan(x[i, 0]), 0.5, f32(j - 1))
        }
      }
    }
  }
}
"""
    assert show(parse(text)) == text
    # Layout is free.
    assert show(parse(" ".join(text.split()))) == text
    assert show(parse(text.replace("j - 1", "j -1"))) == text


def test_parts_are_shown():
    stores = (Store("y", (A,), B), If(A, ()))
    assert show_stmts(stores) == "y[a] = b\nif a {\n}"
    total = Reduce("sum", (Axis("k", 8),), Load("x", (A, Var("k")), DType.F32))
    assert show_compute("y", Compute((Axis("a", 4),), total)) == "y[a:4] = sum(k:8 | x[a, k])"


HEAD = "kernel k(x: f32[4] read) {"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernal", "line 1, column 1: expected 'kernel', got 'kernal'"),
        ("kernel k(x: f31[4])", "line 1, column 13: expected a type, got 'f31'"),
        ("kernel k(x: f32[n])", "line 1, column 17: expected a whole number, got 'n'"),
        (HEAD, "line 1, column 27: expected a name, got the end of the text"),
        (HEAD + "\n  x[0] 1.0 }", "line 2, column 8: expected '=', got '1.0'"),
        (HEAD + " x[0] = y[0] }", "buffer y is loaded but not declared"),
        (HEAD + " x[0] = 1.5:i8 }", "line 1, column 39: expected a floating-point type, got 'i8'"),
        (HEAD + " x[0] = sinn(1.0) }", "line 1, column 35: expected a function of 1 arguments"),
        (HEAD + " x[0] = a ? b }", "line 1: unexpected character '?'"),
        (HEAD + " } }", "line 1, column 30: expected the end of the text, got '}'"),
        (HEAD + " for i in 0 4 { } }", "line 1, column 39: expected '..', got '4'"),
    ],
)
def test_errors_point_at_the_place(text, message):
    with pytest.raises(InternalError) as caught:
        parse(text)
    assert message in str(caught.value)
