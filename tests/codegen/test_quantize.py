"""Floats rounded to bytes by vectors: C computes what the interpreter does, at every bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.codegen.harness import Case, check
from tests.turns import a_few
from weft.codegen import tree as c
from weft.codegen.composite import quantized_of, saturated_of
from weft.codegen.flavours import flavour_named
from weft.codegen.lanes import Lanes, in_type
from weft.codegen.printer import Printer
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
    Unary,
    Var,
)
from weft.loops.nodes import Const as Number
from weft.targets.system import architecture, cpu_flags

X = Load("x", (Var("i"),), DType.F32)
LEVELS = {"avx2": "-march=x86-64-v3", "avx512vl": "-march=x86-64-v4"}


def quantized(dtype: DType, zero: int, x: Expr = X) -> Cast:
    least, most = (Const(float(end), DType.F32) for end in dtype.limits)
    whole = Binary("add", Unary("round", x), Const(float(zero), DType.F32))
    return Cast(dtype, Binary("min", Binary("max", least, whole), most))


def kernel(dtype: DType, zero: int, lanes: int, count: int, wide: bool) -> Kernel:
    index = Binary("add", Binary("mul", Var("o"), Number(lanes, DType.I64)), Var("i"))
    value = quantized(dtype, zero, Load("x", (index,), DType.F32))
    if wide:
        value, dtype = Cast(DType.I32, value), DType.I32
    store = Store("y", (index,), value)
    lane = For("i", Number(0, DType.I64), Number(lanes, DType.I64), (store,), LoopKind.VECTOR)
    outer = For("o", Number(0, DType.I64), Number(count // lanes, DType.I64), (lane,))
    buffers = (Buffer("x", DType.F32, (count,)), Buffer("y", dtype, (count,), Access.WRITE))
    return Kernel("k", buffers, (outer,))


def numbers() -> np.ndarray:
    """Ties, neighbours of ties, the ends of all types, numbers beyond integers, and no numbers."""
    ties = np.arange(-300, 300, dtype=np.float32) + np.float32(0.5)
    wild = [0.0, -0.0, 1e10, -1e10, 2.0**31, -(2.0**31), 3e38, -3e38, np.inf, -np.inf, np.nan]
    found = [ties, np.nextafter(ties, np.float32(-400)), np.nextafter(ties, np.float32(400))]
    found.append(np.array(wild, np.float32))
    every = np.concatenate(found)
    return np.pad(every, (0, -len(every) % 32))


@pytest.mark.parametrize("level", a_few(["", *LEVELS]))
def test_same_bits_as_the_interpreter(level: str, tmp_path: Path) -> None:
    if level and (architecture() != "x86_64" or level not in cpu_flags()):
        pytest.skip(f"this machine has no {level}")
    x = numbers()
    cases = [
        Case(kernel(dtype, zero, lanes, len(x), wide), {"x": x})
        for dtype in (DType.I8, DType.U8)
        for zero in (0, dtype.limits[0], 7, dtype.limits[1])
        for lanes in (2, 4, 8, 16, 32)
        for wide in (False, True)
        if lanes <= 16 or not wide  # no wider than a register
    ]
    check(cases, "gnu", tmp_path, [LEVELS[level]] if level else [])


def whole_kernel(dtype: DType, lanes: int, count: int) -> Kernel:
    """Integers saturated to bytes."""
    index = Binary("add", Binary("mul", Var("o"), Number(lanes, DType.I64)), Var("i"))
    least, most = (Const(end, DType.I32) for end in dtype.limits)
    whole = Load("x", (index,), DType.I32)
    value = Cast(dtype, Binary("min", Binary("max", least, whole), most))
    assert saturated_of(value) == (whole, f"saturate_{dtype.value}")
    store = Store("y", (index,), value)
    lane = For("i", Number(0, DType.I64), Number(lanes, DType.I64), (store,), LoopKind.VECTOR)
    outer = For("o", Number(0, DType.I64), Number(count // lanes, DType.I64), (lane,))
    buffers = (Buffer("x", DType.I32, (count,)), Buffer("y", dtype, (count,), Access.WRITE))
    return Kernel("k", buffers, (outer,))


@pytest.mark.parametrize("level", ["", *LEVELS])
def test_saturated_integers_have_the_same_bits(level: str, tmp_path: Path) -> None:
    if level and (architecture() != "x86_64" or level not in cpu_flags()):
        pytest.skip(f"this machine has no {level}")
    near = np.arange(-400, 400, dtype=np.int32)
    ends = [-(2**31), 2**31 - 1, -(2**15), 2**15, 2**16, -(2**16), 1 << 24, -(1 << 24)]
    x = np.concatenate([near, np.array(ends * 4, np.int32)])
    cases = [
        Case(whole_kernel(dtype, lanes, len(x)), {"x": x})
        for dtype in (DType.I8, DType.U8)
        for lanes in (2, 4, 8, 16, 32)
    ]
    check(cases, "gnu", tmp_path, [LEVELS[level]] if level else [])


def test_other_limits_are_not_saturation() -> None:
    least, most = Const(-128, DType.I32), Const(126, DType.I32)
    whole = Load("x", (Var("i"),), DType.I32)
    within = Cast(DType.I8, Binary("min", Binary("max", least, whole), most))
    assert saturated_of(within) is None


def test_the_formula_is_known_with_and_without_a_zero_point() -> None:
    assert quantized_of(quantized(DType.U8, 3)) == (X, 3, "quantize_u8")
    wide = Cast(DType.I32, quantized(DType.U8, 3))
    assert quantized_of(wide) == (X, 3, "quantize_u8_wide")
    least, most = (Const(float(end), DType.F32) for end in DType.I8.limits)
    plain = Binary("min", Binary("max", least, Unary("round", X)), most)
    assert quantized_of(Cast(DType.I8, plain)) == (X, 0, "quantize_i8")


def test_other_formulas_are_not_quantization() -> None:
    least, most = (Const(float(end), DType.F32) for end in DType.I8.limits)
    # A NaN on the left of `max` stays, and is 0 as a byte.
    left = Binary("min", Binary("max", Unary("round", X), least), most)
    assert quantized_of(Cast(DType.I8, left)) is None
    assert quantized_of(quantized(DType.U8, 1000)) is None
    within = Binary("min", Binary("max", least, Unary("round", X)), Const(6.0, DType.F32))
    assert quantized_of(Cast(DType.I8, within)) is None


def test_integers_change_their_size_by_halves_and_doubles() -> None:
    x = Lanes(c.Name("x"), DType.U8)
    text = Printer(flavour_named("gnu")).text
    assert text(in_type(x, DType.F32, 2).node) == (
        "__builtin_convertvector(__builtin_convertvector(__builtin_convertvector(x, v2u16), "
        "v2i32), v2f32)"
    )
    assert text(in_type(x, DType.F32, 4).node) == (
        "__builtin_convertvector(weft_widen_i32_v4u8(x), v4f32)"
    )
    wide = Lanes(c.Name("x"), DType.I32)
    assert text(in_type(wide, DType.U8, 4).node) == (
        "__builtin_convertvector(__builtin_convertvector(x, v4i16), v4u8)"
    )
    assert in_type(x, DType.U8, 4) is x
    assert text(in_type(wide, DType.F64, 4).node) == "__builtin_convertvector(x, v4f64)"
