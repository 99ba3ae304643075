"""Comparisons, logic and bit operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.loops.walk import dtype_of
from weft.ops.elementwise import (
    ANY,
    BOOLEANS,
    FLOATS,
    INTEGERS,
    NOT_REAL,
    NUMBERS,
    Domain,
    broadcast_inputs,
    broadcast_op,
    checked,
    elementwise,
    like,
    map_op,
    same_dtypes,
)
from weft.ops.expr import binary, const, select, unary
from weft.ops.record import Call, Define, Op, Param
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class BitShiftAttributes(Attributes):
    """Attributes of ``BitShift``.

    Attributes:
        direction: ``LEFT`` or ``RIGHT``.
    """

    direction: str = "LEFT"


@dataclass(frozen=True, slots=True)
class IsInfAttributes(Attributes):
    """Attributes of ``IsInf``: which infinities count."""

    detect_negative: int = 1
    detect_positive: int = 1


def _infer_shift(call: Call) -> tuple[TensorType, ...]:
    call.type(1)
    if call.attributes.direction not in ("LEFT", "RIGHT"):
        raise call.error("direction must be LEFT or RIGHT", got=repr(call.attributes.direction))
    return (TensorType(same_dtypes(call, INTEGERS), broadcast_inputs(call)),)


def _shift(call: Call, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    bits = x.dtype.itemsize * 8
    within = (y >= 0) & (y < bits)
    count = np.where(within, y, x.dtype.type(0))
    if call.attributes.direction == "LEFT":
        return (np.where(within, np.left_shift(x, count), x.dtype.type(0)),)
    # What is shifted out of a signed number leaves copies of its sign.
    rest = np.right_shift(x, x.dtype.type(bits - 1)) if x.dtype.kind == "i" else x * 0
    return (np.where(within, np.right_shift(x, count), rest).astype(x.dtype),)


def _shift_formula(direction: str, x: Expr, y: Expr) -> Expr:
    dtype = dtype_of(x)
    if not dtype.is_signed:
        return binary("shl" if direction == "LEFT" else "shr", x, y)
    bits = dtype.bytes * 8
    outside = binary("or", binary("lt", y, like(y, 0)), binary("ge", y, like(y, bits)))
    if direction == "LEFT":
        return select(outside, const(0, dtype), binary("shl", x, y))
    return binary("shr", x, select(outside, const(bits - 1, dtype), y))


def _define_shift(call: Call) -> tuple[Compute, ...]:
    formula = partial(_shift_formula, call.attributes.direction)
    return elementwise(call, _infer_shift(call)[0].dims, formula)


def _predicate(
    name: str,
    attributes: type,
    formula: Callable[[Any, Expr], Expr],
    function: Callable[[Any, np.ndarray], np.ndarray],
    doc: str,
) -> Op:
    """The record of a question about each element of a floating-point tensor."""

    def infer(call: Call) -> tuple[TensorType, ...]:
        return (TensorType(DType.BOOL, checked(call, 0, FLOATS).shape),)

    def define(call: Call) -> tuple[Compute, ...]:
        return elementwise(call, call.type(0).dims, partial(formula, call.attributes))

    def reference(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.asarray(function(call.attributes, x), np.bool_),)

    return Op(
        name=name,
        infer=infer,
        reference=reference,
        compute=Define(define),
        grad=NOT_REAL,
        doc=doc,
        attributes=attributes,
    )


def _isinf_formula(attributes: IsInfAttributes, x: Expr) -> Expr:
    match bool(attributes.detect_negative), bool(attributes.detect_positive):
        case True, True:
            return unary("isinf", x)
        case True, False:
            return binary("and", unary("isinf", x), binary("lt", x, like(x, 0)))
        case False, True:
            return binary("and", unary("isinf", x), binary("gt", x, like(x, 0)))
        case _:
            return const(False, DType.BOOL)


def _isinf(attributes: IsInfAttributes, x: np.ndarray) -> np.ndarray:
    negative = (x == -np.inf) & bool(attributes.detect_negative)
    positive = (x == np.inf) & bool(attributes.detect_positive)
    return negative | positive


def _compare(
    name: str, op: str, function: Callable[..., np.ndarray], doc: str, domain: Domain = NUMBERS
) -> Op:
    return broadcast_op(
        name, domain, partial(binary, op), function, doc, gives=DType.BOOL, grad=NOT_REAL
    )


def _bitwise(name: str, op: str, function: Callable[..., np.ndarray], doc: str) -> Op:
    domain = INTEGERS if name.startswith("Bitwise") else BOOLEANS
    return broadcast_op(name, domain, partial(binary, op), function, doc, grad=NOT_REAL)


def _inverted(name: str, domain: Domain, doc: str) -> Op:
    return map_op(name, domain, partial(unary, "not"), np.invert, doc, grad=NOT_REAL)


OPS: tuple[Op, ...] = (
    _compare("Equal", "eq", np.equal, "Whether a = b; never for NaN.", ANY),
    _compare("Less", "lt", np.less, "Whether a < b."),
    _compare("Greater", "gt", np.greater, "Whether a > b."),
    _compare("LessOrEqual", "le", np.less_equal, "Whether a <= b."),
    _compare("GreaterOrEqual", "ge", np.greater_equal, "Whether a >= b."),
    _bitwise("And", "and", np.logical_and, "Whether both a and b."),
    _bitwise("Or", "or", np.logical_or, "Whether a or b or both."),
    _bitwise("Xor", "xor", np.logical_xor, "Whether either a or b, not both."),
    _inverted("Not", BOOLEANS, "Whether not x."),
    Op(
        name="BitShift",
        inputs=(Param("x"), Param("y")),
        infer=_infer_shift,
        reference=_shift,
        compute=Define(_define_shift),
        grad=NOT_REAL,
        doc="x with its bits shifted by y; to the right, signed numbers keep their sign.",
        attributes=BitShiftAttributes,
    ),
    _bitwise("BitwiseAnd", "and", np.bitwise_and, "The bits set in both a and b."),
    _bitwise("BitwiseOr", "or", np.bitwise_or, "The bits set in a or b."),
    _bitwise("BitwiseXor", "xor", np.bitwise_xor, "The bits that differ between a and b."),
    _inverted("BitwiseNot", INTEGERS, "x with every bit inverted."),
    _predicate(
        "IsNaN",
        Attributes,
        lambda attributes, x: unary("isnan", x),
        lambda attributes, x: np.isnan(x),
        "Whether x is not a number.",
    ),
    _predicate(
        "IsFinite",
        Attributes,
        lambda attributes, x: binary("lt", unary("abs", x), like(x, math.inf)),
        lambda attributes, x: np.isfinite(x),
        "Whether x is neither an infinity nor NaN.",
    ),
    _predicate(
        "IsInf",
        IsInfAttributes,
        _isinf_formula,
        _isinf,
        "Whether x is an infinity of a kind that is asked for.",
    ),
)
