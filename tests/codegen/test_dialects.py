"""What a row of the table of dialects changes in the text of a kernel."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

import pytest

from weft.codegen.flavours import FLAVOURS, Dialect
from weft.codegen.function import kernel_function
from weft.codegen.helpers import helper_texts
from weft.codegen.launch import Launch, device_program
from weft.dtypes import DType
from weft.loops.text import parse
from weft.plan.program import Address, Advance, CallStep, Port, Program, Region, Repeat
from weft.templates import texts

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


TEXTS = {
    **C99.texts,
    "pointer": "far {const}{type} *",
    "kernel": "entry void {name}({parameters})",
    "part": "item()",
    "parts": "items()",
}
DEVICE = replace(C99, headers=False, head="#pragma once\n", reserved=frozenset("ij"), texts=TEXTS)
ROWS = parse("""
kernel rows(x: f32[6, 8] read, y: f32[6, 8] write) {
  for i in 0..6 parallel { for k in 0..8 { y[i, k] = x[i, k] + x[i, 0] } }
}""")


def test_a_host_launches_the_steps_of_a_program() -> None:
    moved = Address(Region.INPUT, "x", 4, (Advance("i", 8),))
    once = CallStep("rows", (Address(Region.INPUT, "x"), Address(Region.ARENA, "")), parts=(3,))
    again = CallStep("rows", (moved, Address(Region.OUTPUT, "y", 64)), parts=(2,))
    ports = (Port("x", DType.F32, (6, 8)),), (Port("y", DType.F32, (6, 8)),)
    steps = (once, Repeat("i", 2, (again,)), once)
    made = device_program(Program("net", *ports, (ROWS,), steps, {}, 192), DEVICE)
    assert made.launches == tuple(
        Launch(*each) for each in [((0, 0), 3), ((1, 0), 2), ((1, 1), 2), ((0, 0), 3)]
    )
    assert made.memory == ((Region.INPUT, "x"), (Region.OUTPUT, "y"), (Region.ARENA, ""))
    assert "#include" not in made.source
    assert "rows(far const float *restrict x, far float *restrict y, int part" in made.source
    assert made.source.endswith("""
entry void net_run(const int step, const int i_2, far const unsigned char *const x,
        far unsigned char *const y, far unsigned char *const arena)
{
    const int part = item();
    const int parts = items();
    switch (step) {
    case 0:
        net_rows((far const float *)x, (far float *)arena, part, parts);
        break;
    case 1:
        net_rows((far const float *)(x + 4 + (ptrdiff_t)i_2 * 8), (far float *)(y + 64), part,
                parts);
        break;
    default:
        break;
    }
}
""")


def test_c_of_ops_is_c89():
    """Its comments are those of every dialect."""
    parts = {
        f"{each.name}: {part}": text
        for each in files("weft.ops").joinpath("c").iterdir()
        for part, text in texts("weft.ops", f"c/{each.name}").items()
    }
    assert [name for name, text in parts.items() if "//" in text] == []
