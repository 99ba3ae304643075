"""What a definition makes of all pairs of two bytes, by NumPy on whole arrays.

The values are those of the interpreter (``weft.loops.interpret``), which takes a third of a second
for all pairs; this takes 2 to 20 ms.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.loops.nodes import Binary, Cast, Const, Expr, Load, Reduce, Unary, Var
from weft.loops.walk import children, dtype_of
from weft.records import dataclass

_BYTES = (DType.I8, DType.U8)
_TYPES = (*_BYTES, DType.I32, DType.I64, DType.F32, DType.BOOL)
BYTES = 256
_FLAT = 1e-6
"""How far values in double precision may be from those of an affine function."""
Values: TypeAlias = np.ndarray
_ANY: Mapping[str, Callable[[Values, Values], Values]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": np.minimum,
    "max": np.maximum,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_INTEGERS: Mapping[str, np.ufunc] = {
    "shl": np.left_shift,
    "shr": np.right_shift,
}


@dataclass(frozen=True, eq=False)
class BytePairs:
    """A byte that is a function of two.

    Attributes:
        x, y: both bytes, which may be computed.
        first, second: their values in all pairs, ``i64[256, 1]`` and ``i64[1, 256]``.
        results: of all pairs, ``i64[256, 256]``.
        slopes: of the function before anything is rounded or held within limits.
        real: its values then, but for what is added to all.
        dtype: of the results.
        zero: what is added to the function's value after it was rounded.
    """

    x: Expr
    y: Expr
    first: np.ndarray
    second: np.ndarray
    results: np.ndarray
    slopes: tuple[float, float]
    real: np.ndarray
    dtype: DType
    zero: int


def byte_pairs(value: Cast) -> BytePairs | None:
    """What a byte is for all pairs of the two bytes that it depends on.

    Returns:
        ``None`` if it depends on anything else, takes operations that are unknown here or are
        neither of floats nor of 64 bits, or is not affine before anything is rounded.
    """
    found = _two_bytes(value.x)
    if found is None or value.dtype not in _BYTES:
        return None
    x, y = found
    first, second = _numbers(x).reshape(-1, 1), _numbers(y).reshape(1, -1)
    with np.errstate(all="ignore"):
        results = _Exact([(x, first), (y, second)])(value)
        if results is None:
            return None
        doubles = [(x, first.astype(np.float64)), (y, second.astype(np.float64))]
        real = _Real(doubles)(value)
    if real is None or real.shape != results.shape or not np.isfinite(real).all():
        return None
    corner, last = float(real[0, 0]), BYTES - 1
    slopes = (float(real[-1, 0]) - corner) / last, (float(real[0, -1]) - corner) / last
    places = np.arange(BYTES)
    plane = corner + slopes[0] * places[:, None] + slopes[1] * places
    if not all(slopes) or np.abs(real - plane).max() > _FLAT:
        return None
    return BytePairs(
        x, y, first, second, results.astype(np.int64), slopes, real, value.dtype, _zero(value.x)
    )


def _zero(value: Expr) -> int:
    """A constant that is added at last."""
    match value:
        case Binary("min" | "max", Const(), x) | Binary("min" | "max", x, Const()) | Cast(x=x):
            return _zero(x)
        case Binary("add", _, Const(zero)):
            return int(zero)
        case Binary("sub", _, Const(zero)):
            return -int(zero)
        case _:
            return 0


def _numbers(byte: Expr) -> np.ndarray:
    """All values of a byte, in order."""
    low, high = dtype_of(byte).limits
    return np.arange(int(low), int(high) + 1)


def _two_bytes(value: Expr) -> tuple[Expr, Expr] | None:
    """The two bytes that a value depends on, if there is nothing else, and it is worth asking."""
    bytes_: list[Expr] = []
    left, long = [value], False
    while left:
        node = left.pop()
        if isinstance(node, Load | Cast) and node.dtype in _BYTES:
            if node not in bytes_:
                bytes_.append(node)
            if len(bytes_) > 2:
                return None
        elif isinstance(node, Load | Var | Reduce) or dtype_of(node) not in _TYPES:
            return None
        else:
            long |= dtype_of(node) in (DType.F32, DType.I64)
            left += children(node)
    return (bytes_[-1], bytes_[0]) if long and len(bytes_) == 2 else None


class _Exact:
    """Values in their types; ``None`` where an operation is unknown or leaves its type."""

    def __init__(self, bytes_: Sequence[tuple[Expr, Values]]) -> None:
        self._seen: dict[int, Values | None] = {}
        self._bytes = bytes_

    def __call__(self, node: Expr) -> Values | None:
        if id(node) not in self._seen:
            self._seen[id(node)] = self._value(node)
        return self._seen[id(node)]

    def _given(self, node: Expr) -> Values | None:
        if not isinstance(node, Load | Cast):
            return None
        return next((each for byte, each in self._bytes if node is byte or node == byte), None)

    def _value(self, node: Expr) -> Values | None:
        byte = self._given(node)
        if byte is not None:
            return byte.astype(dtype_of(node).numpy)
        if isinstance(node, Const):
            return np.asarray(node.value, node.dtype.numpy)
        operands = [self(each) for each in children(node)]
        known = [each for each in operands if each is not None]
        return self._operation(node, known) if len(known) == len(operands) else None

    def _operation(self, node: Expr, operands: list[Values]) -> Values | None:
        dtype = dtype_of(node)
        match node:
            case Cast():
                return _converted(operands[0], dtype)
            case Unary("neg"):
                return -operands[0]
            case Unary("round") if dtype is DType.F32:
                return np.rint(operands[0])
            case Binary("div") if dtype is DType.F32:
                return operands[0] / operands[1]
            case Binary(op) if op in _ANY:
                return _ANY[op](*operands)
            case Binary(op) if op in _INTEGERS and _counts(operands[1], dtype):
                return _INTEGERS[op](*operands)
            case _:
                return None


def _converted(values: Values, dtype: DType) -> Values | None:
    if dtype.is_integer and values.dtype.kind == "f":
        low, high = dtype.limits
        if not ((values >= float(low)) & (values <= float(high))).all():
            return None
    return values.astype(dtype.numpy)


def _counts(values: Values, dtype: DType) -> bool:
    return bool(((values >= 0) & (values < 8 * dtype.bytes)).all())


class _Real(_Exact):
    """Values in double precision that are never rounded, nor held within limits."""

    def _value(self, node: Expr) -> Values | None:
        byte = self._given(node)
        if byte is not None:
            return byte
        if isinstance(node, Const):
            return np.asarray(float(node.value))
        return super()._value(node)

    def _operation(self, node: Expr, operands: list[Values]) -> Values | None:
        match node:
            case Cast() | Unary("round"):
                return operands[0]
            case Binary("div"):
                return operands[0] / operands[1]
            case Binary("min" | "max"):
                lhs, rhs = operands
                return lhs if not rhs.shape else rhs if not lhs.shape else None
            case Binary("lt" | "le" | "gt" | "ge"):
                return np.asarray(0.0)
            case Binary("shl", rhs=Const(count)):
                return operands[0] * 2.0 ** int(count)
            case Binary("shr", rhs=Const(count)):
                return operands[0] * 2.0 ** -int(count)
            case _:
                return super()._operation(node, operands)
