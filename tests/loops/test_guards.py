"""Guards as loop bounds: same results, no test left inside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.turns import examples
from weft.loops.guards import guards_to_bounds
from weft.loops.interpret import run
from weft.loops.text import parse, show
from weft.loops.verify import verify

TEMPLATE = """
kernel k(x: {t}[{n}] read, w: {t}[{k}] read, y: {t}[{m}] write) {{
  for i in 0..{m} {{
    local acc: {t}[] {{
      acc[] = {neutral}
      for r in 0..{k} {{
        acc[] = {update}
      }}
      y[i] = acc[]
    }}
  }}
}}
"""
INDEX = "i*{stride} + r*{dilation} - {pad}"
UPDATES = {
    "f32 sum": ("f32", "0.0", "acc[] + select({c}, x[{i}] * w[r], 0.0)"),
    "f32 max": ("f32", "-inf", "max(acc[], select({c}, x[{i}], -inf))"),
    "i32 zero times": ("i32", "0:i32", "acc[] + select({c}, x[{i}], 0:i32) * w[r]"),
    "i32 minus zero point": ("i32", "0:i32", "acc[] + (select({c}, x[{i}], 3:i32) - 3:i32) * w[r]"),
    "i32 otherwise": ("i32", "0:i32", "acc[] + select(not ({c}), 0:i32, x[{i}])"),
}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(sorted(UPDATES)),
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 4),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_windows(name, n, k, stride, dilation, pad, m, random):
    kind, neutral, update = UPDATES[name]
    where = INDEX.format(stride=stride, dilation=dilation, pad=pad)
    update = update.format(c=f"0 <= {where} and {where} < {n}", i=where)
    text = TEMPLATE.format(t=kind, n=n, k=k, m=m, neutral=neutral, update=update)
    kernel = parse(text)
    bounded = guards_to_bounds(kernel)
    verify(kernel)
    verify(bounded)
    assert "select" not in show(bounded)
    assert " if " not in show(bounded).partition("for r")[2]
    dtype = np.float32 if kind == "f32" else np.int32
    data = {
        "x": np.array([random.randint(-9, 9) for _ in range(n)], dtype),
        "w": np.array([random.randint(-9, 9) for _ in range(k)], dtype),
    }
    results = []
    for each in (kernel, bounded):
        y = np.zeros(m, dtype)
        run(each, data | {"y": y})
        results.append(y)
    np.testing.assert_array_equal(*results)


def test_the_bounds_of_a_padded_window():
    kernel = parse("""
    kernel k(x: f32[8, 8] read, y: f32[4, 4] write) {
      for i in 0..4 { for j in 0..4 { local acc: f32[] {
        acc[] = 0.0
        for r in 0..3 { for s in 0..3 {
          acc[] = acc[] + select(0 <= i*2 + r - 1 and 0 <= j*2 + s - 1
                                 and i*2 + r - 1 < 8 and j*2 + s - 1 < 8,
                                 x[i*2 + r - 1, j*2 + s - 1], 0.0)
        } }
        y[i, j] = acc[]
      } } }
    }
    """)
    assert (
        show(guards_to_bounds(kernel))
        == """\
kernel k(x: f32[8, 8] read, y: f32[4, 4] write) {
  for i in 0..4 {
    for j in 0..4 {
      local acc: f32[] {
        acc[] = 0.0
        for r in max(0, 1 - i * 2)..3 {
          for s in max(0, 1 - j * 2)..3 {
            acc[] = acc[] + x[i * 2 + r - 1, j * 2 + s - 1]
          }
        }
        y[i, j] = acc[]
      }
    }
  }
}
"""
    )


@pytest.mark.parametrize(
    "body",
    [
        # Not neutral: 1.0 is added where the condition fails.
        "acc[] = acc[] + select(r < i, x[r], 1.0)",
        # A float zero times an infinite weight is no zero.
        "acc[] = acc[] + select(r < i, x[r], 0.0) * w[r]",
        # The accumulator stands on the right.
        "acc[] = select(r < i, x[r], 0.0) - acc[]",
        # Not affine, and data may say anything.
        "acc[] = acc[] + select(r * r < i, x[r], 0.0)",
        "acc[] = acc[] + select(x[r] < 1.0, x[r], 0.0)",
    ],
)
def test_what_must_stay(body):
    kernel = parse(f"""
    kernel k(x: f32[4] read, w: f32[4] read, y: f32[4] write) {{
      for i in 0..4 {{ local acc: f32[] {{
        acc[] = 0.0
        for r in 0..4 {{ {body} }}
        y[i] = acc[]
      }} }}
    }}
    """)
    bounded = guards_to_bounds(kernel)
    assert "for r in 0..4 {" in show(bounded)
    x = np.array([1, np.inf, -2, 3], np.float32)
    w = np.array([np.inf, 1, np.nan, 2], np.float32)
    results = []
    for each in (kernel, bounded):
        y = np.zeros(4, np.float32)
        run(each, {"x": x, "w": w, "y": y})
        results.append(y)
    np.testing.assert_array_equal(*results)


def test_a_condition_on_what_the_loop_stores_stays():
    kernel = parse("""
    kernel k(y: i64[4] write, n: i64[1] write) {
      n[0] = 2
      for r in 0..4 { if r < n[0] { n[0] = n[0] + 1  y[r] = r } }
    }
    """)
    bounded = guards_to_bounds(kernel)
    y, n = np.zeros(4, np.int64), np.zeros(1, np.int64)
    run(bounded, {"y": y, "n": n})
    np.testing.assert_array_equal(y, [0, 1, 2, 3])


def test_an_equality_pins_the_loop():
    kernel = parse("""
    kernel k(x: f32[8] read, y: f32[8] write) {
      for i in 0..8 { for r in 0..8 { if r + i == 7 { y[i] = x[r] } } }
    }
    """)
    assert (
        show(guards_to_bounds(kernel))
        == """\
kernel k(x: f32[8] read, y: f32[8] write) {
  for i in 0..8 {
    y[i] = x[7 - i]
  }
}
"""
    )
