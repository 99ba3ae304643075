"""Half precision by vectors: C converts as the interpreter does, ties and NaN included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.codegen.harness import Case, check
from weft.dtypes import DType
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Kernel,
    Load,
    LoopKind,
    Store,
    Var,
)
from weft.targets.system import architecture, cpu_flags

LEVELS = {
    "": "",
    "avx2": "-march=x86-64-v3",
    "avx512vl": "-march=x86-64-v4",
    "avx512_bf16": "-march=x86-64-v4 -mavx512bf16",
}
SMALLEST = {DType.BF16: 2.0**-126, DType.F16: 0.0}
"""The instruction that rounds to bfloat16 takes denormal numbers for zero."""


def kernel(source: DType, target: DType, lanes: int, count: int, add: bool) -> Kernel:
    index = Binary("add", Binary("mul", Var("o"), Const(lanes, DType.I64)), Var("i"))
    value: Expr = Cast(target, Load("x", (index,), source))
    if add:
        value = Cast(source, Binary("add", value, Const(1.0, target)))
    store = Store("y", (index,), value)
    lane = For("i", Const(0, DType.I64), Const(lanes, DType.I64), (store,), LoopKind.VECTOR)
    outer = For("o", Const(0, DType.I64), Const(count // lanes, DType.I64), (lane,))
    made = source if add else target
    buffers = (Buffer("x", source, (count,)), Buffer("y", made, (count,), Access.WRITE))
    return Kernel("k", buffers, (outer,))


def singles(half: DType) -> np.ndarray:
    """Ties between neighbours, what is beside them, the ends of the type, and no numbers."""
    codes = np.arange(0, 1 << 16, 37, dtype=np.uint16)
    exact = codes.view(half.numpy).astype(np.float32)
    exact = exact[np.isfinite(exact)]
    shift = 16 if half is DType.BF16 else 13
    ties = (exact.view(np.uint32) + np.uint32(1 << (shift - 1))).view(np.float32)
    found = [exact, ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))]
    found.append(np.array([0.0, -0.0, 65519, 65520, 3.4e38, np.inf, -np.inf, np.nan], np.float32))
    every = np.concatenate(found)
    every = every[~(np.abs(every) < SMALLEST[half]) | (every == 0)]
    return np.pad(every, (0, -len(every) % 16))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("half", [DType.BF16, DType.F16])
def test_same_bits_as_the_interpreter(half: DType, level: str, tmp_path: Path) -> None:
    if level and (architecture() != "x86_64" or level not in cpu_flags()):
        pytest.skip(f"this machine has no {level}")
    x = singles(half)
    codes = np.arange(0, 1 << 16, 16, dtype=np.uint16)
    codes = codes[np.isfinite(codes.view(half.numpy).astype(np.float32))]
    codes = codes[: len(codes) // 16 * 16].view(half.numpy)
    cases = [
        Case(kernel(*types, lanes, len(array), add), {"x": array})
        for lanes in (4, 8, 16)
        for types, array in (((DType.F32, half), x), ((half, DType.F32), codes))
        for add in (False, True)
        if array is x or not add
    ]
    check(cases, "gnu", tmp_path, LEVELS[level].split())
