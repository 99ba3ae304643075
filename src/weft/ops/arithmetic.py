"""Arithmetic, elementwise and broadcast."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.loops.walk import dtype_of
from weft.ops.derivatives import add_grad, div_grad, exp_grad, mul_grad, neg_grad, sub_grad
from weft.ops.elementwise import (
    FLOATS,
    NUMBERS,
    PIECEWISE_CONSTANT,
    SIGNED,
    Domain,
    broadcast_inputs,
    broadcast_op,
    broadcast_shape,
    checked,
    elementwise,
    erf,
    fitted,
    like,
    map_op,
)
from weft.ops.expr import binary, select, unary
from weft.ops.record import WITH_AUTODIFF, Call, Define, Grad, NoGrad, Op, Param
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class ModAttributes(Attributes):
    """Attributes of ``Mod``.

    Attributes:
        fmod: 0: the sign of the divisor (Python's ``%``); 1: of the dividend (C's).
    """

    fmod: int = 0


@dataclass(frozen=True, slots=True)
class ClipAttributes(Attributes):
    """Attributes of ``Clip``: bounds, ``None`` where there is none."""

    min: float | int | None = None
    max: float | int | None = None


def _divide(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    if lhs.dtype.kind == "f":
        return np.divide(lhs, rhs)
    quotient = np.floor_divide(lhs, rhs)
    inexact = quotient * rhs != lhs
    return quotient + (inexact & ((lhs < 0) != (rhs < 0))).astype(lhs.dtype)


def _mod(attributes: ModAttributes, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    return np.fmod(lhs, rhs) if attributes.fmod else np.mod(lhs, rhs)


def _mod_formula(attributes: ModAttributes, lhs: Expr, rhs: Expr) -> Expr:
    return binary("fmod" if attributes.fmod else "mod", lhs, rhs)


def _extreme(op: str, *values: Expr) -> Expr:
    """The smallest or largest; a NaN anywhere gives NaN."""

    def pair(lhs: Expr, rhs: Expr) -> Expr:
        chosen = binary(op, lhs, rhs)
        # min and max keep a NaN on the left only.
        return select(unary("isnan", rhs), rhs, chosen) if dtype_of(rhs).is_float else chosen

    return reduce(pair, values)


def _sum(*values: Expr) -> Expr:
    return reduce(partial(binary, "add"), values)


def _mean(*values: Expr) -> Expr:
    return binary("div", _sum(*values), like(values[0], len(values)))


def _added(*values: np.ndarray) -> np.ndarray:
    return reduce(np.add, values)


def _clip_formula(attributes: ClipAttributes, x: Expr) -> Expr:
    if attributes.min is not None:
        x = binary("max", x, like(x, attributes.min))
    if attributes.max is not None:
        x = binary("min", x, like(x, attributes.max))
    return x


def _clip(attributes: ClipAttributes, x: np.ndarray) -> np.ndarray:
    if attributes.min is not None:
        x = np.maximum(x, x.dtype.type(attributes.min))
    if attributes.max is not None:
        x = np.minimum(x, x.dtype.type(attributes.max))
    return x


def _erf(x: np.ndarray) -> np.ndarray:
    return erf(x).astype(x.dtype)


def magnitude(x: Expr) -> Expr:
    """Without its sign."""
    return unary("abs", x) if dtype_of(x).is_signed else x


def _power_type(call: Call) -> DType:
    """Powers of integers are taken in ``f64``, all others in ``f32`` at least."""
    base, exponent = call.type(0).dtype, call.type(1).dtype
    return DType.F64 if DType.F64 in (base, exponent) or base.is_integer else DType.F32


def _infer_pow(call: Call) -> tuple[TensorType, ...]:
    base = checked(call, 0, NUMBERS)
    checked(call, 1, NUMBERS)
    return (TensorType(base.dtype, broadcast_inputs(call)),)


def _pow(call: Call, base: np.ndarray, exponent: np.ndarray) -> tuple[np.ndarray, ...]:
    dtype = _power_type(call).numpy
    return (np.power(base.astype(dtype), exponent.astype(dtype)).astype(base.dtype),)


def _define_pow(call: Call) -> tuple[Compute, ...]:
    wider = _power_type(call)

    def point(base: Expr, exponent: Expr) -> Expr:
        lhs = fitted(wider, base, dtype_of(base))
        rhs = fitted(wider, exponent, dtype_of(exponent))
        return fitted(call.type(0).dtype, binary("pow", lhs, rhs), wider)

    return elementwise(call, _infer_pow(call)[0].dims, point)


def _infer_where(call: Call) -> tuple[TensorType, ...]:
    if call.type(0).dtype is not DType.BOOL:
        raise call.error("the condition must be bool")
    if call.type(1).dtype is not call.type(2).dtype:
        raise call.error("both choices must have the same element type")
    shape = broadcast_shape(call, [call.type(place).shape for place in range(3)])
    return (TensorType(call.type(1).dtype, shape),)


def _where(
    call: Call, condition: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, ...]:
    return (np.where(condition, x, y),)


def _unary(
    name: str,
    op: str,
    function: Callable[[np.ndarray], np.ndarray],
    doc: str,
    domain: Domain = FLOATS,
    grad: Grad | NoGrad = WITH_AUTODIFF,
) -> Op:
    return map_op(name, domain, lambda x: unary(op, x), function, doc, grad=grad)


def _binary(
    name: str,
    op: str,
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    grad: Grad,
    doc: str,
) -> Op:
    return broadcast_op(name, NUMBERS, partial(binary, op), function, doc, grad=grad)


OPS: tuple[Op, ...] = (
    _binary("Add", "add", np.add, add_grad, "a + b, elementwise; integers wrap."),
    _binary("Sub", "sub", np.subtract, sub_grad, "a - b, elementwise; integers wrap."),
    _binary("Mul", "mul", np.multiply, mul_grad, "a times b, elementwise; integers wrap."),
    _binary("Div", "div", _divide, div_grad, "a / b, elementwise; integers truncate towards zero."),
    broadcast_op(
        "Mod",
        NUMBERS,
        _mod_formula,
        _mod,
        "The remainder of a / b, with the sign of b, or of a with fmod.",
        attributes=ModAttributes,
    ),
    Op(
        name="Pow",
        inputs=(Param("x"), Param("y")),
        infer=_infer_pow,
        reference=_pow,
        compute=Define(_define_pow),
        doc="x to the power of y, in the type of x.",
    ),
    _unary("Neg", "neg", np.negative, "-x.", SIGNED, neg_grad),
    map_op("Abs", NUMBERS, magnitude, np.abs, "The magnitude of x."),
    _unary(
        "Sign",
        "sign",
        np.sign,
        "-1, 0 or 1, as x is negative, zero or positive.",
        NUMBERS,
        PIECEWISE_CONSTANT,
    ),
    map_op(
        "Reciprocal",
        FLOATS,
        lambda x: binary("div", like(x, 1), x),
        lambda x: x.dtype.type(1) / x,
        "1 / x.",
    ),
    _unary("Sqrt", "sqrt", np.sqrt, "The square root of x; NaN below zero."),
    _unary("Exp", "exp", np.exp, "e to the power of x.", grad=exp_grad),
    _unary("Log", "log", np.log, "The natural logarithm of x; NaN below zero."),
    _unary("Ceil", "ceil", np.ceil, "x rounded up.", grad=PIECEWISE_CONSTANT),
    _unary("Floor", "floor", np.floor, "x rounded down.", grad=PIECEWISE_CONSTANT),
    _unary(
        "Round",
        "round",
        np.rint,
        "x rounded to the nearest whole number, halves to even.",
        grad=PIECEWISE_CONSTANT,
    ),
    _unary("Erf", "erf", _erf, "The error function of x."),
    _unary("Sin", "sin", np.sin, "The sine of x in radians."),
    _unary("Cos", "cos", np.cos, "The cosine of x in radians."),
    _unary("Tan", "tan", np.tan, "The tangent of x in radians."),
    _unary("Asin", "asin", np.arcsin, "The arc sine of x; NaN outside [-1, 1]."),
    _unary("Acos", "acos", np.arccos, "The arc cosine of x; NaN outside [-1, 1]."),
    _unary("Atan", "atan", np.arctan, "The arc tangent of x."),
    _unary("Sinh", "sinh", np.sinh, "The hyperbolic sine of x."),
    _unary("Cosh", "cosh", np.cosh, "The hyperbolic cosine of x."),
    _unary("Tanh", "tanh", np.tanh, "The hyperbolic tangent of x."),
    _unary("Asinh", "asinh", np.arcsinh, "The inverse hyperbolic sine of x."),
    _unary("Acosh", "acosh", np.arccosh, "The inverse hyperbolic cosine of x; NaN below 1."),
    _unary("Atanh", "atanh", np.arctanh, "The inverse hyperbolic tangent; NaN beyond 1."),
    broadcast_op(
        "Min",
        NUMBERS,
        partial(_extreme, "min"),
        lambda *values: reduce(np.minimum, values),
        "The smallest of all inputs, elementwise; NaN if any is NaN.",
        variadic=True,
    ),
    broadcast_op(
        "Max",
        NUMBERS,
        partial(_extreme, "max"),
        lambda *values: reduce(np.maximum, values),
        "The largest of all inputs, elementwise; NaN if any is NaN.",
        variadic=True,
    ),
    broadcast_op("Sum", FLOATS, _sum, _added, "The sum of all inputs.", variadic=True),
    broadcast_op(
        "Mean",
        FLOATS,
        _mean,
        lambda *values: _added(*values) / values[0].dtype.type(len(values)),
        "The mean of all inputs, elementwise.",
        variadic=True,
    ),
    map_op(
        "Clip",
        NUMBERS,
        _clip_formula,
        _clip,
        "x held within [min, max]; max wins where they cross.",
        attributes=ClipAttributes,
    ),
    Op(
        name="Where",
        inputs=(Param("condition"), Param("x"), Param("y")),
        infer=_infer_where,
        reference=_where,
        compute=Define(lambda call: elementwise(call, _infer_where(call)[0].dims, select)),
        doc="x where the condition holds, y elsewhere.",
    ),
)
