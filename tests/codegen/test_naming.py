"""Identifiers: none is a keyword, none stands for two things, whatever things are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.codegen.harness import Case, check
from weft.codegen.naming import CNames, identifier
from weft.errors import InternalError
from weft.loops.text import parse

KEYWORDS = ("double", "int", "register", "class", "new", "operator", "erf", "size_t", "y0")
"""Of C and of C++, functions of headers, and a name of a type."""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x", "x"),
        ("a/b.c", "a_b_c"),
        ("__x__", "x"),
        ("3d", "v3d"),
        ("", "value"),
        ("/", "value"),
        ("new", "new_"),
        ("double", "double_"),
        ("expf", "expf_"),
        ("wchar_t", "wchar_t_"),
        ("mask_t", "mask_t_"),
    ],
)
def test_identifier(text: str, found: str) -> None:
    assert identifier(text) == found


def test_names_are_handed_out_once() -> None:
    names = CNames(["x"])
    assert [names.fresh("x") for _ in range(3)] == ["x_2", "x_3", "x_4"]
    assert names.fresh("y", avoid=("y",)) == "y_2"
    assert names.has("y_2")
    assert not names.has("y")
    names.release("x_3")
    assert names.fresh("x") == "x_3"
    assert names.taken == {"x", "x_2", "x_3", "x_4", "y_2"}


def test_a_name_is_taken_to_the_letter() -> None:
    names = CNames()
    names.take("double__0")
    assert names.has("double__0")
    with pytest.raises(InternalError, match="double__0 has two meanings"):
        names.take("double__0")


def kernel_text(name: str) -> str:
    """Sums of neighbours, in registers and in an array of one name."""
    return f"""kernel k(x: f32[3] read, y: f32[4] write) {{
      local {name}: f32[3, 1] {{
        for p in 0..3 unroll {{
          {name}[p, 0] = x[p] + x[p]
        }}
        for p in 0..3 unroll {{
          y[p] = {name}[p, 0]
        }}
      }}
      local {name}: f32[1] {{
        {name}[0] = x[1] + x[2]
        local {name}_0: f32[2] {{
          {name}_0[0] = {name}[0]
          {name}_0[1] = x[0]
          y[3] = {name}_0[0] + {name}_0[1]
        }}
      }}
    }}"""


@pytest.mark.parametrize("flavour", ["c89", "c99", "gnu"])
def test_locals_may_be_named_like_keywords(flavour: str, tmp_path: Path) -> None:
    arrays = {"x": np.arange(3, dtype=np.float32)}
    cases = [Case(parse(kernel_text(name)), arrays) for name in (*KEYWORDS, "plain")]
    check(cases, flavour, tmp_path)


def test_registers_of_vectors_may_be_named_like_keywords(tmp_path: Path) -> None:
    kernel = parse(
        """kernel k(x: f32[8, 8] read, y: f32[8] write) {
          local double: f32[2, 8] {
            for p in 0..2 unroll {
              for lane in 0..8 vector {
                double[p, lane] = x[p, lane]
              }
            }
            for lane in 0..8 vector {
              y[lane] = double[0, lane] + double[1, lane]
            }
          }
        }"""
    )
    arrays = {"x": np.arange(64, dtype=np.float32).reshape(8, 8)}
    check([Case(kernel, arrays)], "gnu", tmp_path)


@pytest.mark.parametrize("flavour", ["c89", "gnu"])
def test_registers_of_two_locals_have_names_of_their_own(flavour: str, tmp_path: Path) -> None:
    """``acc_2_0`` is the third register of the first local, or the first of one ``acc_2``."""
    kernel = parse(
        """kernel registers(x: f32[3] read, y: f32[4] write) {
          local acc: f32[3, 1] {
            for p in 0..3 unroll {
              acc[p, 0] = x[p]
            }
            for p in 0..3 unroll {
              y[p] = acc[p, 0]
            }
          }
          local acc: f32[1] {
            acc[0] = x[1] + x[2]
            y[3] = acc[0]
          }
        }"""
    )
    check([Case(kernel, {"x": np.arange(3, dtype=np.float32)})], flavour, tmp_path)


def test_loops_and_parameters_may_be_named_like_keywords(tmp_path: Path) -> None:
    kernel = parse(
        """kernel k(new: f32[3] read, class: f32[3] write) {
          for this in 0..3 {
            class[this] = new[this] + new[this]
          }
        }"""
    )
    for flavour in ("c89", "gnu"):
        check([Case(kernel, {"new": np.arange(3, dtype=np.float32)})], flavour, tmp_path)
