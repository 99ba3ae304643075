"""Elementwise operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, Function, Kind, litert

PLAIN: dict[str, tuple[str, dict[str, Any]]] = {
    "ABS": ("Abs", {}),
    "CEIL": ("Ceil", {}),
    "COS": ("Cos", {}),
    "ELU": ("Elu", {"alpha": 1.0}),
    "EXP": ("Exp", {}),
    "FLOOR": ("Floor", {}),
    "HARD_SWISH": ("HardSwish", {}),
    "LOG": ("Log", {}),
    "LOGICAL_NOT": ("Not", {}),
    "LOGISTIC": ("Sigmoid", {}),
    "NEG": ("Neg", {}),
    "RELU": ("Relu", {}),
    "RELU6": ("Clip", {"min": 0.0, "max": 6.0}),
    "RELU_0_TO_1": ("Clip", {"min": 0.0, "max": 1.0}),
    "RELU_N1_TO_1": ("Clip", {"min": -1.0, "max": 1.0}),
    "ROUND": ("Round", {}),
    "SIGN": ("Sign", {}),
    "SIN": ("Sin", {}),
    "SQRT": ("Sqrt", {}),
    "TANH": ("Tanh", {}),
}
"""Operators of one input: the op and its attributes."""

PAIRS = {
    "ATAN2": "Atan2",
    "BITWISE_XOR": "BitwiseXor",
    "EQUAL": "Equal",
    "FLOOR_DIV": "FloorDivide",
    "FLOOR_MOD": "Mod",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "POW": "Pow",
}
"""Operators of two inputs that broadcast, without options."""

FUSED = {"ADD": "Add", "DIV": "Div", "MUL": "Mul", "SUB": "Sub"}
"""Operators of two inputs with a fused activation."""


def _plain(op: str, attributes: dict[str, Any]) -> Function:
    def row(g: Emit, x: Tensor) -> Tensor:
        return g(op, x, **attributes)

    return row


def _pair(op: str) -> Function:
    def row(g: Emit, a: Tensor, b: Tensor) -> Tensor:
        return g(op, a, b)

    return row


def _fused(op: str) -> Function:
    def row(g: Emit, a: Tensor, b: Tensor, *, fused_activation_function: int = 0) -> Tensor:
        return g.activated(g(op, a, b), fused_activation_function)

    return row


for _name, (_op, _attributes) in PLAIN.items():
    litert(_name)(_plain(_op, _attributes))
for _name, _op in PAIRS.items():
    litert(_name)(_pair(_op))
for _name, _op in FUSED.items():
    litert(_name)(_fused(_op))


@litert("ADD_N")
def add_n(g: Emit, *x: Tensor) -> Tensor:
    total = x[0]
    for each in x[1:]:
        total = g("Add", total, each)
    return total if len(x) > 1 else g("Identity", total)


@litert("NOT_EQUAL")
def not_equal(g: Emit, a: Tensor, b: Tensor) -> Tensor:
    return g("Not", g("Equal", a, b))


@litert("RIGHT_SHIFT")
def right_shift(g: Emit, a: Tensor, b: Tensor) -> Tensor:
    return g("BitShift", a, b, direction="RIGHT")


@litert("GELU")
def gelu(g: Emit, x: Tensor, *, approximate: bool = False) -> Tensor:
    return g("Gelu", x, approximate="tanh" if approximate else "none")


@litert("LEAKY_RELU")
def leaky_relu(g: Emit, x: Tensor, *, alpha: float) -> Tensor:
    return g("LeakyRelu", x, alpha=alpha)


@litert("PRELU")
def prelu(g: Emit, x: Tensor, slope: Tensor) -> Tensor:
    if np.broadcast_shapes(x.shape, slope.shape) != x.shape:
        g.refuse(f"slopes {slope.type} must fit the input {x.type}")
    return g("PRelu", x, slope)


@litert("RSQRT")
def rsqrt(g: Emit, x: Tensor) -> Tensor:
    return g("Reciprocal", g("Sqrt", x))


@litert("SQUARE")
def square(g: Emit, x: Tensor) -> Tensor:
    return g("Mul", x, x)


@litert("SQUARED_DIFFERENCE")
def squared_difference(g: Emit, a: Tensor, b: Tensor) -> Tensor:
    difference = g("Sub", a, b)
    return g("Mul", difference, difference)


@litert("SELECT_V2")
def select_v2(g: Emit, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return g("Where", condition, a, b)


@litert("SELECT")
def select(g: Emit, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    if condition.rank == 1 and a.rank > 1:
        condition = g.reshape(condition, (*condition.shape, *(1,) * (a.rank - 1)))
    return g("Where", condition, a, b)


@litert("CAST", kind=Kind.RAW)
def cast(g: Emit, x: Tensor) -> Tensor:
    to = g.result_dtype
    if x.dtype == to:
        return g("Identity", x)
    if x.dtype.is_float and to is DType.BOOL:
        return g("Not", g("Equal", x, g.number(0, x.dtype)))
    return g("Cast", x, to=to)


@litert("BITCAST", kind=Kind.RAW)
def bitcast(g: Emit, x: Tensor) -> Tensor:
    if x.dtype.bytes != g.result_dtype.bytes:
        g.refuse("only types of the same size are supported")
    return g("BitCast", x, to=g.result_dtype)
