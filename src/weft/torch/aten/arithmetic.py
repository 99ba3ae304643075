# pyright: basic
"""Functions of two and more elements; PyTorch's promotion of types is that of the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Number, Tensor
from weft.torch.aten.record import Emit, Row, aten

Operand: TypeAlias = "Tensor | Number"
Pair: TypeAlias = Callable[[Emit, Tensor, Tensor], Tensor]


def _operands(g: Emit, *given: Operand) -> list[Tensor]:
    """Operands in the element type of the result."""
    return [g.cast(each, g.dtype) for each in given]


def scaled(g: Emit, x: Tensor, factor: Number) -> Tensor:
    """A tensor times a number."""
    return x if factor == 1 else g("Mul", x, g.number(factor, x.dtype))


# --- sums and products ------------------------------------------------------------------------


def _sum(op: str, logical: str = "") -> Row:
    def row(g: Emit, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
        left, right = _operands(g, self, other)
        if g.dtype is DType.BOOL and logical and alpha == 1:
            return g(logical, left, right)
        return g(op, left, scaled(g, right, alpha))

    return row


def _product(g: Emit, self: Operand, other: Operand) -> Tensor:
    return g("And" if g.dtype is DType.BOOL else "Mul", *_operands(g, self, other))


for _name in ("add", "__add__"):
    aten(f"{_name}.Tensor", f"{_name}.Scalar")(_sum("Add", "Or"))
for _name in ("sub", "subtract"):
    aten(f"{_name}.Tensor", f"{_name}.Scalar")(_sum("Sub"))
for _name in ("mul", "multiply"):
    aten(f"{_name}.Tensor", f"{_name}.Scalar")(_product)


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(g: Emit, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
    left, right = _operands(g, self, other)
    return g("Sub", right, scaled(g, left, alpha))


@aten("addcmul.default")
def addcmul(g: Emit, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number = 1) -> Tensor:
    base, left, right = _operands(g, self, tensor1, tensor2)
    return g("Add", base, scaled(g, g("Mul", left, right), value))


@aten("addcdiv.default")
def addcdiv(g: Emit, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number = 1) -> Tensor:
    base, left, right = _operands(g, self, tensor1, tensor2)
    return g("Add", base, scaled(g, g("Div", left, right), value))


@aten("lerp.Tensor", "lerp.Scalar")
def lerp(g: Emit, self: Tensor, end: Tensor, weight: Operand) -> Tensor:
    start, stop, part = _operands(g, self, end, weight)
    return g("Add", start, g("Mul", part, g("Sub", stop, start)))


# --- quotients and remainders -----------------------------------------------------------------


def truncated(g: Emit, x: Tensor) -> Tensor:
    """Rounded towards zero."""
    return x if x.dtype.is_integer else g("Trunc", x)


def _divide(g: Emit, self: Operand, other: Operand, rounding_mode: str | None = None) -> Tensor:
    left, right = _operands(g, self, other)
    if rounding_mode == "floor":
        return g("FloorDivide", left, right)
    quotient = g("Div", left, right)
    return truncated(g, quotient) if rounding_mode == "trunc" else quotient


for _name in ("div", "divide"):
    for _overload in ("Tensor", "Scalar", "Tensor_mode", "Scalar_mode"):
        aten(f"{_name}.{_overload}")(_divide)
aten("true_divide.Tensor", "true_divide.Scalar")(_divide)


@aten("fmod.Tensor", "fmod.Scalar")
def fmod(g: Emit, self: Operand, other: Operand) -> Tensor:
    return g("Mod", *_operands(g, self, other), fmod=1)


# --- powers -----------------------------------------------------------------------------------


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
@aten("float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "float_power.Scalar")
def power(g: Emit, self: Operand, exponent: Operand) -> Tensor:
    if isinstance(exponent, float) and abs(exponent) == 0.5 and g.dtype.is_float:
        # PyTorch's are roots, which differ from powers for -0.0 and -inf.
        root = g("Sqrt", g.cast(self, g.dtype))
        return root if exponent > 0 else g("Reciprocal", root)
    return g("Pow", *_operands(g, self, exponent))


def _of_two(op: str) -> Row:
    def row(g: Emit, self: Operand, other: Operand) -> Tensor:
        return g(op, *_operands(g, self, other))

    return row


for _names, _op in {
    "xlogy.Tensor xlogy.Scalar_Other xlogy.Scalar_Self special_xlogy.default": "XLogY",
    "logaddexp.default": "LogAddExp",
    "hypot.default": "Hypot",
    "atan2.default arctan2.default": "Atan2",
    "copysign.Tensor copysign.Scalar": "Copysign",
    "floor_divide.default floor_divide.Scalar": "FloorDivide",
    "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor": "Mod",
}.items():
    aten(*_names.split())(_of_two(_op))


# --- the smaller and the larger ---------------------------------------------------------------


def _extreme(op: str, logical: str) -> Pair:
    def pair(g: Emit, left: Tensor, right: Tensor) -> Tensor:
        return g(logical if left.dtype is DType.BOOL else op, left, right)

    return pair


_smaller, _larger = _extreme("Min", "And"), _extreme("Max", "Or")


def _paired(pair: Pair) -> Row:
    def row(g: Emit, self: Tensor, other: Tensor) -> Tensor:
        return pair(g, *_operands(g, self, other))

    return row


def _passing_nan(pair: Pair) -> Row:
    """Of which a NaN is the other element."""

    def row(g: Emit, self: Tensor, other: Tensor) -> Tensor:
        left, right = _operands(g, self, other)
        found = pair(g, left, right)
        if not g.dtype.is_float:
            return found
        found = g("Where", g("IsNaN", right), left, found)
        return g("Where", g("IsNaN", left), right, found)

    return row


aten("minimum.default", "min.other")(_paired(_smaller))
aten("maximum.default", "max.other")(_paired(_larger))
aten("fmin.default")(_passing_nan(_smaller))
aten("fmax.default")(_passing_nan(_larger))


def _bound(g: Emit, value: Number | None) -> Number | None:
    """A bound as the elements can be compared with it; none where it bounds nothing."""
    if value is None or g.dtype.is_float:
        return value
    low, high = g.dtype.limits
    if not low < value < high:
        return None if math.isinf(value) else int(np.clip(value, low, high))
    return int(value)


@aten("clamp.default", "clip.default", "clamp_min.default", "clamp_max.default")
def clamp(g: Emit, self: Tensor, min: Number | None = None, max: Number | None = None) -> Tensor:
    x = g.cast(self, g.dtype)
    low, high = _bound(g, min), _bound(g, max)
    return x if low is None and high is None else g("Clip", x, min=low, max=high)


@aten("hardtanh.default")
def hardtanh(g: Emit, self: Tensor, min_val: Number, max_val: Number) -> Tensor:
    return clamp(g, self, min_val, max_val)


@aten("clamp.Tensor", "clip.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def clamp_tensor(
    g: Emit, self: Tensor, min: Tensor | None = None, max: Tensor | None = None
) -> Tensor:
    x = g.cast(self, g.dtype)
    if min is not None:
        x = _larger(g, x, g.cast(min, g.dtype))
    return x if max is None else _smaller(g, x, g.cast(max, g.dtype))
