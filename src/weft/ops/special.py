"""Mathematical functions that PyTorch and NumPy have and ONNX lacks, elementwise."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from weft.dtypes import DType
from weft.loops.nodes import Bits, Const, Expr
from weft.loops.walk import dtype_of
from weft.ops.elementwise import (
    FLOATS,
    NUMBERS,
    PIECEWISE_CONSTANT,
    Formula,
    Function,
    broadcast_op,
    erfc,
    less,
    like,
    map_op,
    over,
    plus,
    times,
)
from weft.ops.expr import binary, select, unary
from weft.ops.record import Op

_BITS = {DType.F32: DType.I32, DType.F64: DType.I64}
# Where squares leave the range of a type, and what brings them back: powers of 2.
_SQUARES = {DType.F32: (62, -50, -64, 100), DType.F64: (500, -400, -600, 700)}


def _of_one(name: str, formula: Formula, function: Function, doc: str) -> Op:
    return map_op(name, FLOATS, formula, function, doc)


def _of_two(name: str, formula: Formula, function: Function, doc: str) -> Op:
    return broadcast_op(name, FLOATS, formula, function, doc)


def _equal(lhs: Expr, rhs: Expr | float) -> Expr:
    return binary("eq", lhs, like(lhs, rhs) if isinstance(rhs, int | float) else rhs)


def _sinc(x: Expr) -> Expr:
    angle = times(x, math.pi)
    return select(_equal(x, 0), like(x, 1), over(unary("sin", angle), angle))


def _bits(x: Expr) -> Expr:
    return Bits(_BITS[dtype_of(x)], x)


def _copysign(size: Expr, sign: Expr) -> Expr:
    dtype = _BITS[dtype_of(size)]
    low, high = (Const(end, dtype) for end in dtype.limits)
    value = binary("or", binary("and", _bits(size), high), binary("and", _bits(sign), low))
    return Bits(dtype_of(size), value)


def _atan2(y: Expr, x: Expr) -> Expr:
    rise, run = unary("abs", y), unary("abs", x)
    # Zeros and infinities on both sides: the ratio that their signs' octants have in the middle.
    same = select(_equal(rise, 0), rise, like(y, 1))
    angle = unary("atan", select(_equal(rise, run), same, over(rise, run)))
    left = binary("lt", _bits(x), Const(0, _BITS[dtype_of(x)]))
    return _copysign(select(left, binary("sub", like(x, math.pi), angle), angle), y)


def _hypot(a: Expr, b: Expr) -> Expr:
    high, low, down, up = _SQUARES[dtype_of(a)]
    a, b = unary("abs", a), unary("abs", b)
    most = binary("max", a, b)

    def choice(for_large: float, for_small: float) -> Expr:
        small = select(less(most, 2.0**low), like(a, for_small), like(a, 1))
        return select(less(most, 2.0**high), small, like(a, for_large))

    scale, back = choice(2.0**down, 2.0**up), choice(2.0**-down, 2.0**-up)
    squares = [binary("mul", scaled, scaled) for scaled in (times(a, scale), times(b, scale))]
    infinite = binary("or", _equal(a, math.inf), _equal(b, math.inf))
    length = times(unary("sqrt", plus(*squares)), back)
    return select(infinite, like(a, math.inf), length)


def _xlogy(x: Expr, y: Expr) -> Expr:
    nothing = binary("and", _equal(x, 0), _equal(y, y))
    return select(nothing, like(x, 0), times(x, unary("log", y)))


def _xlogy_value(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where((x == 0) & ~np.isnan(y), x.dtype.type(0), x * np.log(y))


def _log_add_exp(a: Expr, b: Expr) -> Expr:
    apart = unary("neg", unary("abs", binary("sub", a, b)))
    beside = select(_equal(a, b), like(a, math.log(2)), unary("log1p", unary("exp", apart)))
    return plus(binary("max", a, b), beside)


OPS: tuple[Op, ...] = (
    _of_one("Exp2", partial(unary, "exp2"), np.exp2, "2 to the power of x."),
    _of_one("Expm1", partial(unary, "expm1"), np.expm1, "e to the power of x, less 1."),
    _of_one("Log1p", partial(unary, "log1p"), np.log1p, "The natural logarithm of 1 + x."),
    _of_one("Log2", partial(unary, "log2"), np.log2, "The logarithm of x to base 2."),
    _of_one("Log10", partial(unary, "log10"), np.log10, "The logarithm of x to base 10."),
    _of_one("Erfc", partial(unary, "erfc"), erfc, "1 less the error function of x."),
    map_op(
        "Trunc",
        FLOATS,
        partial(unary, "trunc"),
        np.trunc,
        "x rounded towards zero.",
        grad=PIECEWISE_CONSTANT,
    ),
    _of_one("Sinc", _sinc, np.sinc, "sin(pi x) / (pi x); 1 at 0."),
    _of_two("Copysign", _copysign, np.copysign, "The magnitude of a with the sign of b."),
    _of_two("Atan2", _atan2, np.arctan2, "The angle of the point (b, a), in radians."),
    _of_two("Hypot", _hypot, np.hypot, "The length of (a, b); no intermediate overflow."),
    _of_two("XLogY", _xlogy, _xlogy_value, "a times the natural logarithm of b; 0 where a is 0."),
    _of_two("LogAddExp", _log_add_exp, np.logaddexp, "The logarithm of exp(a) + exp(b)."),
    broadcast_op(
        "FloorDivide",
        NUMBERS,
        partial(binary, "floordiv"),
        np.floor_divide,
        "a / b rounded down.",
        grad=PIECEWISE_CONSTANT,
    ),
)
