"""Matrices of Winograd's minimal filtering, and straight-line code that applies them.

``F(m, r)`` computes ``m`` outputs of a correlation with ``r`` taps by ``m + r - 1``
multiplications: ``y = A^T ((G w) * (B^T x))``.  The matrices follow from interpolation at
``m + r - 2`` points and infinity (Toom and Cook; S. Winograd, *Arithmetic Complexity of
Computations*, 1980; A. Lavin and S. Gray, *Fast Algorithms for Convolutional Neural
Networks*, 2016).  The points decide the rounding error: B. Barabasz and others, *Error
Analysis and Improving the Accuracy of Winograd Convolution*, 2020.

A correlation that moves by several steps is a sum of correlations that move by one: one for
each phase of the inputs, with every so manieth tap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations

from weft.records import dataclass

POINTS: tuple[tuple[Fraction, ...], ...] = tuple(
    tuple(Fraction(point) for point in points.split())
    for points in (
        "",
        "0",
        "1 -1",
        "0 1 -1",
        "1/2 -1/2 5/4 -5/4",
        "0 11/16 -11/16 3/2 -3/2",
    )
)
"""Where polynomials are interpolated, by the number of points.

Pairs of opposite points share half of their sums and round least.  The root of the mean square
of the error of ``F(4, 3)`` in two dimensions, 64 channels summed in float32, inputs not
negative, is 6.2e-7 of the outputs', and 8.6e-7 at 0, 1, -1, 1/2 and -2.  All coefficients but
the filter's are exact in float32.
"""

Matrix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True, slots=True)
class Filtering:
    """The matrices of ``F(outputs, taps)``.

    Attributes:
        outputs: how many are computed at once; taps: of the filter.
        stride: steps from one output to the next.
        inverse: ``A^T``, ``[outputs, size]``.
        filter: ``G``, ``[size, taps]``.
        data: ``B^T``, ``[size, size]``.
    """

    outputs: int
    taps: int
    stride: int
    inverse: Matrix
    filter: Matrix
    data: Matrix

    @property
    def size(self) -> int:
        """Inputs, and multiplications."""
        return (self.outputs - 1) * self.stride + self.taps

    @property
    def alike(self) -> tuple[range, ...]:
        """Points that every output takes with one factor, those of most points first.

        Products of such points are added up before the last transform.
        """
        found: list[range] = []
        for place, column in enumerate(columns := _transposed(self.inverse)):
            if found and columns[found[-1].start] == column:
                found[-1] = range(found[-1].start, place + 1)
            else:
                found.append(range(place, place + 1))
        return tuple(found)

    @property
    def gathered(self) -> Matrix:
        """``inverse`` of points that are added up where they are alike."""
        firsts = [each.start for each in self.alike]
        return tuple(tuple(row[first] for first in firsts) for row in self.inverse)

    @property
    def amplification(self) -> float:
        """By how much a tile of two dimensions makes the rounding of its factors larger.

        If each factor of the multiplications, transformed data or filter, is off by an error in
        proportion to itself, the outputs are off by so many times what the same errors of inputs
        and weights would make of the direct sum, at the root mean square; for independent
        inputs of one variance.
        """
        factors = [_power(*rows) for rows in zip(self.data, self.filter, strict=True)]
        sums = [
            sum(value**2 * factor for value, factor in zip(row, factors, strict=True))
            for row in self.inverse
        ]
        return float(sum(sums) / (self.taps * self.outputs))


def _power(*rows: Sequence[Fraction]) -> Fraction:
    """The product of the sums of squares of several rows."""
    return _product([sum((value**2 for value in row), Fraction(0)) for row in rows])


@cache
def filtering(outputs: int, taps: int, stride: int = 1) -> Filtering:
    """The matrices for a number of outputs and taps.

    Args:
        outputs: how many are computed at once.
        taps: of the filter; at least as many as ``stride``.
        stride: steps from one output to the next.
    """
    inverse: list[tuple[Fraction, ...]] = []
    weights: list[tuple[Fraction, ...]] = []
    data: list[tuple[Fraction, ...]] = []
    size = (outputs - 1) * stride + taps
    points: tuple[Fraction, ...] = ()
    for phase in range(stride):
        count = len(range(phase, taps, stride))
        points = _points(outputs + count - 2, points)
        inner = _minimal(outputs, count, points)
        inverse += _transposed(inner.inverse)
        weights += [_spread(row, phase, stride, taps) for row in inner.filter]
        data += [_spread(row, phase, stride, size) for row in inner.data]
    # Points that outputs take alike, most of them first.
    often = Counter(inverse)
    order = sorted(range(size), key=lambda at: (-often[inverse[at]], inverse.index(inverse[at])))
    return Filtering(
        *(outputs, taps, stride),
        _transposed([inverse[at] for at in order]),
        tuple(weights[at] for at in order),
        tuple(data[at] for at in order),
    )


def _spread(row: Sequence[Fraction], phase: int, stride: int, size: int) -> tuple[Fraction, ...]:
    """The numbers of a row at every so manieth place."""
    found = [Fraction(0)] * size
    found[phase::stride] = row
    return tuple(found)


def most_outputs(taps: int, stride: int) -> int:
    """The largest number of outputs for which there are points enough."""
    return len(POINTS) + 1 - -(-taps // stride)


def _points(count: int, before: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """So many points, those of the phase before if there are enough: what is alike is added up."""
    common = tuple(point for point in before if point)
    return common if len(common) == count else POINTS[count]


def _minimal(outputs: int, taps: int, points: tuple[Fraction, ...]) -> Filtering:
    """The matrices for stride 1."""
    if taps == 1:  # nothing to gain
        one = tuple(_spread([Fraction(1)], place, outputs, outputs) for place in range(outputs))
        return Filtering(outputs, taps, 1, one, ((Fraction(1),),) * outputs, one)
    size = outputs + taps - 1
    inverse = _transposed([*_powers(points, outputs), _unit(outputs)])
    weights: list[tuple[Fraction, ...]] = []
    data: list[tuple[Fraction, ...]] = []
    for point in points:
        others = [other for other in points if other != point]
        scale = _product([point - other for other in others])
        weights.append(tuple(point**power / scale for power in range(taps)))
        data.append(_padded(_polynomial(others), size))
    weights.append(_unit(taps))
    data.append(_padded(_polynomial(points), size))
    return Filtering(outputs, taps, 1, inverse, tuple(weights), tuple(data))


def _powers(points: Sequence[Fraction], count: int) -> list[tuple[Fraction, ...]]:
    return [tuple(point**power for power in range(count)) for point in points]


def _unit(size: int) -> tuple[Fraction, ...]:
    return (*(Fraction(0),) * (size - 1), Fraction(1))


def _transposed(rows: Sequence[tuple[Fraction, ...]]) -> Matrix:
    return tuple(zip(*rows, strict=True))


def _product(values: Sequence[Fraction]) -> Fraction:
    found = Fraction(1)
    for value in values:
        found *= value
    return found


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients of ``prod(x - root)``, constant first."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        found = [a - root * b for a, b in zip(shifted, [*found, Fraction(0)], strict=True)]
    return found


def _padded(values: Sequence[Fraction], size: int) -> tuple[Fraction, ...]:
    return (*values, *(Fraction(0),) * (size - len(values)))


@dataclass(frozen=True, slots=True)
class TransformSum:
    """``sum(coefficient * value)``; values are numbered, inputs before earlier sums."""

    terms: tuple[tuple[int, Fraction], ...]

    @property
    def operations(self) -> int:
        """Additions and multiply-additions, and a multiplication where no term is without."""
        return len(self.terms) - any(abs(factor) == 1 for _, factor in self.terms)


@dataclass(frozen=True, slots=True)
class TransformProgram:
    """A matrix as straight-line code.

    Attributes:
        inputs: number of inputs; they are the values ``0 .. inputs - 1``.
        shared: sums that several outputs use; they are the values from ``inputs`` on.
        outputs: one sum for each row.
    """

    inputs: int
    shared: tuple[TransformSum, ...]
    outputs: tuple[TransformSum, ...]

    @property
    def operations(self) -> int:
        """Additions, multiply-additions and multiplications."""
        return sum(max(1, each.operations) for each in (*self.shared, *self.outputs))

    def used(self, count: int | None = None) -> frozenset[int]:
        """The values that the first ``count`` outputs need, or all of them."""
        found = {number for each in self.outputs[:count] for number, _ in each.terms}
        for number, each in reversed(list(enumerate(self.shared, self.inputs))):
            if number in found:
                found |= {term for term, _ in each.terms}
        return frozenset(found)


@cache
def straight_line(matrix: Matrix) -> TransformProgram:
    """The product with a matrix, pairs of terms that several rows share computed once."""
    inputs = len(matrix[0])
    rows = [{place: value for place, value in enumerate(row) if value} for row in matrix]
    shared: list[TransformSum] = []
    while True:
        counts = Counter(pair for row in rows for pair in _pairs(row))
        best = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if best is None or counts[best] < 2:
            break
        users = [row for row in rows if best in _pairs(row)]
        first, second, ratio = best
        if _after(second, 1 / ratio, users) < _after(first, ratio, users):
            first, second, ratio = second, first, 1 / ratio
        fresh = inputs + len(shared)
        shared.append(TransformSum(((first, Fraction(1)), (second, ratio))))
        for row in users:
            row[fresh] = row.pop(first)
            del row[second]
    outputs = tuple(TransformSum(tuple(sorted(row.items(), key=_leading))) for row in rows)
    return TransformProgram(inputs, tuple(shared), outputs)


def _after(first: int, ratio: Fraction, users: Sequence[dict[int, Fraction]]) -> tuple[bool, int]:
    """What ``first + ratio * second`` costs: an inexact factor, and factors where it is used."""
    return not _exact(ratio), sum(abs(row[first]) != 1 for row in users)


def _exact(value: Fraction) -> bool:
    """Whether it is a binary fraction."""
    return value.denominator & (value.denominator - 1) == 0


def _leading(term: tuple[int, Fraction]) -> tuple[bool, int]:
    """Terms that need no multiplication come first."""
    return term[1] != 1, term[0]


def _pairs(row: dict[int, Fraction]) -> list[tuple[int, int, Fraction]]:
    """Pairs of terms up to a common factor."""
    return [(a, b, row[b] / row[a]) for a, b in combinations(sorted(row), 2)]
