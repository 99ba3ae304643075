# pyright: basic
"""Comparisons, logic, and choices."""

from __future__ import annotations

from typing import Any

import torch

from weft.dtypes import DType
from weft.frontends.emit import Number, Tensor
from weft.torch.aten.record import Emit, Row, aten
from weft.torch.tensors import TORCH_DTYPES, dtype_of

Operand = Tensor | Number


def promoted(*operands: Operand) -> DType:
    """The element type that PyTorch computes with."""
    given: list[Any] = [
        torch.empty((1,) * each.rank, dtype=TORCH_DTYPES[each.dtype], device="meta")
        if isinstance(each, Tensor)
        else each
        for each in operands
    ]
    return dtype_of(torch.result_type(*given))


def _compared(op: str, negated: bool = False) -> Row:
    def row(g: Emit, self: Operand, other: Operand) -> Tensor:
        dtype = promoted(self, other)
        if dtype is DType.BOOL:
            dtype = DType.U8
        made = g(op, g.cast(self, dtype), g.cast(other, dtype))
        return g("Not", made) if negated else made

    return row


_COMPARISONS = {
    "eq": _compared("Equal"),
    "ne": _compared("Equal", negated=True),
    "lt": _compared("Less"),
    "le": _compared("LessOrEqual"),
    "gt": _compared("Greater"),
    "ge": _compared("GreaterOrEqual"),
}
_LONG = {
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
for _name, _row in _COMPARISONS.items():
    for _each in (_name, _LONG.get(_name)):
        if _each:
            aten(f"{_each}.Tensor", f"{_each}.Scalar")(_row)


@aten("isclose.default")
def isclose(
    g: Emit, self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool
) -> Tensor:
    dtype = promoted(self, other)
    if not dtype.is_float:
        dtype = DType.F64
    x, y = g.cast(self, dtype), g.cast(other, dtype)
    bound = g("Add", g("Abs", g("Mul", y, g.number(rtol, dtype))), g.number(atol, dtype))
    apart = g("Abs", g("Sub", x, y))
    # An infinite bound is none.
    near = g("And", g("LessOrEqual", apart, bound), _finite(g, apart))
    found = g("Or", g("Equal", x, y), near)
    if equal_nan:
        found = g("Or", found, g("And", g("IsNaN", x), g("IsNaN", y)))
    return found


# --- logic ------------------------------------------------------------------------------------


def _logical(op: str) -> Row:
    def row(g: Emit, self: Tensor, other: Tensor) -> Tensor:
        return g(op, g.cast(self, DType.BOOL), g.cast(other, DType.BOOL))

    return row


def _bitwise(op: str) -> Row:
    def row(g: Emit, self: Operand, other: Operand) -> Tensor:
        name = op if g.dtype is DType.BOOL else f"Bitwise{op}"
        return g(name, g.cast(self, g.dtype), g.cast(other, g.dtype))

    return row


for _name, _op in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    aten(f"logical_{_name}.default")(_logical(_op))
    for _each in (f"bitwise_{_name}", f"__{_name}__"):
        aten(f"{_each}.Tensor", f"{_each}.Scalar")(_bitwise(_op))


@aten("logical_not.default")
def logical_not(g: Emit, self: Tensor) -> Tensor:
    return g("Not", g.cast(self, DType.BOOL))


@aten("bitwise_not.default")
def bitwise_not(g: Emit, self: Tensor) -> Tensor:
    return g("Not" if self.dtype is DType.BOOL else "BitwiseNot", self)


# --- special values ---------------------------------------------------------------------------


def _finite(g: Emit, x: Tensor) -> Tensor:
    return g("Not", g("Or", g("IsNaN", x), g("IsInf", x)))


@aten("isnan.default")
def isnan(g: Emit, self: Tensor) -> Tensor:
    return g("IsNaN", self) if self.dtype.is_float else _all(g, self, False)


@aten("isinf.default")
def isinf(g: Emit, self: Tensor) -> Tensor:
    return g("IsInf", self) if self.dtype.is_float else _all(g, self, False)


@aten("isposinf.default")
def isposinf(g: Emit, self: Tensor) -> Tensor:
    return g("IsInf", self, detect_negative=0) if self.dtype.is_float else _all(g, self, False)


@aten("isneginf.default")
def isneginf(g: Emit, self: Tensor) -> Tensor:
    return g("IsInf", self, detect_positive=0) if self.dtype.is_float else _all(g, self, False)


@aten("isfinite.default")
def isfinite(g: Emit, self: Tensor) -> Tensor:
    return _finite(g, self) if self.dtype.is_float else _all(g, self, True)


def _all(g: Emit, like: Tensor, value: bool) -> Tensor:
    return g("ConstantOfShape", shape=like.shape, value=value, dtype=DType.BOOL)


# --- choices ----------------------------------------------------------------------------------


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(g: Emit, condition: Tensor, self: Operand, other: Operand) -> Tensor:
    chosen = g(
        "Where", g.cast(condition, DType.BOOL), g.cast(self, g.dtype), g.cast(other, g.dtype)
    )
    return g.expand(chosen, g.result.dims)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(g: Emit, self: Tensor, mask: Tensor, value: Operand) -> Tensor:
    return where(g, mask, value, self)
