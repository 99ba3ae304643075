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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
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
_AROUND = sorted(product(range(-2, 3), repeat=2), key=lambda each: abs(each[0]) + abs(each[1]))
"""Distances from the scales at which factors are looked for, the smallest first."""
_PARTS = [0.0, *(sign * part * 2.0**-20 for part in (1, 2, 3, 4, 6, 8, 12, 16) for sign in (1, -1))]
"""By which parts of themselves scales may be larger."""
_DECIDED = 2.0**-7
"""Distances from halves at which such factors decide: sums are below 512, or nearly so."""
_UNBOUNDED = 1 << 40
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
    (x, table_x), (y, table_y) = found.sides
    tables = table_x.tobytes(), table_y.tobytes()
    made = _known(*tables, found.multiplier, found.left, found.right, found.zero, low, high)
    if made is None:
        return value
    return _defined(made, x, y, low, high)


@lru_cache(maxsize=256)
def _known(
    table_x: bytes,
    table_y: bytes,
    multiplier: int,
    left: int,
    right: int,
    zero: int,
    low: int,
    high: int,
) -> AffineSum | None:
    """``affine_sum``, which takes a tenth of a second where there is none."""
    byte = Const(0, _I8)
    sides = ((byte, np.frombuffer(table_x, np.int64)), (byte, np.frombuffer(table_y, np.int64)))
    return affine_sum(ByteSum(sides, multiplier, left, right, zero), low, high)


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
    x, y = (each.reshape(-1) for each in np.meshgrid(_NUMBERS, _NUMBERS, indexing="ij"))
    pairs = _Pairs(x, y, wanted.reshape(-1), (low, high), shift)
    few = pairs.at(_near_halves(sum, unit))
    for (a, b), zero in product(_factors(slopes, shift), (None, sum.zero)):
        if few.added(a, b, zero) is not None and (c := pairs.added(a, b, zero)) is not None:
            made = AffineSum(a, b, c, shift, zero)
            return made if _fits(made) else None
    return None


def _near_halves(sum: ByteSum, unit: float) -> np.ndarray:
    """Whether each pair's sum is so near to where it is rounded up that factors decide."""
    (_, table_x), (_, table_y) = sum.sides
    real = (table_x[:, None] + table_y).reshape(-1) * unit + 0.5
    return np.abs(real - np.rint(real)) < _DECIDED


def _factors(slopes: Sequence[float], shift: int) -> Iterator[tuple[int, int]]:
    """Factors near the scales, and near scales that are a little larger or smaller.

    Sums of larger factors are farther from zero, as halves are rounded.
    """
    for part in _PARTS:
        near = [round(slope * (1 + part) * (1 << shift)) for slope in slopes]
        yield from ((near[0] + i, near[1] + j) for i, j in _AROUND)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of bytes, and the bytes that their sums have to become.

    Attributes:
        x, y: all first ones, and all second ones.
        wanted: results.
        limits: within which results are held, so that those there may come from far beyond.
        shift: of the sums.
    """

    x: np.ndarray
    y: np.ndarray
    wanted: np.ndarray
    limits: tuple[int, int]
    shift: int

    def at(self, places: np.ndarray) -> _Pairs:
        """Some of them."""
        return replace(self, x=self.x[places], y=self.y[places], wanted=self.wanted[places])

    def added(self, a: int, b: int, zero: int | None) -> int | None:
        """What must be added to ``a * x + b * y``; ``None`` if no number is right for all.

        Args:
            a: factor of the first ones.
            b: factor of the others.
            zero: around which halves are rounded, if they are not rounded up.
        """
        places = self.wanted if zero is None else self.wanted - zero
        low = (places << self.shift) - a * self.x - b * self.y
        high = low + ((1 << self.shift) - 1)
        if zero is not None:
            half = 1 << (self.shift - 1)
            low += (places <= 0) - half
            high += (places < 0) - half
        least = low[self.wanted > self.limits[0]].max(initial=-_UNBOUNDED)
        most = high[self.wanted < self.limits[1]].min(initial=_UNBOUNDED)
        return None if least > most else int(least + (most - least) // 2)


def _fits(made: AffineSum) -> bool:
    """Whether no step of it leaves 32 bits."""
    sums = made.x * _NUMBERS[:, None] + made.y * _NUMBERS
    half = 1 << (made.shift - 1)
    return all(
        int(np.abs(each).max()) <= _MOST for each in (sums, sums + made.c, sums + made.c + half)
    )


def _exact(sum: ByteSum) -> np.ndarray | None:
    """All results, ``i64[256, 256]``, before the zero point; ``None`` if 32 bits overflow."""
    (_, table_x), (_, table_y) = sum.sides
    total = (table_x[:, None] + table_y) << sum.left
    if int(np.abs(total).max()) > _MOST:
        return None
    scaled = (total * sum.multiplier + (1 << 30)) >> 31
    half = (1 << sum.right) >> 1
    return (scaled + half - np.minimum(half, scaled < 0)) >> sum.right


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
