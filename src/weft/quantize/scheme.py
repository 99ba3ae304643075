"""Which integers stand for numbers: bits, sign, zero point, and granularity.

A number x is stored as ``q = round(x / scale) + zero_point``, held within the scheme's limits,
and stands for ``(q - zero_point) * scale``: ONNX's QuantizeLinear and DequantizeLinear.
Krishnamoorthi, *Quantizing deep convolutional networks for efficient inference* (2018), describes
the schemes.
"""

from __future__ import annotations

from dataclasses import replace as changed

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.records import dataclass

_STORAGE = {
    (8, True): DType.I8,
    (8, False): DType.U8,
    (16, True): DType.I16,
    (16, False): DType.U16,
}
_SMALLEST_SCALE = float(np.float32(2.0**-100))
"""Products of two scales stay normal numbers."""


@dataclass(frozen=True, slots=True)
class QuantizationScheme:
    """How numbers become integers.

    Attributes:
        bits: of an integer, 2 to 16; those of fewer than 8 are stored in 8.
        signed: whether integers may be negative.
        symmetric: whether the zero point is always 0.
        narrow: whether the lowest integer is left out, so that as many are below 0 as above.
        axis: one scale for each position along this axis; one for the whole tensor if ``None``.
    """

    bits: int = 8
    signed: bool = True
    symmetric: bool = False
    narrow: bool = False
    axis: int | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 16:
            raise UserError("quantize: a scheme has 2 to 16 bits", got=str(self.bits))
        if self.narrow and not self.signed:
            raise UserError("quantize: only signed schemes can be narrow", got="unsigned, narrow")

    @property
    def dtype(self) -> DType:
        """The type that integers are stored in."""
        return _STORAGE[8 if self.bits <= 8 else 16, self.signed]

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
        if not self.signed:
            return 0, (1 << self.bits) - 1
        half = 1 << (self.bits - 1)
        return (1 - half if self.narrow else -half), half - 1

    def along(self, axis: int | None) -> QuantizationScheme:
        """The same with one scale for each position along an axis, or with one in all."""
        return changed(self, axis=axis)

    def parameters(
        self, low: np.ndarray | float, high: np.ndarray | float
    ) -> QuantizationParameters:
        """The scale and the zero point with which the integers just hold a range.

        The range is widened to include 0, which is always exact.

        Args:
            low: the smallest number; per axis an array [positions].
            high: the largest, likewise.

        Raises:
            UserError: a range is not finite, or is empty.
        """
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
            bad = ~(np.isfinite(low) & np.isfinite(high) & (low <= high))
            got = f"[{low[bad].flat[0]:g}, {high[bad].flat[0]:g}]"
            raise UserError("quantize: a range must be finite, its lower end first", got=got)
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        least, most = self.limits
        if self.symmetric:
            below = low / least if least else np.zeros_like(low)
            scale = _usable(np.maximum(below, high / most))
            zero = np.zeros(scale.shape)
        else:
            scale = _usable((high - low) / (most - least))
            zero = np.clip(np.rint(least - low / scale), least, most)
        return QuantizationParameters(self, scale, zero.astype(self.dtype.numpy))


def _usable(scale: np.ndarray) -> np.ndarray:
    """Scales as ONNX stores them; where there is nothing but 0, any will do."""
    given = np.asarray(scale, np.float32)
    return np.where(given < _SMALLEST_SCALE, np.float32(_SMALLEST_SCALE), given)


@dataclass(frozen=True, eq=False, slots=True)
class QuantizationParameters:
    """A scheme with its numbers.

    Attributes:
        scheme: what integers may be.
        scale: f32, one number or [positions] along the scheme's axis.
        zero_point: of the scheme's type and the scale's shape.
    """

    scheme: QuantizationScheme
    scale: np.ndarray
    zero_point: np.ndarray

    def quantize(self, x: np.ndarray) -> np.ndarray:
        """The integers that numbers are stored as."""
        low, high = self.scheme.limits
        whole = np.rint(np.asarray(x, np.float32) / self._spread(self.scale, x.ndim))
        whole = whole + self._spread(self.zero_point, x.ndim).astype(np.float32)
        return np.clip(whole, low, high).astype(self.scheme.dtype.numpy)

    def dequantize(self, whole: np.ndarray) -> np.ndarray:
        """The numbers, f32, that integers stand for."""
        zero = self._spread(self.zero_point, whole.ndim).astype(np.int32)
        centred = (whole.astype(np.int32) - zero).astype(np.float32)
        return centred * self._spread(self.scale, whole.ndim)

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """The numbers that remain of numbers: quantized and dequantized."""
        return self.dequantize(self.quantize(x))

    @property
    def range(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest number that integers stand for, of the scale's shape."""
        zero = self.zero_point.astype(np.float64)
        scale = self.scale.astype(np.float64)
        low, high = self.scheme.limits
        return (low - zero) * scale, (high - zero) * scale

    def _spread(self, values: np.ndarray, rank: int) -> np.ndarray:
        axis = self.scheme.axis
        if axis is None or values.ndim == 0:
            return values
        return values.reshape((-1,) + (1,) * (rank - 1 - axis % rank))


ACTIVATIONS = QuantizationScheme()
"""Signed 8 bits with a zero point: LiteRT's and onnxruntime's activations."""
WEIGHTS = QuantizationScheme(symmetric=True, narrow=True)
"""Signed 8 bits, -127 to 127, zero point 0; layers set the axis of their outputs."""
