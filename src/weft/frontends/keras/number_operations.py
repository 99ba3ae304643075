# pyright: basic
"""Functions of ``keras.ops`` on numbers that take several steps, and those on bits and NaN."""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.operations import Operand, both, floating, tensor
from weft.frontends.keras.record import Emit, Made, Row, Tensor, operation

# --- rounding and signs -----------------------------------------------------------------------


def _whole_stays(op: str) -> Row:
    """A function that changes nothing of whole numbers."""

    def row(g: Emit, x: Tensor) -> Tensor:
        return g(op, x) if x.dtype.is_float else x

    return row


operation("Trunc")(_whole_stays("Trunc"))


@operation("Round")
def rounded(g: Emit, x: Tensor, decimals: int = 0) -> Tensor:
    if not x.dtype.is_float:
        if decimals < 0:
            g.refuse("whole numbers cannot be rounded to powers of ten")
        return x
    if decimals == 0:
        return g("Round", x)
    return g("Div", g("Round", g.mul(x, 10.0**decimals)), g.cast(10.0**decimals, x.dtype))


@operation("Fmod")
def remainder(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    return g("Mod", *both(g, x1, x2), fmod=1)


@operation("Signbit")
def sign_bit(g: Emit, x: Tensor) -> Tensor:
    x = floating(g, x)
    return g.pair("Less", g("Copysign", g.cast(1.0, x.dtype), x), 0.0)


@operation("Heaviside")
def heaviside(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    a, b = both(g, floating(g, x1), x2)
    return g.where(
        g.pair("Less", a, 0.0),
        g.mul(b, 0.0),
        g.where(g.pair("Greater", a, 0.0), g.cast(1.0, a.dtype), b),
    )


# --- arithmetic -------------------------------------------------------------------------------


def _scaled(factor: float) -> Row:
    return lambda g, x: g.mul(floating(g, x), factor)


operation("Deg2rad")(_scaled(pi / 180))
operation("Rad2deg")(_scaled(180 / pi))


@operation("Cbrt")
def cube_root(g: Emit, x: Tensor) -> Tensor:
    x = floating(g, x)
    return g("Copysign", g.pair("Pow", g("Abs", x), 1 / 3), x)


@operation("Ldexp")
def times_power_of_two(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    a = floating(g, x1)
    return g("Mul", *both(g, a, g("Exp2", floating(g, x2))))


@operation("Logaddexp2")
def log_add_exp2(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    a, b = both(g, floating(g, x1), x2)
    return g.mul(g("LogAddExp", g.mul(a, log(2)), g.mul(b, log(2))), 1 / log(2))


@operation("DivideNoNan")
def divide_no_nan(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    a, b = both(g, floating(g, x1), x2)
    zero = g.pair("Equal", b, 0.0)
    return g.where(zero, 0.0, g("Div", a, g.where(zero, 1.0, b)))


@operation("Isclose")
def is_close(
    g: Emit,
    x1: Operand,
    x2: Operand,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    a, b = both(g, floating(g, x1), x2)
    near = g("LessOrEqual", g("Abs", g("Sub", a, b)), g.add(g.mul(g("Abs", b), rtol), atol))
    # Infinities are far from everything but themselves.
    made = g("Or", g("Equal", a, b), g("And", near, g("IsFinite", b)))
    return g("Or", made, g("And", g("IsNaN", a), g("IsNaN", b))) if equal_nan else made


@operation("Cumprod")
def cumulative_product(g: Emit, x: Tensor, axis: int | None = None, dtype: Any = None) -> Tensor:
    if dtype is not None:
        x = g.cast(x, DType.of(np.dtype(str(dtype))))
    if axis is None:
        x, axis = g.reshape(x, (x.type.size,)), 0
    return g("CumProd", x, axis=g.axis(x, axis))


@operation("Diff")
def differences(g: Emit, a: Tensor, n: int = 1, axis: int = -1) -> Tensor:
    place = g.axis(a, axis)
    for _ in range(n):
        size = a.shape[place]
        if size < 2:
            g.refuse(f"differences of {size} elements have none")
        later, earlier = g.slice(a, place, 1, size), g.slice(a, place, 0, size - 1)
        a = g("Xor" if a.dtype is DType.BOOL else "Sub", later, earlier)
    return a


# --- reductions -------------------------------------------------------------------------------


@operation("CountNonzero")
def count_nonzero(g: Emit, x: Tensor, axis: Any = None) -> Tensor:
    return g(
        "ReduceSum", g.cast(g.cast(x, DType.BOOL), DType.I32), axes=g.axes(x, axis), keepdims=0
    )


@operation("Ptp")
def peak_to_peak(g: Emit, x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    over = {"axes": g.axes(x, axis), "keepdims": int(keepdims)}
    return g("Sub", g("ReduceMax", x, **over), g("ReduceMin", x, **over))


@operation("Moments")
def moments(
    g: Emit, x: Tensor, axes: Any = None, keepdims: bool = False, synchronized: bool = False
) -> Made:
    # There is one device, so nothing has to be synchronized.
    over = g.axes(x, axes)
    mean = g("ReduceMean", x, axes=over, keepdims=1)
    away = g("Sub", x, mean)
    spread = g("ReduceMean", g("Mul", away, away), axes=over, keepdims=int(keepdims))
    return [mean if keepdims else g("Squeeze", mean, axes=over), spread]


def _without_nan(op: str, instead: float) -> Row:
    """A reduction of the numbers among the elements."""

    def row(g: Emit, x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
        over = {"axes": g.axes(x, axis), "keepdims": int(keepdims)}
        if not x.dtype.is_float:
            return g(op, x, **over)
        none = g("IsNaN", x)
        made = g(op, g.where(none, instead, x), **over)
        if op in ("ReduceSum", "ReduceProd"):
            return made
        # Of nothing but NaN the extreme is NaN, too.
        all_nan = g.pair("Greater", g("ReduceMin", g.cast(none, DType.I32), **over), 0)
        return g.where(all_nan, float("nan"), made)

    return row


operation("Nansum")(_without_nan("ReduceSum", 0.0))
operation("Nanprod")(_without_nan("ReduceProd", 1.0))
operation("Nanmax")(_without_nan("ReduceMax", float("-inf")))
operation("Nanmin")(_without_nan("ReduceMin", float("inf")))


@operation("Nanmean")
def mean_without_nan(g: Emit, x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = floating(g, x)
    over = {"axes": g.axes(x, axis), "keepdims": int(keepdims)}
    none = g("IsNaN", x)
    count = g("ReduceSum", g.cast(g("Not", none), x.dtype), **over)
    return g("Div", g("ReduceSum", g.where(none, 0.0, x), **over), count)


# --- NaN and infinity -------------------------------------------------------------------------


@operation("NanToNum")
def nan_to_num(
    g: Emit,
    x: Tensor,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    if not x.dtype.is_float:
        return x
    most = float(np.finfo(x.dtype.numpy).max) if x.dtype is not DType.BF16 else 3.3895314e38
    high, low = most if posinf is None else posinf, -most if neginf is None else neginf
    made = g.where(g("IsNaN", x), nan, x)
    infinite = g("IsInf", x)
    return g.where(infinite, g.where(g.pair("Greater", x, 0.0), g.cast(high, x.dtype), low), made)


def _infinite(negative: bool) -> Row:
    return lambda g, x: g(
        "IsInf", floating(g, x), detect_negative=int(negative), detect_positive=int(not negative)
    )


operation("Isposinf")(_infinite(negative=False))
operation("Isneginf")(_infinite(negative=True))


def _number_of_two(op: str) -> Row:
    """The extreme of two numbers, or the one that is a number."""

    def row(g: Emit, x1: Operand, x2: Operand) -> Tensor:
        a, b = both(g, x1, x2)
        if not a.dtype.is_float:
            return g(op, a, b)
        return g.where(g("IsNaN", a), b, g.where(g("IsNaN", b), a, g(op, a, b)))

    return row


operation("Fmax")(_number_of_two("Max"))
operation("Fmin")(_number_of_two("Min"))


# --- bits -------------------------------------------------------------------------------------


@operation("BitwiseInvert", "BitwiseNot")
def invert(g: Emit, x: Tensor) -> Tensor:
    return g("Not" if x.dtype is DType.BOOL else "BitwiseNot", x)


def _shifted(direction: str) -> Row:
    return lambda g, x, y: g("BitShift", *both(g, x, y), direction=direction)


operation("BitwiseLeftShift", "LeftShift")(_shifted("LEFT"))
operation("BitwiseRightShift", "RightShift")(_shifted("RIGHT"))


# --- choices ----------------------------------------------------------------------------------


@operation("Select")
def select(g: Emit, condlist: Any, choicelist: Any, default: Operand = 0) -> Tensor:
    made: Operand = default
    for condition, choice in reversed([*zip(condlist, choicelist, strict=True)]):
        made = g("Where", g.cast(tensor(g, condition), DType.BOOL), *both(g, choice, made))
    return tensor(g, made)


# --- products ---------------------------------------------------------------------------------


@operation("Outer")
def outer(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    a, b = both(g, x1, x2)
    return g("Mul", g.reshape(a, (a.type.size, 1)), g.reshape(b, (1, b.type.size)))


@operation("Vdot")
def vector_dot(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    a, b = (g.reshape(each, (each.type.size,)) for each in both(g, x1, x2))
    return g("ReduceSum", g("Mul", a, b), axes=(0,), keepdims=0)


@operation("Tensordot")
def tensor_dot(g: Emit, x1: Operand, x2: Operand, axes: Any = 2) -> Tensor:
    a, b = both(g, x1, x2)
    if isinstance(axes, int):
        of_a, of_b = tuple(range(a.rank - axes, a.rank)), tuple(range(axes))
    else:
        of_a, of_b = (
            g.axes(x, [each] if isinstance(each, int) else list(each))
            for x, each in zip((a, b), axes, strict=True)
        )
    kept_a = [axis for axis in range(a.rank) if axis not in of_a]
    kept_b = [axis for axis in range(b.rank) if axis not in of_b]
    count = int(np.prod([a.shape[axis] for axis in of_a]))
    left = g.reshape(g.transpose(a, (*kept_a, *of_a)), (a.type.size // count, count))
    right = g.reshape(g.transpose(b, (*of_b, *kept_b)), (count, b.type.size // count))
    sizes = [*(a.shape[axis] for axis in kept_a), *(b.shape[axis] for axis in kept_b)]
    return g.reshape(g("MatMul", left, right), sizes)
