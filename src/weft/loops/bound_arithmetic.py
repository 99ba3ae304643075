"""Interval arithmetic on whole arrays: an operation on the bounds of its operands' elements.

Bounds are exact about wrapping: where a result might leave its type, it is only known to be in
its type.  Floating-point products are widened so that bounds hold with and without contraction.
Finite bounds say that there is no NaN; an element of which less is known has infinite ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.loops.nodes import COMPARISONS

Pair: TypeAlias = "tuple[np.ndarray, np.ndarray]"
"""Smallest and largest value of each element, both inclusive: ``i64`` for integers and bools,
the type itself for floats."""

BOUNDED = frozenset(DType) - {DType.U64, DType.F16, DType.BF16}
"""Types whose elements have bounds."""
_OVERFLOW = 2.0**62
"""Bounds of 64 bits beyond it may have wrapped."""


def representation(dtype: DType) -> np.dtype:
    """The type of the arrays of bounds."""
    return dtype.numpy if dtype.is_float else np.dtype(np.int64)


def anything(dtype: DType) -> Pair:
    """Bounds of an element of which only the type is known."""
    low, high = (-np.inf, np.inf) if dtype.is_float else dtype.limits
    kind = representation(dtype)
    return np.array(low, kind), np.array(high, kind)


def hull(one: Pair, other: Pair) -> Pair:
    """Bounds that hold for both."""
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])


def is_exact(pair: Pair) -> bool:
    """Whether every element is known."""
    return pair[0] is pair[1] or bool((pair[0] == pair[1]).all())


def within(pair: Pair, dtype: DType, size: float = 0.0) -> Pair:
    """The bounds, or those of the type where they leave it or may have overflowed.

    Args:
        pair: as computed without wrapping.
        dtype: of the elements.
        size: the largest magnitude on the way, in floating point.
    """
    low, high = pair
    least, most = anything(dtype)
    if dtype.is_float:
        inside = np.isfinite(low) & np.isfinite(high)
    elif size >= _OVERFLOW:
        inside = np.zeros(np.broadcast_shapes(low.shape, high.shape), bool)
    else:
        inside = (low >= least) & (high <= most)
    if inside.all():
        return pair
    return np.where(inside, low, least), np.where(inside, high, most)


def widened(pair: Pair, exact: Pair, dtype: DType) -> Pair:
    """Two units in the last place more on both sides of rounded products and quotients.

    So they hold where a product is not rounded because it is contracted with a sum, and where a
    division is a product with the reciprocal.  Sums need no more: rounding keeps the order.

    Args:
        pair: as rounded.
        exact: the same in twice the precision; what is equal to it stays.
        dtype: of the elements.
    """
    found: list[np.ndarray] = []
    kind = representation(dtype)
    for end, true, infinity in zip(pair, exact, (-np.inf, np.inf), strict=True):
        limit = kind.type(infinity)
        outside = np.nextafter(np.nextafter(end, limit), limit)
        found.append(np.where((end == true) & (dtype is DType.F32), end, outside))
    return found[0], found[1]


def _magnitude(*arrays: np.ndarray) -> float:
    return max(float(np.abs(each.astype(np.float64)).max(initial=0)) for each in arrays)


# --- binary operations --------------------------------------------------------------------------

_Function: TypeAlias = "Callable[[np.ndarray, np.ndarray], np.ndarray]"


def _corners(function: _Function, a: Pair, b: Pair) -> Pair:
    """Of what is monotone in each operand."""
    ends = [function(x, y) for x in a for y in b]
    low = high = ends[0]
    for end in ends[1:]:
        low, high = np.minimum(low, end), np.maximum(high, end)
    return low, high


def _add(a: Pair, b: Pair) -> Pair:
    return a[0] + b[0], a[1] + b[1]


def _sub(a: Pair, b: Pair) -> Pair:
    return a[0] - b[1], a[1] - b[0]


def _mul(a: Pair, b: Pair) -> Pair:
    if not is_exact(b):
        a, b = b, a
    if not is_exact(b):
        return _corners(np.multiply, a, b)
    first, second = a[0] * b[0], a[1] * b[0]
    return np.minimum(first, second), np.maximum(first, second)


_LINEAR: Mapping[str, Callable[[Pair, Pair], Pair]] = {"add": _add, "sub": _sub, "mul": _mul}
_SIZES: Mapping[str, Callable[[float, float], float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
}


def _linear(op: str, a: Pair, b: Pair, dtype: DType) -> Pair:
    size = 0.0
    if dtype in (DType.I64, DType.U32):
        size = _SIZES[op](_magnitude(*a), _magnitude(*b))
    found = _LINEAR[op](a, b)
    if dtype.is_float and op == "mul":
        found = widened(found, _mul(_wide(a), _wide(b)), dtype)
    return within(found, dtype, size)


def _wide(pair: Pair) -> Pair:
    return pair[0].astype(np.float64), pair[1].astype(np.float64)


def _truncated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The quotient rounded towards zero; y is positive."""
    return np.sign(x) * (np.abs(x) // y)


def _quotient(op: str, a: Pair, b: Pair, dtype: DType) -> Pair | None:
    if not (b[0] > 0).all():
        return None
    if dtype.is_float:
        if op != "div":
            return None
        wide = _corners(np.divide, _wide(a), _wide(b))
        return within(widened(_corners(np.divide, a, b), wide, dtype), dtype)
    if op in ("floordiv", "div"):
        return _corners(np.floor_divide if op == "floordiv" else _truncated, a, b)
    if op == "mod" and is_exact(a) and is_exact(b):
        found = np.mod(a[0], b[0])
        return found, found
    return (np.zeros_like(b[1]), b[1] - 1) if op == "mod" else None


def _shift(op: str, a: Pair, b: Pair, dtype: DType) -> Pair | None:
    """Shifts by less than the width."""
    if not ((b[0] >= 0).all() and (b[1] < dtype.bytes * 8).all()):
        return None
    if op == "shr":
        return _corners(np.right_shift, a, b) if dtype.is_signed else None
    factors = np.int64(1) << np.minimum(b[0], 62), np.int64(1) << np.minimum(b[1], 62)
    found = within(_corners(np.multiply, a, factors), dtype, _magnitude(*a) * _magnitude(*factors))
    return found if (b[1] < 62).all() else None


def _logical(op: str, a: Pair, b: Pair, dtype: DType) -> Pair | None:
    if dtype is DType.BOOL:
        choose = np.minimum if op == "and" else np.maximum
        return choose(a[0], b[0]), choose(a[1], b[1])
    if is_exact(a) and is_exact(b):
        found = (np.bitwise_and if op == "and" else np.bitwise_or)(a[0], b[0])
        return found, found
    if op == "and" and (b[0] >= 0).all():
        return np.zeros_like(b[1]), b[1]
    return None


_MIRRORED = {"gt": "lt", "ge": "le"}


def compared(op: str, a: Pair, b: Pair) -> Pair:
    """Bounds, 0 and 1, of a comparison."""
    if op in _MIRRORED:
        op, a, b = _MIRRORED[op], b, a
    match op:
        case "lt":
            always, never = a[1] < b[0], a[0] >= b[1]
        case "le":
            always, never = a[1] <= b[0], a[0] > b[1]
        case _:
            apart = (a[1] < b[0]) | (a[0] > b[1])
            same = (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])
            always, never = (same, apart) if op == "eq" else (apart, same)
    if a[0].dtype.kind == "f":
        # Of a NaN nothing is known.
        known = np.isfinite(a[0]) & np.isfinite(a[1]) & np.isfinite(b[0]) & np.isfinite(b[1])
        always, never = always & known, never & known
    return always.astype(np.int64), (~never).astype(np.int64)


def _smaller(a: Pair, b: Pair) -> Pair:
    return np.minimum(a[0], b[0]), np.minimum(a[1], b[1])


def _larger(a: Pair, b: Pair) -> Pair:
    return np.maximum(a[0], b[0]), np.maximum(a[1], b[1])


def binary(op: str, a: Pair, b: Pair, dtype: DType) -> Pair:
    """Bounds of a ``Binary`` whose operands are of a type.

    Args:
        op: one of ``BINARY_OPS``.
        a: bounds of the left operand.
        b: bounds of the right operand; they broadcast.
        dtype: of both operands, one of ``BOUNDED``.
    """
    with np.errstate(all="ignore"):
        return _binary(op, a, b, dtype) or anything(dtype)


def _binary(op: str, a: Pair, b: Pair, dtype: DType) -> Pair | None:
    if op in COMPARISONS:
        return compared(op, a, b)
    if op in _LINEAR:
        return _linear(op, a, b, dtype)
    if op in ("min", "max"):
        # Infinite bounds, which may stand for a NaN, stay.
        return within((_smaller if op == "min" else _larger)(a, b), dtype)
    if op in ("div", "floordiv", "mod"):
        return _quotient(op, a, b, dtype)
    if op in ("shl", "shr"):
        return _shift(op, a, b, dtype)
    return _logical(op, a, b, dtype) if op in ("and", "or") else None


# --- unary operations ---------------------------------------------------------------------------

_MONOTONE: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sign": np.sign,
}


def unary(op: str, x: Pair, dtype: DType) -> Pair:
    """Bounds of a ``Unary`` of an operand of a type, one of ``BOUNDED``."""
    low, high = x
    match op:
        case "neg":
            return within((-high, -low), dtype, _magnitude(low, high))
        case "not" if dtype is DType.BOOL:
            return 1 - high, 1 - low
        case "abs":
            least = np.maximum(np.maximum(low, -high), low.dtype.type(0))
            found = least, np.maximum(np.abs(low), np.abs(high))
            return within(found, dtype, _magnitude(low, high))
        case "isnan" | "isinf":
            known = np.isfinite(low) & np.isfinite(high)
            return np.zeros_like(known, np.int64), (~known).astype(np.int64)
        case _ if op in _MONOTONE:
            return within((_MONOTONE[op](low), _MONOTONE[op](high)), dtype)
        case _:
            return anything(dtype)


def converted(x: Pair, source: DType, target: DType) -> Pair:
    """Bounds of a ``Cast``."""
    if target is DType.BOOL:
        zero = np.zeros((), representation(source))
        return compared("ne", x, (zero, zero))
    if target.is_float:
        kind = representation(target)
        return within((x[0].astype(kind), x[1].astype(kind)), target)
    if source.is_float:
        least, most = anything(target)
        inside = (x[0] > -_OVERFLOW) & (x[1] < _OVERFLOW)
        low, high = (np.where(inside, end, 0).astype(np.int64) for end in x)
        return within((np.where(inside, low, least), np.where(inside, high, most)), target)
    return within(x, target)
