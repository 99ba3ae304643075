"""What a row of the table of dialects changes in the text of a kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.codegen.flavours import FLAVOURS, Dialect
from weft.codegen.function import kernel_function
from weft.codegen.helpers import helper_texts
from weft.loops.text import parse

CURVE = parse("""
kernel curve(x: f32[8] read, y: f32[8] write) {
  for i in 0..8 { y[i] = erf(sin(x[i])) }
}""")
C99 = FLAVOURS["c99"]
NO_ERF = {op: name for op, name in C99.functions.items() if op != "erf"}


@pytest.mark.parametrize(
    ("dialect", "value"),
    [
        (C99, "erff(sinf(x[i]))"),
        (replace(C99, single="{}"), "erf(sin(x[i]))"),
        (replace(C99, functions=NO_ERF), "(float)weft_erf((double)sinf(x[i]))"),
        (FLAVOURS["c89"], "(float)weft_erf((double)(float)sin((double)x[i]))"),
    ],
    ids=["c99", "overloaded", "without erf", "c89"],
)
def test_mathematical_functions_are_those_of_the_row(dialect: Dialect, value: str) -> None:
    function = kernel_function(CURVE, dialect)
    assert f"y[i] = {value};" in "\n".join(function.body)
    lacks = "erf" not in dialect.functions
    assert [text.count("double weft_erf(double x)") for text in
            helper_texts(function.uses.helpers, dialect)] == [1] * lacks  # fmt: skip
