"""Libraries that must be prepared before a program runs."""

from __future__ import annotations

import numpy as np
import pytest

from weft.codegen.emit import emit
from weft.dtypes import DType
from weft.errors import InternalError
from weft.ir.foreign import Foreign
from weft.plan.program import (
    Address,
    CallStep,
    ExternFunction,
    FormalParameter,
    Port,
    Program,
    Region,
)
from weft.runtime.build import build

LIBRARY = """
static int calls;
int outside_prepare(void) { ++calls; return RESULT; }
void outside(const float *x, float *y) { *y = *x + (float)calls; }
"""


def program(result: int) -> Program:
    """Adds to its input how often its library was prepared."""
    source = LIBRARY.replace("RESULT", str(result)).encode()
    function = ExternFunction(
        "add",
        (FormalParameter("in0", DType.F32, False), FormalParameter("out", DType.F32, True)),
        "extern void outside(const float *, float *);\noutside(in0, out);\n",
        foreign=Foreign((("outside.c", source),)),
        prepare="outside_prepare",
    )
    call = CallStep("add", (Address(Region.INPUT, "x"), Address(Region.OUTPUT, "y")))
    ports = (Port("x", DType.F32, (1,)),), (Port("y", DType.F32, (1,)),)
    return Program("net", *ports, (function,), (call, call), {}, 0)


def test_the_library_is_prepared_before_each_run() -> None:
    library = build(program(0))
    x = np.array([10], np.float32)
    assert [library(x)[0][0] for _ in range(2)] == [12, 13]


def test_a_library_that_refuses_stops_the_network() -> None:
    with pytest.raises(InternalError, match="net cannot be prepared: a library refuses"):
        build(program(1))


def test_the_header_says_so() -> None:
    files = emit(program(0))
    assert "int net_open(void);" in files.header[1]
    assert "#define NET_UNPREPARED (-3)" in files.header[1]
    assert "NET_MISALIGNED or NET_UNPREPARED" in files.header[1]
    assert files.sources[0][1].count("extern int outside_prepare(void);") == 1
