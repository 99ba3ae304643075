"""Vectorized table lookups: generated C gives what the interpreter gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.codegen.harness import Case, by_vectors, check, program_of
from weft.codegen.emit import emit
from weft.codegen.helpers_lookup import lookup, table16
from weft.dtypes import DType
from weft.loops.nodes import Binary, Buffer, Cast, Const, Expr, Kernel, Load
from weft.targets.system import architecture, cpu_flags

F32, I64 = DType.F32, DType.I64
LEVELS = {
    "ssse3": ("-mssse3",),
    "avx2": ("-march=x86-64-v3",),
    "avx512bw": ("-march=x86-64-v4",),
    "avx512vbmi": ("-march=x86-64-v4", "-mavx512vbmi"),
}
"""Flags of gcc for what processors have by these names."""


def kernel(byte: DType, element: DType, lanes: int, count: int, size: int = 256) -> Kernel:
    def found(at: Expr) -> Expr:
        place: Expr = Cast(I64, Load("x", (at,), byte))
        if byte is DType.I8:
            place = Binary("add", place, Const(128, I64))
        return Load("table", (place,), element)

    given = Buffer("table", element, (size,)), Buffer("x", byte, (count,))
    return by_vectors(given, element, lanes, count, found)


def arrays(byte: DType, element: DType) -> dict[str, np.ndarray]:
    """A table without an order, and every byte at several places."""
    rng = np.random.default_rng(3)
    bytes = np.concatenate([rng.permutation(256) for _ in range(4)]).astype(np.uint8)
    return {
        "table": rng.permutation(256).astype(np.uint8).view(element.numpy),
        "x": bytes.view(byte.numpy),
    }


@pytest.mark.parametrize("level", ["", *LEVELS])
def test_same_bytes_as_the_interpreter(level: str, tmp_path: Path) -> None:
    if level and (architecture() != "x86_64" or level not in cpu_flags()):
        pytest.skip(f"this machine has no {level}")
    cases = [
        Case(kernel(byte, element, lanes, 1024), arrays(byte, element))
        for byte in (DType.I8, DType.U8)
        for element in (DType.I8, DType.U8)
        for lanes in (4, 16, 32, 64)
    ]
    check(cases, "gnu", tmp_path, [*LEVELS.get(level, ())])


def test_other_tables_are_read_lane_by_lane(tmp_path: Path) -> None:
    """Those that are longer than bytes reach, and those of larger elements."""
    given = arrays(DType.U8, DType.U8)
    long = {**given, "table": np.concatenate([given["table"]] * 2)}
    wide = {**given, "table": given["table"].astype(np.int32)}
    cases = [
        Case(kernel(DType.U8, DType.U8, 16, 1024, size=512), long),
        Case(kernel(DType.U8, DType.I32, 16, 1024), wide),
    ]
    check(cases, "gnu", tmp_path, [])


def test_only_bytes_have_it() -> None:
    assert lookup("lookup_i8", 8, DType.I32) is None


def halves(lanes: int, high: bool) -> Kernel:
    """Looks up the low or high half of each byte."""

    def found(at: Expr) -> Expr:
        byte = Cast(DType.I32, Load("x", (at,), DType.U8))
        half = Binary("shr", byte, Const(4, DType.I32)) if high else None
        return Load("table", (Cast(I64, half or Binary("and", byte, Const(15, DType.I32))),), F32)

    given = Buffer("table", F32, (16,)), Buffer("x", DType.U8, (1024,))
    return by_vectors(given, F32, lanes, 1024, found)


@pytest.mark.parametrize("level", ["", *LEVELS])
def test_4_bit_indices_in_a_table_of_floats(level: str, tmp_path: Path) -> None:
    if level and (architecture() != "x86_64" or level not in cpu_flags()):
        pytest.skip(f"this machine has no {level}")
    given = {
        "table": np.random.default_rng(4).standard_normal(16).astype(np.float32),
        "x": arrays(DType.U8, DType.U8)["x"],
    }
    kernels = [halves(lanes, high) for lanes in (4, 8, 16) for high in (False, True)]
    flags = [*LEVELS.get(level, ())]
    check([Case(each, given) for each in kernels], "gnu", tmp_path, flags)


@pytest.mark.parametrize(("lanes", "called"), [(4, False), (8, True), (16, True)])
def test_vectors_of_eight_lanes_or_more_use_the_helper(lanes: int, called: bool) -> None:
    given = {"table": np.zeros(16, np.float32), "x": arrays(DType.U8, DType.U8)["x"]}
    program, *_ = program_of([Case(halves(lanes, high=True), given)])
    text = "".join(each for _, each in emit(program, "gnu").sources)
    assert (f"weft_table16_f32_v{lanes}i32(" in text) == called
    assert table16(4, DType.I32) is None
    assert table16(8, DType.U8) is None
