"""Of what is updated in place, only what changes is written."""

from __future__ import annotations

from textwrap import dedent

import pytest

from weft.loops.idle_stores import without_idle_stores
from weft.loops.text import parse, show

HEAD = "kernel k(at: i64[1] read, new: f32[2, 8] read, out: f32[2, 4, 8] write)"


def kept(before: str) -> None:
    kernel = parse(HEAD + before)
    assert without_idle_stores(kernel) == kernel


def test_the_place_of_a_cache() -> None:
    kernel = parse(
        HEAD
        + """ {
          for h in 0..2 parallel {
            for t in 0..4 {
              for lane in 0..4 vector {
                out[h, t, lane] = select(t == at[0], new[h, lane], out[h, t, lane])
              }
              for lane in 0..4 vector {
                out[h, t, lane + 4] = select(t == at[0], new[h, lane + 4], out[h, t, lane + 4])
              }
            }
          }
        }"""
    )
    wanted = dedent(
        """\
         {
          for h in 0..2 parallel {
            for t in 0..4 {
              if t == at[0] {
                for lane in 0..4 vector {
                  out[h, t, lane] = new[h, lane]
                }
                for lane in 0..4 vector {
                  out[h, t, lane + 4] = new[h, lane + 4]
                }
              }
            }
          }
        }
        """
    )
    assert show(without_idle_stores(kernel)) == show(parse(HEAD + wanted))


def test_what_stays_where_the_condition_holds() -> None:
    kernel = parse(
        HEAD
        + """ {
          for i in 0..8 {
            out[0, 0, i] = select(at[0] < 3, out[0, 0, i], new[0, i])
          }
        }"""
    )
    wanted = """ {
      if at[0] >= 3 {
        for i in 0..8 {
          out[0, 0, i] = new[0, i]
        }
      }
    }"""
    assert show(without_idle_stores(kernel)) == show(parse(HEAD + wanted))


@pytest.mark.parametrize(
    "value",
    [
        "select(i < at[0], new[0, i], out[0, 0, i])",  # a test for each element
        "select(out[1, 0, 0] < 0.0, new[0, i], out[0, 0, i])",  # stores could change it
        "select(at[0] < 3, new[0, i], out[0, 1, i])",  # another place
        "select(at[0] < 3, new[0, i], out[0, 0, i]) + 1.0",
    ],
)
def test_other_stores_stay(value: str) -> None:
    kept(f" {{ for i in 0..8 {{ out[0, 0, i] = {value} }} }}")


def test_a_condition_that_differs_between_lanes_stays() -> None:
    kept(
        """ {
          for t in 0..4 vector {
            for i in 0..8 unroll {
              out[0, t, i] = select(t < at[0], new[0, i], out[0, t, i])
            }
          }
        }"""
    )
