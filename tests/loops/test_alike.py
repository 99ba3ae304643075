"""Kernels that differ in numbers only, as text: what they share, and which numbers stay."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from weft.loops.alike import Shared, shared_kernels
from weft.loops.nodes import Kernel
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import substitute_stmts
from weft.loops.text import parse, show
from weft.loops.walk import index

ROWS = """
kernel {name}(x: f32[{rows}, {columns}] strides({pitch}, 1) read, out: f32[{rows}, {columns}] strides({pitch}, 1) write) {{
  for row in 0..{rows} parallel {{
    for column in 0..{columns} {{
      for p in 0..{unrolled} unroll {{
        out[row, min(column + p, {last})] = x[row, column] + {value}
      }}
    }}
  }}
}}
"""  # noqa: E501


def rows(name: str, rows: int = 20, columns: int = 30, **changes: object) -> Kernel:
    values = {"pitch": columns, "last": columns - 1, "unrolled": 64, "value": "1.0", **changes}
    return parse(ROWS.format(name=name, rows=rows, columns=columns, **values))


def shared(*kernels: Kernel, cut: bool = False) -> list[Shared]:
    names = frozenset(each.name for each in kernels) if cut else frozenset[str]()
    return shared_kernels([(each, "") for each in kernels], names)


def test_one_kernel_is_told_the_numbers() -> None:
    (found,) = shared(rows("small"), rows("large", 40, 50))
    assert found.values == {"small": (30, 20, 29), "large": (50, 40, 49)}
    assert found.numbers == {"n0": (30, 50), "n1": (20, 40), "n2": (29, 49)}
    assert found.steps == {"x": ("n0", 1), "out": ("n0", 1)}
    assert show(found.kernel).splitlines()[1:4] == [
        "  for row in 0..n1 parallel {",
        "    for column in 0..n0 {",
        "      for p in 0..64 unroll {",
    ]
    assert found.kernel.params[0].shape == (20, 30)


def told(found: Shared, name: str, original: Kernel) -> Kernel:
    """The kernel with its numbers put in again."""
    numbers: Mapping[str, int] = dict(zip(found.numbers, found.values[name], strict=True))
    body = substitute_stmts(
        found.kernel.body, {each: index(value) for each, value in numbers.items()}
    )
    for each in original.params:
        steps = [numbers.get(str(step), step) for step in found.steps.get(each.name, each.steps)]
        assert steps == list(each.steps)
    return simplify_kernel(Kernel(original.name, original.params, body))


def test_told_its_numbers_it_is_each_of_them() -> None:
    kernels = [simplify_kernel(rows(f"k{size}", size, 2 * size)) for size in (20, 30, 70)]
    (found,) = shared(*kernels)
    assert [told(found, each.name, each) for each in kernels] == kernels


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"unrolled": 65}, "an unrolled loop"),
        ({"value": "2.0"}, "a number that is data"),
        ({"columns": 6}, "a short innermost loop"),
        ({"columns": 1 << 40, "pitch": 30, "last": 29}, "a number that is no int"),
    ],
)
def test_what_stays(changes: dict[str, int], why: str) -> None:
    assert shared(rows("one"), rows("other", **changes)) == [], why


def test_parallel_loops_of_kernels_that_are_cut_stay() -> None:
    assert shared(rows("one"), rows("other", 40), cut=True) == []
    (found,) = shared(rows("one"), rows("other", columns=40), cut=True)
    assert found.values["other"] == (40, 39)


def test_few_stores_are_not_worth_it() -> None:
    assert shared(rows("one", unrolled=16), rows("other", 40, unrolled=16)) == []


@pytest.mark.parametrize(
    ("index", "share"),
    [
        ("i * {n} + lane", True),
        ("i + lane * {n}", False),
        ("i // 3 + {n}", True),
        ("i // {n}", False),
        ("i % {n}", False),
        ("select(i < {n}, i, 0)", False),
        ("max(i - {n}, 0)", True),
    ],
)
def test_numbers_in_places(index: str, share: bool) -> None:
    text = """
kernel {name}(x: f32[9000] read, out: f32[9000] write) {{
  for i in 0..100 {{
    for p in 0..64 unroll {{
      for lane in 0..4 vector {{
        out[i * 4 + lane] = x[{index}]
      }}
    }}
  }}
}}
"""
    kernels = [parse(text.format(name=f"k{n}", index=index.format(n=n))) for n in (20, 21)]
    assert bool(shared(*kernels)) is share


def test_conditions_that_unrolling_decides_stay() -> None:
    text = """
kernel {name}(x: f32[100] read, out: f32[100] write) {{
  for i in 0..90 {{
    for p in 0..64 unroll {{
      if {tested} < {n} {{
        out[i] = x[i]
      }}
    }}
  }}
}}
"""
    for tested, share in (("i", True), ("p", False)):
        kernels = [parse(text.format(name=f"k{n}", tested=tested, n=n)) for n in (20, 21)]
        assert bool(shared(*kernels)) is share


def test_what_else_must_be_equal() -> None:
    one, other = rows("one"), rows("other", 40)
    assert shared_kernels([(one, "a"), (other, "b")]) == []
