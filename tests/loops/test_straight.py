"""Loops written out: the same numbers, without the loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loops.kernels import affine_nests, nests, results
from tests.turns import examples
from weft.loops.nodes import For, Kernel
from weft.loops.statements import walk_stmts
from weft.loops.straight import TooLong, stores, straight
from weft.loops.text import parse
from weft.loops.verify import verify

WINDOW = """
kernel window(x: f32[6] read, w: f32[3] read, out: f32[6] write) {
  for i in 0..6 parallel {
    local acc: f32[] {
      acc[] = 0.0
      for k in max(0, 1 - i)..min(3, 7 - i) {
        acc[] = acc[] + x[i + k - 1] * w[k]
      }
      out[i] = acc[]
    }
  }
}
"""


def loops(kernel: Kernel) -> list[str]:
    return [stmt.var for stmt in walk_stmts(kernel.body) if isinstance(stmt, For)]


@settings(max_examples=examples(40), deadline=None)
@given(st.one_of(nests(), affine_nests()), st.sampled_from([None, 1, 2, 3, 8]))
def test_results_stay(kernel: Kernel, most: int | None) -> None:
    verify(kernel)
    written = straight(kernel, most, 100_000)
    verify(written)
    for ours, theirs in zip(results(written), results(kernel), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_bounds_that_depend_on_written_loops_are_constant() -> None:
    kernel = parse(WINDOW)
    whole = straight(kernel, None, 1000)
    verify(whole)
    # Six outputs are cleared and stored; of eighteen taps two lie outside.
    assert loops(whole) == []
    assert stores(whole.body) == 12 + 16
    for ours, theirs in zip(results(whole), results(kernel), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_only_short_loops_are_written_out() -> None:
    kernel = parse(WINDOW)
    # The bounds of the inner loop depend on the outer one, which stays.
    assert loops(straight(kernel, 5, 1000)) == ["i", "k"]
    assert loops(straight(kernel, 6, 1000)) == []
    assert loops(straight(kernel, 6, 20)) == ["i", "k"]


def test_what_must_go_and_is_too_long_is_refused() -> None:
    with pytest.raises(TooLong):
        straight(parse(WINDOW), None, 20)
