"""Discrete Fourier transforms as products with small matrices.

A transform of ``a * b`` values is ``b`` transforms of ``a`` values, a multiplication of every
value with a root of unity, and ``a`` transforms of ``b`` values (Cooley and Tukey, "An algorithm
for the machine calculation of complex Fourier series", 1965).  With both near the square root
these are products with matrices of a few dozen rows, which fit into caches and are what
processors with vectors do best.  Zeros that follow the values, and the half of a spectrum that
mirrors the other, are left out of the products.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from math import isqrt, pi

import numpy as np

from weft.ops.ordering import TransposeAttributes
from weft.ops.padding import PadAttributes
from weft.ops.record import Builder
from weft.ops.shape import ReshapeAttributes
from weft.ops.slicing import SliceAttributes
from weft.records import dataclass

SAVED = 2
"""A transform is taken apart where that divides its multiplications by at least as much: the
steps between the products cost something, too."""
BETWEEN = 16
"""What multiplying a value with a root of unity and moving it costs, in multiplications."""


@lru_cache(maxsize=1024)
def _factors(length: int) -> tuple[int, ...]:
    """The divisors of a length but 1 and itself."""
    small = [each for each in range(2, isqrt(length) + 1) if length % each == 0]
    return tuple(sorted({*small, *(length // each for each in small)}))


def _roots(rows: int, columns: int, length: int, inverse: bool) -> np.ndarray:
    """``exp(-2 pi i n k / length)`` for all ``n`` and ``k``, conjugated for the inverse."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % length  # exact, however long
    return np.exp((2j if inverse else -2j) * pi / length * turns)


@dataclass(frozen=True)
class Transform:
    """A transform of rows, ``[rows, parts, given]`` to ``[rows, outputs, bins]``.

    Parts are planes: real values, or real values and imaginary ones.

    Attributes:
        length: of the transform; rows that are shorter are followed by zeros.
        parts: 1 (real) or 2.
        given: values in a row.
        inverse: from a spectrum, divided by the length.
        onesided: the spectrum is that of real values, without its mirrored half.
    """

    length: int
    parts: int
    given: int
    inverse: bool
    onesided: bool

    @property
    def bins(self) -> int:
        """Values of a row of the result."""
        return self._half if self.onesided and not self.inverse else self.length

    @property
    def outputs(self) -> int:
        """Planes of the result."""
        return 1 if self._to_real else 2

    @property
    def table(self) -> int:
        """Elements of the largest constant."""
        first = self._first
        if first == 1:
            return self._direct
        second = self.length // first
        return max(4 * first**2, 2 * self.length, 4 * second**2)

    @property
    def _half(self) -> int:
        return self.length // 2 + 1

    @property
    def _to_real(self) -> bool:
        return self.inverse and self.onesided

    @property
    def _heeded(self) -> int:
        """Values of a row that count."""
        return min(self.given, self._half if self._to_real else self.length)

    @property
    def _direct(self) -> int:
        """Multiplications of the product with the whole matrix."""
        return self.parts * self.given * self.outputs * self.bins

    def _work(self, first: int) -> int:
        """Multiplications of two steps."""
        second = self.length // first
        once = -(-self._heeded // second) * second * self.parts * 2 * first
        return once + self.length * 2 * (BETWEEN + self.outputs * -(-self.bins // first))

    @cached_property
    def _first(self) -> int:
        """The factor that the transform is taken apart by, or 1."""
        best = min(_factors(self.length), key=self._work, default=1)
        return best if best > 1 and self._work(best) * SAVED <= self._direct else 1

    def nodes(self, build: Builder, x: str) -> str:
        """Adds the nodes.

        Args:
            build: what they are added to.
            x: ``[rows, parts, given]``.

        Returns:
            The result, ``[rows, outputs, bins]``.
        """
        rows = build.types[x].dims[0]
        if self._first > 1:
            return self._split(build, x)
        x = _reshaped(build, x, (rows, self.parts * self.given))
        y = build.op("MatMul", x, self._held(build, x, self._matrix(), "transform"))
        return _reshaped(build, y, (rows, self.outputs, self.bins))

    def _weights(self) -> np.ndarray:
        """How often each value counts: twice where it has a mirror image that is not given."""
        places = np.arange(self._heeded)
        if not self._to_real:
            return np.ones(len(places))
        return np.where((places == 0) | (2 * places == self.length), 1.0, 2.0)

    def _scale(self, length: int) -> float:
        return 1 / length if self.inverse else 1.0

    def _planes(self, roots: np.ndarray, parts: int, outputs: int) -> np.ndarray:
        """The matrix that multiplies planes of real and imaginary parts, which follow another."""
        real, imaginary = np.real(roots), np.imag(roots)
        rows = [[real, imaginary], [-imaginary, real]]
        return np.block([row[:outputs] for row in rows[:parts]])

    def _held(self, build: Builder, x: str, array: np.ndarray, name: str) -> str:
        return build.constant(array.astype(build.types[x].dtype.numpy), name)

    # --- at once ----------------------------------------------------------------------------

    def _matrix(self) -> np.ndarray:
        roots = np.zeros((self.given, self.bins), complex)
        found = _roots(self._heeded, self.bins, self.length, self.inverse)
        roots[: self._heeded] = found * self._weights()[:, None] * self._scale(self.length)
        return self._planes(roots, self.parts, self.outputs)

    # --- in two steps -----------------------------------------------------------------------

    def _split(self, build: Builder, x: str) -> str:
        """Value ``n1 * second + n2`` of a row becomes a part of bin ``k2 * first + k1``."""
        rows, first = build.types[x].dims[0], self._first
        second = self.length // first
        held = -(-self._heeded // second)
        x = self._fitted(build, x, held * second)
        x = _reshaped(build, x, (rows, self.parts, held, second))
        x = build.op("Transpose", x, attributes=TransposeAttributes((0, 3, 1, 2)))
        x = _reshaped(build, x, (rows * second, self.parts * held))
        roots = _roots(held, first, first, self.inverse) * self._scale(first)
        matrix = self._held(build, x, self._planes(roots, self.parts, 2), "transform")
        x = _reshaped(build, build.op("MatMul", x, matrix), (rows, second, 2, first))
        x = _reshaped(build, self._turned(build, x), (rows, second * 2, first))
        columns = -(-self.bins // first)
        roots = _roots(second, columns, second, self.inverse) * self._scale(second)
        planes = self._planes(roots, 2, self.outputs).reshape(2, second, -1)
        # From the left: the rows of x need not be moved.
        planes = planes.transpose(2, 1, 0).reshape(-1, second * 2)
        y = build.op("MatMul", self._held(build, x, planes, "transform"), x)
        y = _reshaped(build, y, (rows, self.outputs, columns * first))
        if columns * first == self.bins:
            return y
        return build.op("Slice", y, attributes=SliceAttributes((0,), (self.bins,), (2,)))

    def _fitted(self, build: Builder, x: str, length: int) -> str:
        """Rows that are cropped, or followed by zeros; weighted."""
        for more in (self._heeded - self.given, length - self._heeded):
            if more:
                x = build.op("Pad", x, attributes=PadAttributes((0, 0, 0, 0, 0, more)))
        if not self._to_real:
            return x
        weights = np.ones(length)
        weights[: self._heeded] = self._weights()
        return build.op("Mul", x, self._held(build, x, weights, "weights"))

    def _turned(self, build: Builder, x: str) -> str:
        """``[rows, n, 2, k]`` times ``exp(-2 pi i n k / length)``."""
        _, second, _, first = build.types[x].dims
        roots = _roots(second, first, self.length, self.inverse)[:, None]
        imaginary = np.imag(roots)
        cosines = self._held(build, x, np.real(roots), "cosines")
        sines = self._held(build, x, np.concatenate([-imaginary, imaginary], 1), "sines")
        swap = SliceAttributes((-1,), (-3,), (2,), (-1,))
        crossed = build.op("Mul", build.op("Slice", x, attributes=swap), sines)
        return build.op("Add", build.op("Mul", x, cosines), crossed)


def _reshaped(build: Builder, x: str, shape: tuple[int, ...]) -> str:
    return build.op("Reshape", x, attributes=ReshapeAttributes(shape, allowzero=1))
