"""Formulas that are known as a whole."""

from __future__ import annotations

import math

import pytest

from weft.codegen.composite import gate_of, gelu_of
from weft.dtypes import DType
from weft.loops.nodes import Binary, Const, Expr, Load, Unary, Var

X = Load("x", (Var("i"),), DType.F32)


def formula(x: Expr, same: Expr, root: float = math.sqrt(0.5), one: float = 1) -> Binary:
    dtype = x.dtype if isinstance(x, Load) else DType.F32
    curve = Unary("erf", Binary("mul", same, Const(root, dtype)))
    half = Binary("mul", x, Const(0.5, dtype))
    return Binary("mul", half, Binary("add", curve, Const(one, dtype)))


def by_erfc(x: Expr, root: float = -math.sqrt(0.5)) -> Binary:
    curve = Unary("erfc", Binary("mul", x, Const(root, DType.F32)))
    return Binary("mul", Binary("mul", x, Const(0.5, DType.F32)), curve)


def test_gelu_is_known_by_its_formula():
    assert gelu_of(formula(X, X)) is X
    assert gelu_of(by_erfc(X)) is X
    assert gelu_of(formula(X, Load("x", (Var("i"),), DType.F32))) is X


@pytest.mark.parametrize(
    "other",
    [
        formula(X, Load("x", (Var("j"),), DType.F32)),
        formula(X, X, root=0.7),
        formula(X, X, one=2),
        by_erfc(X, math.sqrt(0.5)),
        formula(*[Load("x", (Var("i"),), DType.F64)] * 2),
        Binary("mul", X, X),
    ],
)
def test_other_formulas_are_not_gelu(other: Binary):
    assert gelu_of(other) is None


Y = Load("y", (Var("i"),), DType.F32)
TANH = Unary("tanh", X)


def logistic(y: Expr, top: float = 1, bottom: float = 1) -> Binary:
    power = Unary("exp", Unary("neg", y))
    return Binary("div", Const(top, DType.F32), Binary("add", power, Const(bottom, DType.F32)))


def test_gates_are_known_by_their_formula():
    assert gate_of(Binary("mul", TANH, logistic(Y))) == (X, Y)
    assert gate_of(Binary("mul", logistic(Y), TANH)) == (X, Y)


@pytest.mark.parametrize(
    "other",
    [
        Binary("add", TANH, logistic(Y)),
        Binary("mul", TANH, logistic(Y, top=2)),
        Binary("mul", TANH, logistic(Y, bottom=2)),
        Binary("mul", TANH, Unary("tanh", Y)),
        Binary("mul", Unary("tanh", Load("x", (Var("i"),), DType.F64)), logistic(Y)),
    ],
)
def test_other_formulas_are_no_gates(other: Binary):
    assert gate_of(other) is None
