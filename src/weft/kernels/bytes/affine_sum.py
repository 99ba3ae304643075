"""Functions of two bytes as affine forms in 32 bits, to the bit.

LiteRT's ADD rounds three times: two scaled bytes, and their scaled sum, which takes three
multiplications of 64 bits.  ONNX's sums of dequantized bytes are floats, which take a thousand
instructions where they are functions.  But there are 65,536 pairs of bytes only, so that it can be
proven for all of them that this is the same::

    (a * x + b * y + c) >> s                                    held within the same limits
    (sum + 2^(s-1) + (sum >> 31)) >> s,  sum = a * x + b * y + c      plus the zero point

The second form rounds halves away from zero, as LiteRT does; there are such sums where scales are
alike.  ``a`` and ``b`` are looked for near the scales; ``c`` may be any number between bounds that
every pair gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import floor, log2

import numpy as np

from weft.dtypes import DType
from weft.kernels.bytes.byte_pairs import BytePairs, byte_pairs
from weft.kernels.task import Task
from weft.loops.definition import Compute
from weft.loops.instruction import families
from weft.loops.nodes import Binary, Cast, Const, Expr
from weft.loops.walk import map_expr, reduces
from weft.records import dataclass

_BYTES, _I32 = (DType.I8, DType.U8), DType.I32
_AROUND = sorted(product(range(-2, 3), repeat=2), key=lambda each: abs(each[0]) + abs(each[1]))
"""Distances from the scales at which factors are looked for, the smallest first."""
_PARTS = [0.0, *(sign * part * 2.0**-20 for part in (1, 2, 3, 4, 6, 8, 12, 16) for sign in (1, -1))]
"""By which parts of themselves scales may be larger."""
_DECIDED = 2.0**-7
"""Distances from halves at which such factors decide: sums are below 512, or nearly so."""
_FEWER = 500
"""Pairs near halves that are looked at first."""
_UNBOUNDED = 1 << 40
_MOST = (1 << 31) - 1


@dataclass(frozen=True)
class AffineSum:
    """A form of the bytes ``x`` and ``y``.

    Attributes:
        x, y: factors; c: what is added; shift: to the right.
        low, high: limits of results.
        zero: what is added at last where halves are rounded away from zero, else nothing.
    """

    x: int
    y: int
    c: int
    shift: int
    low: int
    high: int
    zero: int | None = None

    def results(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """What it gives before that is held within the limits."""
        total = self.x * x + self.y * y + self.c
        if self.zero is None:
            return total >> self.shift
        return ((total + (1 << (self.shift - 1)) + (total >> 31)) >> self.shift) + self.zero


def with_affine_sums(task: Task) -> Task:
    """The task with other definitions of the same bytes, where they are functions of two.

    What follows a contraction keeps its own where the target has an instruction for sums.
    """
    old = task.compute.value
    if all(buffer.dtype not in _BYTES for buffer in task.inputs):
        return task
    if families()["add_i8"][0] in task.target.features and reduces(old):
        return task
    value = map_expr(old, _affine)
    return task if value is old else replace(task, compute=Compute(task.compute.axes, value))


def _affine(value: Expr) -> Expr:
    if not isinstance(value, Cast) or value.dtype not in _BYTES:
        return value
    pairs = byte_pairs(value)
    made = affine_sum(pairs) if pairs else None
    return value if pairs is None or made is None else _defined(made, pairs)


def affine_sum(pairs: BytePairs) -> AffineSum | None:
    """The affine form that gives the same bytes for all pairs; ``None`` if none was found."""
    results, real = pairs.results, pairs.real
    limits = int(results.min()), int(results.max())
    between = (results > limits[0]) & (results < limits[1])
    if not between.any():
        return None
    away = (results - real)[between]
    offset = float(away.min() + away.max()) / 2
    sides = zip(pairs.slopes, (pairs.first, pairs.second), strict=True)
    reach = sum(abs(slope) * float(np.abs(each).max()) for slope, each in sides)
    most = max(reach, float(np.abs(real + offset).max())) + 2
    shift = min(30, floor(log2(_MOST / most)))
    if shift < 1:
        return None
    x, y = (each.reshape(-1) for each in np.broadcast_arrays(pairs.first, pairs.second))
    whole = _Pairs(x, y, results.reshape(-1), limits, shift)
    place = (real + offset + 0.5).reshape(-1)
    few = whole.at(np.abs(place - np.rint(place)) < _DECIDED)
    fewer = few.at(slice(None, None, 1 + len(few.wanted) // _FEWER))
    for (a, b), zero in product(_factors(pairs.slopes, shift), (None, pairs.zero)):
        if fewer.added(a, b, zero) is None or few.added(a, b, zero) is None:
            continue
        c = whole.added(a, b, zero)
        if c is not None:
            made = AffineSum(a, b, c, shift, *limits, zero)
            return _within(made, pairs) if _fits(made, pairs) else None
    return None


def _within(made: AffineSum, pairs: BytePairs) -> AffineSum:
    """The same with the limits of bytes, which instructions have, where results are the same."""
    results = made.results(pairs.first, pairs.second)
    low, high = map(int, pairs.dtype.limits)
    return replace(
        made,
        low=low if results.min() >= made.low else made.low,
        high=high if results.max() <= made.high else made.high,
    )


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

    def at(self, places: np.ndarray | slice) -> _Pairs:
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


def _fits(made: AffineSum, pairs: BytePairs) -> bool:
    """Whether no step of it leaves 32 bits."""
    sums = made.x * pairs.first + made.y * pairs.second
    half = 1 << (made.shift - 1)
    parts = (made.x * pairs.first, sums, sums + made.c, sums + made.c + half)
    return all(int(np.abs(each).max()) <= _MOST for each in parts)


def _defined(made: AffineSum, pairs: BytePairs) -> Expr:
    def word(value: int) -> Const:
        return Const(value, _I32)

    given = ((pairs.x, made.x), (pairs.y, made.y))
    scaled = [Binary("mul", Cast(_I32, each), word(factor)) for each, factor in given]
    sum: Expr = Binary("add", Binary("add", *scaled), word(made.c))
    if made.zero is not None:
        half, below = word(1 << (made.shift - 1)), Binary("shr", sum, word(31))
        sum = Binary("add", Binary("add", sum, half), below)
    value: Expr = Binary("shr", sum, word(made.shift))
    if made.zero:
        value = Binary("add", value, word(made.zero))
    held = Binary("min", Binary("max", word(made.low), value), word(made.high))
    return Cast(pairs.dtype, held)
