"""Integers made wider by vectors: C gives what the interpreter does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.codegen.harness import Case, by_vectors, check
from tests.turns import a_few
from weft.codegen.helpers_widen import widened, widens
from weft.dtypes import DType
from weft.loops.nodes import Buffer, Cast, Kernel, Load
from weft.targets.system import architecture, cpu_flags

LEVELS = {
    "sse4_1": ("-msse4.1",),
    "avx2": ("-march=x86-64-v3",),
    "avx512bw": ("-march=x86-64-v4",),
}
"""Flags of gcc for what processors have by these names."""
INTEGERS = [each for each in DType if each.is_integer]


def kernel(source: DType, target: DType, lanes: int, count: int) -> Kernel:
    given = (Buffer("x", source, (count,)),)
    return by_vectors(
        given, target, lanes, count, lambda at: Cast(target, Load("x", (at,), source))
    )


@pytest.mark.parametrize("level", a_few(["", *LEVELS]))
def test_same_numbers_as_the_interpreter(level: str, tmp_path: Path) -> None:
    if level and (architecture() != "x86_64" or level not in cpu_flags()):
        pytest.skip(f"this machine has no {level}")
    rng = np.random.default_rng(4)
    cases: list[Case] = []
    for source in INTEGERS:
        low, high = source.limits
        x = rng.integers(low, high, 128, source.numpy, endpoint=True)
        x[:2] = low, high
        wider = [each for each in INTEGERS if each.bytes > source.bytes]
        cases += [
            Case(kernel(source, target, lanes, 128), {"x": x})
            for target in [*wider, DType.F32]
            for lanes in (4, 8, 16, 32)
        ]
    check(cases, "gnu", tmp_path, [*LEVELS.get(level, ())])


def test_what_one_instruction_does() -> None:
    assert widens(DType.I8, DType.I32, 16)
    assert widens(DType.U8, DType.I32, 8)
    assert widens(DType.U16, DType.U32, 16)
    assert not widens(DType.U16, DType.I32, 16)
    assert not widens(DType.I8, DType.I64, 8)
    assert not widens(DType.I8, DType.F32, 16)
    assert widened("widen_i64", 8, DType.I8) is None
