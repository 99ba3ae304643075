"""Sums of two bytes by instructions for lines of both (Helium), in integers or in floats.

What an operand adds depends on one byte, so it is a table of 256 numbers.  In floats, what follows
a sum of dequantized bytes is a bound, a division by the output's scale, and its rounding::

    i8(saturate(round(max(first[a] + second[b], low) / scale) + zero))
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.dtypes import DType
from weft.kernels.bytes.add import ByteAdd
from weft.kernels.bytes.helium.function import byte_table
from weft.loops.fixed_point import saturated
from weft.loops.nodes import Binary, Const, Expr, Load, Unary
from weft.loops.walk import dtype_of, loads
from weft.records import dataclass

_F32 = DType.F32
_BYTE_SHIFT = 24


@dataclass(frozen=True)
class LineSum:
    """A sum of two bytes.

    Attributes:
        loads: both bytes.
        family: of instructions; sizes: of a member beside those of lines.
        arrays: constants of the instruction, in order.
    """

    loads: tuple[Load, Load]
    family: str
    sizes: tuple[int, ...]
    arrays: Mapping[str, np.ndarray]


def integer_sum(add: ByteAdd) -> LineSum:
    """A sum in fixed point."""
    shift, right, below = add.sizes
    multiplier, term = add.arrays["adds"].tolist()
    # The sums of the table are doubled, which the instruction does itself.
    numbers = np.array([1 << (shift - 1), multiplier, term, _BYTE_SHIFT - right], np.int32)
    arrays = {"table": add.arrays["table"] // 2, "numbers": numbers}
    return LineSum((add.y, add.x), "mve_add", (below,), arrays)


def float_sum(value: Expr) -> LineSum | None:
    """The sum that a value is, if it is one in floats."""
    inner = saturated(value)
    match inner:
        case Binary("add", Unary("round", quotient), Const(zero, DType.F32)) if zero == int(zero):
            pass
        case Unary("round", quotient):
            zero = 0
        case _:
            return None
    match quotient:
        case Binary("div", total, Const(scale)) if scale > np.finfo(np.float32).tiny:
            pass
        case _:
            return None
    total, low = _bounded(total)
    if not isinstance(total, Binary) or total.op not in ("add", "sub"):
        return None
    sides = [set(loads(each)) for each in (total.lhs, total.rhs)]
    if [len(each) for each in sides] != [1, 1] or dtype_of(total) is not _F32:
        return None
    (first,), (second,) = sides
    tables = [
        byte_table(each, load.buffer) for each, load in ((total.lhs, first), (total.rhs, second))
    ]
    firsts, seconds = tables
    if firsts is None or seconds is None or first == second:
        return None
    arrays = {
        "firsts": firsts,
        "seconds": -seconds if total.op == "sub" else seconds,
        "bounds": np.array([low, scale], np.float32),
        "last": np.array([zero], np.int32),
    }
    return LineSum((first, second), "mve_add_f32", (), arrays)


def _bounded(value: Expr) -> tuple[Expr, float]:
    """A value without a lower bound, and that."""
    match value:
        case Binary("max", x, Const(low)) | Binary("max", Const(low), x):
            return x, float(low)
        case _:
            return value, float(np.finfo(np.float32).min)
