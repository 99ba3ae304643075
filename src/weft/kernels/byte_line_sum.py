"""Sums of two bytes by instructions for lines of both (Helium), in integers or in floats.

What an operand adds depends on one byte, so it is a table of 256 numbers.  In floats, what follows
a sum of dequantized bytes is a bound, a division by the output's scale, and its rounding::

    i8(saturate(round(max(first[a] + second[b], low) / scale) + zero))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.dtypes import DType
from weft.kernels.byte_add import ByteAdd
from weft.kernels.fixed_point import saturated
from weft.kernels.writer import for_range
from weft.loops.interpret import run
from weft.loops.nodes import Access, Binary, Buffer, Const, Expr, Kernel, Load, Store, Unary, Var
from weft.loops.walk import dtype_of, free_vars, loads, map_expr, reduces

_I8, _F32 = DType.I8, DType.F32
_BYTE_SHIFT, _BYTES = 24, 256


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
    sides = [_byte(each) for each in (total.lhs, total.rhs)]
    first, second = sides
    if first is None or second is None or first == second:
        return None
    tables = [_table(side, load) for side, load in ((total.lhs, first), (total.rhs, second))]
    arrays = {
        "firsts": tables[0],
        "seconds": -tables[1] if total.op == "sub" else tables[1],
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


def _byte(side: Expr) -> Load | None:
    """The one byte that a number in floats depends on."""
    found = set(loads(side))
    if len(found) != 1 or reduces(side) or dtype_of(side) is not _F32:
        return None
    (load,) = found
    outside = map_expr(side, lambda node: Const(0, _I8) if node == load else node)
    return load if load.dtype is _I8 and not free_vars(outside) else None


def _table(side: Expr, load: Load) -> np.ndarray:
    """What an expression is for every byte, the smallest first."""
    byte = Load("x", (Var("v"),), _I8)
    value = map_expr(side, lambda node: byte if node == load else node)
    shape = (_BYTES,)
    params = (Buffer("x", _I8, shape), Buffer("table", _F32, shape, Access.WRITE))
    loop = for_range("v", _BYTES, (Store("table", (Var("v"),), value),))
    found = np.zeros(shape, np.float32)
    bytes_ = np.arange(-128, 128).astype(np.int8)
    run(Kernel("table", params, (loop,)), {"x": bytes_, "table": found})
    return found
