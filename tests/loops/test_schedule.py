"""Schedules: the scheduled kernel does what the unscheduled one does, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.loops.kernels import affine_nests, backwards, nests, results
from tests.turns import examples
from weft.loops.dependence import buffers_of, carried
from weft.loops.nodes import For, Kernel, LoopKind
from weft.loops.ranges import Facts
from weft.loops.schedule import (
    ScheduleError,
    at_loop,
    reorder,
    split,
    unroll,
    vectorize,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import walk_stmts
from weft.loops.text import parse, show
from weft.loops.verify import verify

VARS = st.sampled_from(["a", "b", "c"])


def parallelize(kernel: Kernel, var: str) -> Kernel:
    """Lets the iterations of a loop run at once where none depends on another."""

    def rewrite(loop: For, facts: Facts) -> tuple[For]:
        reason = carried(loop, facts, buffers_of(kernel))
        if reason:
            raise ScheduleError(reason)
        return (replace(loop, kind=LoopKind.PARALLEL),)

    return at_loop(kernel, var, rewrite)


def agrees(kernel: Kernel, step: Callable[[Kernel], Kernel]) -> None:
    """The step keeps the results, before and after simplification, or refuses."""
    verify(kernel)
    try:
        scheduled = step(kernel)
    except ScheduleError:
        event("refused")
        return
    event("applied")
    verify(scheduled)
    simple = simplify_kernel(scheduled)
    verify(simple)
    expected = results(kernel)
    for found in (scheduled, simple, replace(scheduled, body=backwards(scheduled.body))):
        for ours, theirs in zip(results(found), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=examples(80), deadline=None)
@given(nests(), VARS, st.integers(1, 6))
def test_split_keeps_the_results(kernel, var, factor):
    agrees(kernel, lambda each: split(each, var, factor))


@settings(max_examples=examples(150), deadline=None)
@given(nests(), st.permutations(["a", "b", "c"]), st.integers(2, 3))
def test_reorder_keeps_the_results(kernel, order, count):
    agrees(kernel, lambda each: reorder(each, order[:count]))


@settings(max_examples=examples(40), deadline=None)
@given(nests(), VARS)
def test_unroll_keeps_the_results(kernel, var):
    agrees(kernel, lambda each: unroll(each, var))


@settings(max_examples=examples(150), deadline=None)
@given(nests(), VARS)
def test_concurrent_loops_may_run_in_any_order(kernel, var):
    agrees(kernel, lambda each: parallelize(each, var))
    agrees(kernel, lambda each: vectorize(each, var))


@settings(max_examples=examples(200), deadline=None)
@given(affine_nests(), VARS, st.permutations(["a", "b", "c"]))
def test_affine_accesses_are_told_apart(kernel, var, order):
    agrees(kernel, lambda each: parallelize(each, var))
    agrees(kernel, lambda each: reorder(each, order))


@settings(max_examples=examples(80), deadline=None)
@given(nests(), st.data())
def test_steps_compose(kernel, data):
    def steps(current: Kernel) -> Kernel:
        for _ in range(3):
            loops = [stmt.var for stmt in walk_stmts(current.body) if isinstance(stmt, For)]
            if not loops:
                return current
            var = data.draw(st.sampled_from(loops))
            step = data.draw(st.sampled_from([_split, parallelize, unroll]))
            try:
                current = step(current, var)
            except ScheduleError:
                event(f"{step.__name__} refused")
        return current

    agrees(kernel, steps)


def _split(kernel: Kernel, var: str) -> Kernel:
    return split(kernel, var, 2)


@settings(max_examples=examples(100), deadline=None)
@given(nests())
def test_simplification_keeps_the_results(kernel):
    agrees(kernel, simplify_kernel)


# --- what the steps look like -----------------------------------------------------------------

MATMUL = """
kernel matmul(x: f32[10, 8] read, w: f32[8, 16] read, y: f32[10, 16] write) {
  for i in 0..10 {
    for j in 0..16 {
      for k in 0..8 {
        y[i, j] = y[i, j] + x[i, k] * w[k, j]
      }
    }
  }
}
"""


def test_a_register_tile():
    kernel = parse(MATMUL)
    kernel = split(kernel, "i", 4)
    kernel = split(kernel, "j", 8)
    kernel = reorder(kernel, ["j_outer", "k", "i_inner", "j_inner"])
    kernel = vectorize(unroll(parallelize(kernel, "i_outer"), "i_inner"), "j_inner")
    assert (
        show(simplify_kernel(kernel))
        == """\
kernel matmul(x: f32[10, 8] read, w: f32[8, 16] read, y: f32[10, 16] write) {
  for i_outer in 0..2 parallel {
    for j_outer in 0..2 {
      for k in 0..8 {
        for i_inner in 0..4 unroll {
          for j_inner in 0..8 vector {
            y[i_outer * 4 + i_inner, j_outer * 8 + j_inner] = TARGET
          }
        }
      }
    }
  }
  for i_1 in 8..10 {
    for j_1 in 0..16 {
      for k_1 in 0..8 {
        y[i_1, j_1] = y[i_1, j_1] + x[i_1, k_1] * w[k_1, j_1]
      }
    }
  }
}
""".replace(
            "TARGET",
            "y[i_outer * 4 + i_inner, j_outer * 8 + j_inner] + "
            "x[i_outer * 4 + i_inner, k] * w[k, j_outer * 8 + j_inner]",
        )
    )


def test_the_sum_may_move_inwards_but_keeps_its_own_order():
    """``k`` alone carries a dependence, so it may go anywhere."""
    kernel = reorder(parse(MATMUL), ["k", "i", "j"])
    kernel = vectorize(kernel, "j")
    assert (
        show(simplify_kernel(kernel))
        == """\
kernel matmul(x: f32[10, 8] read, w: f32[8, 16] read, y: f32[10, 16] write) {
  for k in 0..8 {
    for i in 0..10 {
      for j in 0..16 vector {
        y[i, j] = y[i, j] + x[i, k] * w[k, j]
      }
    }
  }
}
"""
    )


# --- refusals -----------------------------------------------------------------------------------

SCAN = "kernel k(y: f32[9] write) { for i in 1..9 { y[i] = y[i - 1] } }"
TOTAL = """
kernel k(x: {t}[4, 4] read, y: {t}[1] write) {{
  for i in 0..4 {{ for j in 0..4 {{ y[0] = y[0] + x[i, j] }} }}
}}
"""
TRIANGLE = "kernel k(y: f32[4, 4] write) { for i in 0..4 { for j in 0..i + 1 { y[i, j] = 1.0 } } }"
PAIR = "kernel k(y: f32[4] write) { for i in 0..4 { y[i] = 1.0  for j in 0..2 { y[i] = 2.0 } } }"
BROADCAST = "kernel k(y: f32[4, 2] strides(0, 1) write) { for i in 0..4 { y[i, 0] = f32(i) } }"
SCATTER = """
kernel k(n: i64[4] read, y: f32[4] write) { for i in 0..4 { y[min(max(n[i], 0), 3)] = 1.0 } }
"""

MOVING = "kernel k(n: i64[1] write, y: f32[9] write) { n[0] = 3  for i in 0..n[0] { n[0] = 2 } }"


@pytest.mark.parametrize(
    ("text", "step", "reason"),
    [
        (SCAN, lambda k: parallelize(k, "i"), "iterations of i may touch the same element of y"),
        (SCAN, lambda k: vectorize(k, "i"), "iterations of i may touch the same element of y"),
        (SCATTER, lambda k: parallelize(k, "i"), "may touch the same element of y"),
        (BROADCAST, lambda k: parallelize(k, "i"), "elements of y overlap in memory"),
        (
            TOTAL.format(t="f32"),
            lambda k: reorder(k, ["j", "i"]),
            r"loops i, j carry a dependence and must keep their order "
            r"\(iterations of i may touch the same element of y\)",
        ),
        (TRIANGLE, lambda k: reorder(k, ["j", "i"]), "the bounds of j depend on i"),
        (TRIANGLE, lambda k: vectorize(k, "j"), "the bounds of j are not constant"),
        (TRIANGLE, lambda k: vectorize(k, "i"), "i is not an innermost loop"),
        (TRIANGLE, lambda k: split(k, "x", 2), "there is no loop x"),
        (TRIANGLE, lambda k: split(k, "i", 0), "the factor must be positive, it is 0"),
        (TRIANGLE, lambda k: reorder(k, ["i", "x"]), "reorder: there is no loop x"),
        (PAIR, lambda k: reorder(k, ["j", "i"]), "there is more than one loop inside i"),
        (MOVING, lambda k: split(k, "i", 2), "i runs to what it stores in n"),
    ],
)
def test_refusals_say_why(text, step, reason):
    with pytest.raises(ScheduleError, match=reason):
        step(parse(text))


def test_integer_sums_may_be_reordered():
    exact = TOTAL.format(t="i32")
    assert "for j in 0..4 {\n    for i" in show(reorder(parse(exact), ["j", "i"]))


def test_blocks_of_one_buffer_are_apart():
    """Iterations that write 4 elements each, 4 apart."""
    kernel = parse("""
    kernel k(y: f32[16] write) { for o in 0..4 { for i in 0..4 { y[o * 4 + i] = 1.0 } } }
    """)
    assert parallelize(kernel, "o").body[0].kind is LoopKind.PARALLEL
    overlapping = parse("""
    kernel k(y: f32[17] write) { for o in 0..4 { for i in 0..5 { y[o * 4 + i] = 1.0 } } }
    """)
    with pytest.raises(ScheduleError, match="may touch the same element"):
        parallelize(overlapping, "o")
