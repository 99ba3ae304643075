"""Sums of two bytes in fixed point by one multiplication of each byte, to the bit.

LiteRT's ADD rounds three times: two scaled bytes, and their scaled sum.  That takes three
multiplications of 64 bits.  But there are 65,536 pairs of bytes only, so that it can be proven
for all of them that this is the same::

    (a * x + b * y + c) >> s                                    held within the same limits
    (sum + 2^(s-1) + (sum >> 31)) >> s,  sum = a * x + b * y + c      plus the zero point

in 32 bits.  The second form rounds halves away from zero, as LiteRT does; there are such sums
where scales are alike.  ``a`` and ``b`` are looked for near the scales; ``c`` may be any number
between bounds that every pair gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import floor, log2

import numpy as np

from weft.dtypes import DType
from weft.kernels.bytes.byte_sum import BYTES, ByteSum, byte_sum
from weft.kernels.task import Task
from weft.loops.definition import Compute
from weft.loops.instruction import families
from weft.loops.nodes import Binary, Cast, Const, Expr
from weft.loops.walk import map_expr, reduces
from weft.records import dataclass

_I8, _I32 = DType.I8, DType.I32
_NUMBERS = np.arange(BYTES, dtype=np.int64) - BYTES // 2
_NEAR = 3
"""How far factors are looked for beside the scales."""
_MOST = (1 << 31) - 1


@dataclass(frozen=True)
class AffineSum:
    """Factors of two bytes, what is added, and by how much the sum is shifted.

    Attributes:
        x, y: factors; c: what is added; shift: to the right.
        zero: what is added at last where halves are rounded away from zero, else nothing.
    """

    x: int
    y: int
    c: int
    shift: int
    zero: int | None = None


def with_affine_sums(task: Task) -> Task:
    """The task with other definitions of the same bytes, where they are sums of two.

    What follows a contraction keeps its own where the target has an instruction for it.
    """
    old = task.compute.value
    if families()["add_i8"][0] in task.target.features and reduces(old):
        return task
    value = map_expr(old, _affine)
    return task if value is old else replace(task, compute=Compute(task.compute.axes, value))


def _affine(value: Expr) -> Expr:
    held = _held(value)
    found = byte_sum(held[0]) if held else None
    if held is None or found is None:
        return value
    _, low, high = held
    made = affine_sum(found, low, high)
    if made is None:
        return value
    (x, _), (y, _) = found.sides
    return _defined(made, x, y, low, high)


def affine_sum(sum: ByteSum, low: int, high: int) -> AffineSum | None:
    """The affine form that gives the same bytes for all pairs; ``None`` if none was found."""
    exact = _exact(sum)
    if exact is None:
        return None
    unit = sum.multiplier * 2.0 ** (sum.left - 31 - sum.right)
    slopes = [unit * float(table[-1] - table[0]) / (BYTES - 1) for _, table in sum.sides]
    largest = float(np.abs(exact).max()), float(np.abs(exact + sum.zero).max())
    most = max(BYTES / 2 * float(np.abs(slopes).sum()), *largest) + 2
    shift = min(30, floor(log2(_MOST / most)))
    if shift < 1:
        return None
    wanted = np.clip(exact + sum.zero, low, high)
    near = [round(slope * (1 << shift)) for slope in slopes]
    for a, b in ((near[0] + i, near[1] + j) for i, j in _steps()):
        sums = a * _NUMBERS[:, None] + b * _NUMBERS
        for zero in (None, sum.zero):
            c = _added(sums, wanted, (low, high), shift, zero)
            if c is not None and _fit(sums, sums + c, sums + c + (1 << (shift - 1))):
                return AffineSum(a, b, c, shift, zero)
    return None


def _fit(*numbers: np.ndarray) -> bool:
    """Whether all are integers of 32 bits, and not the smallest of them."""
    return all(int(np.abs(each).max()) <= _MOST for each in numbers)


def _steps() -> Iterator[tuple[int, int]]:
    """Distances from the scales, the smallest first."""
    around = range(-_NEAR, _NEAR + 1)
    yield from sorted(product(around, around), key=lambda each: abs(each[0]) + abs(each[1]))


def _exact(sum: ByteSum) -> np.ndarray | None:
    """All results, ``i64[256, 256]``, before the zero point; ``None`` if 32 bits overflow."""
    (_, table_x), (_, table_y) = sum.sides
    total = (table_x[:, None] + table_y) << sum.left
    if int(np.abs(total).max()) > _MOST:
        return None
    scaled = (total * sum.multiplier + (1 << 30)) >> 31
    half = (1 << sum.right) >> 1
    return (scaled + half - np.minimum(half, scaled < 0)) >> sum.right


def _added(
    sums: np.ndarray, wanted: np.ndarray, limits: tuple[int, int], shift: int, zero: int | None
) -> int | None:
    """What has to be added to sums for the wanted bytes; ``None`` if no number is right for all.

    Args:
        sums: of all pairs.
        wanted: bytes.
        limits: within which they are held, so that those there may come from far beyond.
        shift: of the sums.
        zero: around which halves are rounded, if they are not rounded down.
    """
    places = wanted if zero is None else wanted - zero
    low = (places << shift) - sums
    high = low + ((1 << shift) - 1)
    if zero is not None:
        half = 1 << (shift - 1)
        low += (places <= 0) - half
        high += (places < 0) - half
    least = low[wanted > limits[0]].max(initial=-(1 << 40))
    most = high[wanted < limits[1]].min(initial=1 << 40)
    if least > most:
        return None
    return int(np.clip((least + most) // 2, least, most))


def _held(value: Expr) -> tuple[Expr, int, int] | None:
    """A byte before it is held within limits, and these."""
    match value:
        case Cast(DType.I8, Binary("min", Binary("max", Const(low), x), Const(high))):
            pass
        case Cast(DType.I8, Binary("min", Binary("max", x, Const(low)), Const(high))):
            pass
        case _:
            return None
    least, most = _I8.limits
    return (x, int(low), int(high)) if least <= int(low) < int(high) <= most else None


def _defined(made: AffineSum, x: Expr, y: Expr, low: int, high: int) -> Expr:
    def word(value: int) -> Const:
        return Const(value, _I32)

    scaled = [
        Binary("mul", Cast(_I32, each), word(factor)) for each, factor in ((x, made.x), (y, made.y))
    ]
    sum: Expr = Binary("add", Binary("add", *scaled), word(made.c))
    if made.zero is not None:
        half, below = word(1 << (made.shift - 1)), Binary("shr", sum, word(31))
        sum = Binary("add", Binary("add", sum, half), below)
    value: Expr = Binary("shr", sum, word(made.shift))
    if made.zero:
        value = Binary("add", value, word(made.zero))
    return Cast(_I8, Binary("min", Binary("max", word(low), value), word(high)))
