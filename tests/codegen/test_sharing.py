"""What an unrolled loop writes many times is looked at once."""

from __future__ import annotations

from typing import Any

import pytest

from weft.codegen import sharing, vector
from weft.codegen.flavours import flavour_named
from weft.codegen.function import kernel_function
from weft.loops.nodes import Expr
from weft.loops.text import parse
from weft.loops.walk import children

KERNEL = """
kernel net(x: f32[{count}, 8] read, out: f32[{count}, 8] write) {{
  for p in 0..{count} unroll {{
    for lane in 0..8 vector {{
      out[p, lane] = x[p, lane] * x[p, lane] + 2.0
    }}
  }}
}}
"""


def visited(count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How often shared nodes are looked for, and operands of what may vary."""
    found = [0, 0]
    shared = sharing.shared_nodes

    def counted(*arguments: Any) -> list[Expr]:
        found[0] += 1
        return shared(*arguments)

    def operands(expr: Expr) -> tuple[Expr, ...]:
        found[1] += 1
        return children(expr)

    with monkeypatch.context() as patch:
        patch.setattr(sharing, "shared_nodes", counted)
        patch.setattr(vector, "children", operands)
        text = kernel_function(parse(KERNEL.format(count=count)), flavour_named("gnu"))
    assert sum("2.0f" in line for line in text.body) == count
    return found[0], found[1]


def test_more_iterations_take_no_more_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = visited(2, monkeypatch), visited(16, monkeypatch)
    assert few == many
    assert few[0] == 1
