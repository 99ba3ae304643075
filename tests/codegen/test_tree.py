"""The C tree: brackets by precedence, names that are known, accesses that are shared."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import weft.codegen
from weft.codegen import tree as c
from weft.codegen.block import BlockWriter
from weft.codegen.element import Element
from weft.codegen.flavours import flavour_named
from weft.codegen.linear import LinearAddress, atom
from weft.codegen.naming import CNames
from weft.codegen.pool import share
from weft.codegen.printer import Printer
from weft.codegen.slots import Slot
from weft.codegen.uses import words
from weft.codegen.value import CValue
from weft.dtypes import DType
from weft.loops.nodes import Buffer

A, B, X = c.Name("a"), c.Name("b"), c.Name("x")


def printed(node: c.Node) -> str:
    return Printer(flavour_named("gnu")).text(node)


def test_no_regular_expression_reads_generated_c() -> None:
    for path in Path(weft.codegen.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert "re" not in names, path


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (c.CBinary("-", A, c.CBinary("-", B, X)), "a - (b - x)"),
        (c.CBinary("-", c.CBinary("-", A, B), X), "a - b - x"),
        (c.CBinary("*", c.CBinary("+", A, B), c.CUnary("-", X)), "(a + b) * -x"),
        (c.CCast("int64_t", c.CBinary("*", A, B)), "(int64_t)(a * b)"),
        (c.CBinary(">>", c.CBinary("+", A, B), c.CNumber("3")), "(a + b) >> 3"),
        (c.CBinary("||", c.CBinary("&&", A, B), X), "(a && b) || x"),
        (c.Ternary(c.Ternary(A, B, X), A, c.Ternary(A, B, X)), "(a ? b : x) ? a : a ? b : x"),
        (c.CUnary("-", c.CNumber("-1", c.NEGATIVE)), "-(-1)"),
        (c.Index(c.CBinary("+", A, B), c.CNumber("2")), "(a + b)[2]"),
    ],
)
def test_operands_get_the_brackets_that_they_need(node: c.Node, text: str) -> None:
    assert printed(node) == text


def test_the_printer_knows_what_it_used() -> None:
    printer = Printer(flavour_named("gnu"))
    call = c.Helper("weft_max_v4f32", (c.Convert(A, "v4f32"), c.CCall("sqrtf", (B,))))
    printer.lines([c.Declare("v4f32", "y", call)])
    assert printer.uses.names == {"a", "b", "v4f32", "sqrtf"}
    assert printer.uses.helpers == ("weft_max_v4f32",)


def test_vectors_loaded_twice_are_loaded_once_through_one_pointer() -> None:
    slot = Slot(Buffer("x", DType.F32, (4096,)), "x")
    offset = atom(CValue(c.Name("i"), "int", 0, 63)).times(64)
    block = BlockWriter()
    for name, more in (("p", 0), ("q", 8), ("r", 0)):
        access = Element(
            slot, "x", LinearAddress(more, offset.terms), "v8f32", load=True, pooled=True
        )
        block.declare(c.Declare("v8f32", name, access))
    lines = Printer(flavour_named("gnu")).lines(share(block, CNames(["x", "i", "p", "q", "r"])))
    assert [line.strip() for line in lines] == [
        "const float *const x_at = x + i * 64;",
        "const v8f32 x_0 = *(const v8f32_mem *)x_at;",
        "const v8f32 p = x_0;",
        "const v8f32 q = *(const v8f32_mem *)(x_at + 8);",
        "const v8f32 r = x_0;",
    ]


def test_words_of_given_c_leave_out_comments_and_functions_that_are_not_called() -> None:
    text = "const int finite = floor(x) != 0; /* log( it */ y = weft_fetch(memory, 3);"
    assert words(text) == {*"const int floor x 0 y weft_fetch memory 3".split()}
