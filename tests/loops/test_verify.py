"""Verification: what is accepted runs, what is refused says why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.counted import lines_run
from tests.loops.indices import INDICES, conditions
from tests.loops.kernels import nests, results
from tests.turns import examples
from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.interpret import run
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Const,
    For,
    If,
    Kernel,
    Load,
    Prefetch,
    Reduce,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.ranges import Facts
from weft.loops.schedule import at_loop
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import substitute_stmts, walk_stmts
from weft.loops.text import parse
from weft.loops.verify import BoundsError, verify
from weft.loops.walk import index


@settings(max_examples=examples(100), deadline=None)
@given(nests())
def test_what_is_clamped_is_proven_and_runs(kernel):
    verify(kernel)
    results(kernel)


@settings(max_examples=examples(300), deadline=None)
@given(INDICES, conditions(1), st.integers(1, 6), st.booleans())
def test_what_is_proven_never_leaves_its_buffer(where, condition, extent, lazily):
    """Random indices: the interpreter, which checks every access, must not complain."""
    load = Load("x", (where,), DType.I64)
    table = Buffer("table", DType.I64, (3,))
    x = Buffer("x", DType.I64, (extent,))
    y = Buffer("y", DType.I64, (), Access.WRITE)
    store = Store("y", (), Select(condition, load, index(0)) if lazily else load)
    body = (store,) if lazily else (If(condition, (store,)),)
    for name in ("a", "b", "c"):
        body = (For(name, index(0), index(3), body),)
    kernel = Kernel("k", (table, x, y), body)
    try:
        verify(kernel)
    except BoundsError:
        event("refused")
        return
    event("proven")
    for data in ((0, 1, 2), (5, -1, 1 << 62), (-(1 << 63), (1 << 63) - 1, 3)):
        arrays = {"table": np.array(data), "x": np.zeros(extent, np.int64)}
        run(kernel, arrays | {"y": np.zeros((), np.int64)})


@pytest.mark.parametrize(
    "body",
    [
        # Clamped data.
        "y[i] = x[min(max(n[i], 0), 7)]",
        "y[i] = x[max(min(n[i], 7), 0)]",
        "y[i] = select(0 <= n[i] and n[i] < 8, x[n[i]], 0.0)",
        "if n[i] >= 0 { if n[i] < 8 { y[n[i]] = 1.0 } }",
        "y[i] = select(n[i] < 0, 0.0, x[min(n[i], 7)])",
        "y[i] = x[n[i] % 8]",
        "y[i] = x[select(n[i] < 0, max(n[i] + 8, 0), min(n[i], 7))]",
        # Loops whose bounds are expressions.
        "for j in max(0, 3 - i)..min(4, 11 - i) { y[i] = x[i + j - 3] }",
        "for j in 0..i { y[j] = x[i - j - 1] }",
        "for j in max(0, n[i])..min(8, n[0]) { y[j] = 1.0 }",
        # Blocks and tails.
        "for o in 0..3 { for j in 0..3 { if o * 3 + j < 8 { y[o * 3 + j] = 0.0 } } }",
        "y[i // 2 * 2 + i % 2] = 1.0",
        "y[7 - i] = x[(i + 3) % 8]",
    ],
)
def test_accesses_that_kernels_need_are_proven(body):
    params = "n: i64[8] read, x: f32[8] read, y: f32[8] write"
    text = f"kernel k({params}) {{ for i in 0..8 {{ {body} }} }}"
    verify(parse(text))
    verify(simplify_kernel(parse(text)))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "y[i] = x[i + 1]",
            "kernel k: x[i + 1] may leave its buffer: index 0 lies in 1..8, its extent is 8; "
            "known there: 0 <= i <= 7",
        ),
        ("y[i - 1] = 0.0", "y[i - 1] may leave its buffer: index 0 lies in -1..6"),
        ("y[i] = x[n[i]]", "x[n[i]] may leave its buffer: index 0 lies in -9223372036854775808.."),
        # Both sides of "and" are evaluated.
        ("if i < 7 and x[i + 1] > 0.0 { y[i] = 0.0 }", "x[i + 1] may leave its buffer"),
        # The other side of a selection.
        ("y[i] = select(i < 7, 0.0, x[i + 1])", "index 0 lies in 8..8"),
        # What the condition says of data is over once they are stored to.
        ("if m[0] < 8 and m[0] >= 0 { m[0] = 99  y[m[0]] = 1.0 }", "y[m[0]] may leave its buffer"),
        # One-sided.
        ("if n[i] < 8 { y[n[i]] = 1.0 }", "index 0 lies in -9223372036854775808..7"),
        # It wraps.
        ("if n[i] + 1 < 8 and n[i] >= 0 { y[n[i]] = 1.0 }", "y[n[i]] may leave its buffer"),
    ],
)
def test_what_cannot_be_proven_is_refused(body, message):
    text = (
        "kernel k(n: i64[8] read, x: f32[8] read, m: i64[1] write, y: f32[8] write) "
        f"{{ for i in 0..8 {{ {body} }} }}"
    )
    with pytest.raises(BoundsError) as caught:
        verify(parse(text))
    assert message in str(caught.value)
    assert caught.value.dump.startswith("kernel k(")


X = Buffer("x", DType.F32, (4,))
Y = Buffer("y", DType.F32, (4,), Access.WRITE)
ZERO = Const(0.0, DType.F32)
I = Var("i")  # noqa: E741


def loop(body: str) -> str:
    return f"for i in 0..4 {{ {body} }}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x[0] = 1.0", "x is stored to, but only read"),
        ("z[0] = 1.0", "there is no buffer z here"),
        ("y[0, 0] = 1.0", "y has 1 dimensions, 2 indices are given"),
        ("y[0] = x[]", "x has 1 dimensions, 0 indices are given"),
        ("y[0] = 1", "what is stored to y is i64, not f32: 1"),
        ("y[0.5] = 1.0", "an index of y is f32, not i64: 0.5"),
        ("y[0] = x[1:i32]", "an index is not i64: x[1:i32]"),
        ("y[j] = 1.0", "there is no variable j here: j"),
        ("if x[0] { y[0] = 1.0 }", "a condition is f32, not bool: x[0]"),
        ("y[0] = x[0] + 1", "the sides of add are f32 and i64: x[0] + 1"),
        ("y[0] = select(1, 0.0, 0.0)", "the condition of a select is i64: select(1, 0.0, 0.0)"),
        (
            "y[0] = select(true, 0.0, 0)",
            "the sides of a select have different types: select(true, 0.0, 0)",
        ),
        ("y[0] = f32(exp(1))", "exp is not defined for i64: exp(1)"),
        ("y[0] = not(1.0)", "not is not defined for f32: not(1.0)"),
        ("y[0] = f32(true + true)", "add is not defined for bool: true + true"),
        ("y[0] = 1.0 << 1.0", "shl is not defined for f32: 1.0 << 1.0"),
        ("y[0] = 1.0 and 1.0", "and is not defined for f32: 1.0 and 1.0"),
        ("y[0] = f32(300:i8)", "the literal is not of its type: 300:i8"),
        ("y[0] = bits_f32(3)", "the bits of i64 are no f32: bits_f32(3)"),
        ("y[0] = f32(bits_i16(3.0:f16))", "the bits of f16 are no i16: bits_i16(3.0:f16)"),
        ("for i in 0..n[0] vector { }", "vector loop i runs over 0..n[0], which is not constant"),
        ("for i in 0..1.0 { }", "the stop of i is f32, not i64: 1.0"),
        ("for x in 0..4 { }", "x is declared inside another x"),
        (loop("for i in 0..2 { }"), "i is declared inside another i"),
        ("local x: f32[] { }", "x is declared inside another x"),
        ("local t: f32[] read { }", "local buffer t is read"),
        ("local t: f32[] { } y[0] = t[]", "there is no buffer t here"),
        ("local t: f32[2] strides(1, 1) { }", "t has strides [1, 1] for shape [2]"),
    ],
)
def test_malformed_kernels_are_refused(text, message):
    kernel = parse(f"kernel k(n: i64[4] read, x: f32[4] read, y: f32[4] write) {{ {text} }}")
    with pytest.raises(InternalError) as caught:
        verify(kernel)
    assert f"internal error: kernel k: {message}. This is a bug" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Reduce("sum", (), ZERO), "a kernel holds no reductions: sum( | 0.0)"),
        (Load("x", (index(0),), DType.F16), "x is f32, loaded as f16: x[0]"),
        (Unary("sinn", ZERO), "there is no operation sinn: sinn(0.0)"),
        (Binary("plus", ZERO, ZERO), "there is no operation plus: plus(0.0, 0.0)"),
    ],
)
def test_what_no_text_can_say_is_refused(value, message):
    kernel = Kernel("k", (X, Y), (Store("y", (index(0),), value),))
    with pytest.raises(InternalError) as caught:
        verify(kernel)
    assert message in str(caught.value)


def test_loops_beside_one_another_may_share_a_name():
    verify(parse(f"kernel k(y: f32[4] write) {{ {loop('y[i] = 0.0')} {loop('y[i] = 1.0')} }}"))


@pytest.mark.parametrize("name", ["2x", "a-b", "for", "inf", ""])
def test_names_are_identifiers(name):
    with pytest.raises(InternalError, match="is no identifier"):
        verify(Kernel("k", (Buffer(name, DType.F32, (4,)),), ()))


def test_a_parameter_is_not_local():
    with pytest.raises(InternalError, match="parameter t is local"):
        verify(Kernel("k", (Buffer("t", DType.F32, (), Access.LOCAL),), ()))


def test_a_variable_is_gone_after_its_loop_even_where_its_expression_is_shared():
    shared = Binary("add", I, index(0))
    body = (
        For("i", index(0), index(4), (Store("y", (shared,), ZERO),)),
        Store("y", (shared,), ZERO),
    )
    with pytest.raises(InternalError, match="there is no variable i here"):
        verify(Kernel("k", (Y,), body))


CONVOLUTION = """
kernel conv(x: f32[64, 56, 56] read, w: f32[64, 64, 3, 3] read, y: f32[64, 56, 56] write) {
  for n in 0..64 { for a in 0..56 { for b in 0..56 { local acc: f32[] {
    acc[] = 0.0
    for c in 0..64 { for u in 0..8 { for v in 0..3 { for r in 0..3 { for s in 0..3 {
      acc[] = acc[] + select(0 <= a + r - 1 and a + r - 1 < 56
                             and 0 <= b + s - 1 and b + s - 1 < 56,
                             x[c, a + r - 1, b + s - 1] * w[n, c, r, s], 0.0)
    } } } } }
    y[n, a, b] = acc[]
  } } } }
}
"""


def written_out(kernel: Kernel, var: str) -> Kernel:
    """An innermost loop as a copy of its body for each iteration."""

    def rewrite(loop: For, facts: Facts) -> list[Stmt]:
        assert isinstance(loop.stop, Const)
        copies = (substitute_stmts(loop.body, {var: index(n)}) for n in range(int(loop.stop.value)))
        return [stmt for copy in copies for stmt in copy]

    return at_loop(kernel, var, rewrite)


def test_large_kernels_are_quick():
    """A convolution written out to 216 statements: about 30 ms each to simplify and verify."""
    kernel = parse(CONVOLUTION)
    for var in ("s", "r", "v", "u"):
        kernel = written_out(kernel, var)
    statements = sum(isinstance(stmt, Store) for stmt in walk_stmts(kernel.body))
    assert statements == 218
    simple = simplify_kernel(kernel)
    assert lines_run(lambda: simplify_kernel(kernel)) < 1000 * statements
    assert lines_run(lambda: verify(simple)) < 600 * statements


@pytest.mark.parametrize(
    ("row", "column", "proven"),
    [(0, 11, True), (1, 8, False), (2, -8, True), (2, 3, True), (2, 4, False), (0, -1, False)],
)
def test_hints_may_step_past_a_dimension_but_not_past_the_buffer(
    row: int, column: int, proven: bool
) -> None:
    x = Buffer("x", DType.F32, (3, 4))
    y = Buffer("y", DType.F32, (), Access.WRITE)
    hint = Prefetch("x", (index(row), index(column)))
    kernel = Kernel("k", (x, y), (hint, Store("y", (), Const(0.0, DType.F32))))
    if proven:
        verify(kernel)
    else:
        with pytest.raises(BoundsError):
            verify(kernel)
