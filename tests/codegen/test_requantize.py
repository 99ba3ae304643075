"""Integers requantized by vectors in fixed point: C computes what the interpreter does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.codegen.harness import Case, check
from weft.codegen.composite import requantized_of, vector_parts
from weft.codegen.sharing import shared_nodes
from weft.dtypes import DType
from weft.loops.fixed_point import Requantization
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
from weft.loops.simplify import simplify
from weft.ops.requantization import requantization
from weft.targets.system import architecture, cpu_flags

I32, I64 = DType.I32, DType.I64
X, MULTIPLIER, SHIFT = (Load(name, (Var("i"),), I32) for name in ("x", "multiplier", "shift"))
LEVELS = {"avx2": "-march=x86-64-v3", "avx512vl": "-march=x86-64-v4"}
LARGEST = (1 << 31) - 1


def requantized(
    dtype: DType, zero: int, x: Expr = X, multiplier: Expr = MULTIPLIER, shift: Expr = SHIFT
) -> Cast:
    least, most = (Const(end, I64) for end in dtype.limits)
    whole = requantization(x, multiplier, shift)
    if dtype is I32:
        return Cast(dtype, whole)
    whole = Binary("add", whole, Const(zero, I64))
    return Cast(dtype, Binary("min", Binary("max", whole, least), most))


def kernel(dtype: DType, zero: int, lanes: int, count: int, wide: bool, shift: Expr) -> Kernel:
    index = Binary("add", Binary("mul", Var("o"), Const(lanes, I64)), Var("i"))
    names = ["x", "multiplier", "shift"]
    x, multiplier, shifts = (Load(name, (index,), I32) for name in names)
    if isinstance(shift, Const):
        multiplier, shifts, names = Const(1518500250, I32), shift, ["x"]
    value = requantized(dtype, zero, x, multiplier, shifts)
    if wide:
        value, dtype = Cast(I32, value), I32
    store = Store("y", (index,), value)
    lane = For("i", Const(0, I64), Const(lanes, I64), (store,), LoopKind.VECTOR)
    outer = For("o", Const(0, I64), Const(count // lanes, I64), (lane,))
    inputs = [Buffer(name, I32, (count,)) for name in names]
    return Kernel("k", (*inputs, Buffer("y", dtype, (count,), Access.WRITE)), (outer,))


def numbers() -> dict[str, np.ndarray]:
    """Random sums of all sizes, ties of both roundings, and the ends of all ranges."""
    rng = np.random.default_rng(0)
    sums = rng.integers(-(1 << 31), 1 << 31, 4096) >> rng.integers(0, 31, 4096)
    multipliers = rng.integers(1 << 30, 1 << 31, 4096)
    shifts = rng.integers(-31, 4, 4096)
    # A multiplier of a half: the sums' halves, then those of powers of two, are ties.
    small, powers = np.meshgrid(np.arange(-96, 96), np.arange(-6, 2))
    ends = np.array([-(1 << 31), 1 - (1 << 31), -1, 0, 1, LARGEST - 1, LARGEST])
    at = np.meshgrid(ends, [0, 1, 1 << 30, LARGEST], [-31, -30, -1, 0, 1, 30])
    x = np.concatenate([sums, small.ravel(), at[0].ravel()])
    multiplier = np.concatenate([multipliers, np.full(small.size, 1 << 30), at[1].ravel()])
    shift = np.concatenate([shifts, powers.ravel(), at[2].ravel()])
    made = {"x": x, "multiplier": multiplier, "shift": shift}
    return {
        name: np.pad(each, (0, -len(each) % 32)).astype(np.int32) for name, each in made.items()
    }


@pytest.mark.parametrize("level", ["", *LEVELS])
def test_same_bits_as_the_interpreter(level: str, tmp_path: Path) -> None:
    if level and (architecture() != "x86_64" or level not in cpu_flags()):
        pytest.skip(f"this machine has no {level}")
    inputs = numbers()
    count = len(inputs["x"])
    kinds = [
        (DType.I8, -128, 16, False),
        (DType.I8, 127, 8, False),
        (DType.I8, 0, 4, False),
        (DType.I8, 3, 2, False),
        (DType.I8, -7, 32, False),
        (DType.U8, 0, 16, False),
        (DType.U8, 255, 8, False),
        (DType.I8, 5, 16, True),
        (DType.U8, 128, 8, True),
    ]
    cases = [Case(kernel(*kind[:3], count, kind[3], SHIFT), inputs) for kind in kinds]
    cases += [
        Case(kernel(DType.I8, -5, lanes, count, False, Const(shift, I32)), {"x": inputs["x"]})
        for lanes in (8, 16)
        for shift in (-9, 0, 2)
    ]
    cases += [Case(kernel(I32, 0, lanes, count, False, SHIFT), inputs) for lanes in (4, 8, 16)]
    check(cases, "gnu", tmp_path, [LEVELS[level]] if level else [])


def test_the_formula_is_known() -> None:
    found = requantized_of(requantized(DType.I8, -3))
    assert found is not None
    assert found == (Requantization((X, MULTIPLIER, SHIFT), -3), "requantize_i8")
    found = requantized_of(Cast(I32, requantized(DType.U8, 3, shift=Const(-7, I32))))
    assert found is not None
    assert found[0].operands == (X, MULTIPLIER, Const(-7, I32))
    assert found[1] == "requantize_u8_wide"
    found = requantized_of(requantized(I32, 0))
    assert found == (Requantization((X, MULTIPLIER, SHIFT), 0), "requantize_i32")


def test_it_stays_as_it_is_where_places_are_simplified() -> None:
    zero = Binary("mul", Var("i"), Const(0, I64))
    at = Binary("add", Var("i"), zero)
    value = requantized(DType.I8, -3, Load("x", (at,), I32))
    assert simplify(value) == requantized(DType.I8, -3)


def test_other_formulas_are_not() -> None:
    least, most = (Const(end, I64) for end in DType.I8.limits)
    whole = requantization(X, MULTIPLIER, SHIFT)
    held = Binary("min", Binary("max", whole, Const(0, I64)), most)
    assert requantized_of(Cast(DType.I8, held)) is None
    other = Binary("min", Binary("max", Cast(I64, X), least), most)
    assert requantized_of(Cast(DType.I8, other)) is None
    assert requantized_of(requantized(DType.I8, 1000)) is None
    assert requantized_of(Cast(I32, Binary("add", whole, Const(3, I64)))) is None
    assert requantized_of(requantized(DType.I8, 0, multiplier=Const(-1, I32))) is None
    wide = requantization(X, Cast(DType.I16, MULTIPLIER), SHIFT)
    assert requantized_of(Cast(DType.I8, Binary("min", Binary("max", wide, least), most))) is None


def test_nothing_inside_is_computed_beforehand() -> None:
    value = requantized(DType.I8, 0)
    assert shared_nodes(value)
    assert shared_nodes(value, vector_parts) == []
