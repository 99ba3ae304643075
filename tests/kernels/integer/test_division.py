"""Quantization by a product: only where all pairs of bytes get what the quotient gives."""

from __future__ import annotations

import numpy as np
import pytest

from weft.dtypes import DType
from weft.kernels.integer.division import multiplied
from weft.kernels.integer.folding import folded
from weft.loops.nodes import Axis, Binary, Cast, Const, Expr, Load, Var
from weft.loops.walk import map_expr, walk

A, B = (Load(name, (Var("c"),), DType.I8) for name in "ab")


def number(value: float) -> Const:
    return Const(float(np.float32(value)), DType.F32)


def side(byte: Expr, zero: int, scale: float) -> Expr:
    less = Binary("sub", Cast(DType.I32, byte), Const(zero, DType.I32))
    return Binary("mul", Cast(DType.F32, less), number(scale))


def residual(scale: float, relu: bool = False) -> Binary:
    total: Expr = Binary("add", side(A, -17, 0.0447), side(B, 4, 0.1131))
    if relu:
        total = Binary("max", total, number(0))
    return Binary("div", total, number(scale))


def made(total: Expr, zero: int) -> np.ndarray:
    """The bytes of all pairs."""
    every = np.arange(-128, 128).astype(np.int8)

    def by_name(node: Expr) -> Expr:
        return Load(node.buffer, (Var(node.buffer),), DType.I8) if isinstance(node, Load) else node

    axes = [Axis("a", 256), Axis("b", 256)]
    values = folded(map_expr(total, by_name), axes, {"a": every, "b": every})
    return np.clip(np.rint(values) + np.float32(zero), -128, 127)


SCALES = np.linspace(0.03, 0.09, 20)


@pytest.mark.parametrize(("relu", "zero"), [(False, 3), (True, -128), (True, 3)])
def test_most_quotients_become_products_with_the_same_bytes(relu: bool, zero: int) -> None:
    quotients = [residual(scale, relu) for scale in SCALES]
    products = [multiplied(each, zero, DType.I8) for each in quotients]
    assert sum("div" not in ops(each) for each in products) > len(SCALES) / 2
    for quotient, each in zip(quotients, products, strict=True):
        np.testing.assert_array_equal(made(each, zero), made(quotient, zero))


def ops(expr: Expr) -> set[str]:
    return {node.op for node in walk(expr) if isinstance(node, Binary)}


def test_saturation_does_what_a_relu_does() -> None:
    quotients = [residual(scale, relu=True) for scale in SCALES]
    assert any(ops(multiplied(each, -128, DType.I8)) == {"add", "sub", "mul"} for each in quotients)
    assert all("max" in ops(multiplied(each, 3, DType.I8)) for each in quotients)


def test_quotients_of_other_numbers_stay() -> None:
    total = Load("acc", (Var("c"),), DType.F32)
    quotient = Binary("div", total, number(0.05))
    assert multiplied(quotient, 0, DType.I8) is quotient
    three = Binary(
        "div", Binary("add", residual(0.05).lhs, side(Load("d", (), DType.I8), 0, 1)), number(0.05)
    )
    assert multiplied(three, 0, DType.I8) is three
    by_bytes = Binary("div", side(A, 0, 1), side(B, 0, 1))
    assert multiplied(by_bytes, 0, DType.I8) is by_bytes
