"""What a value of an ONNX model is while the graph is built.

Most are tensors that the graph will compute.  Shape arithmetic is carried out on the way:
its values are ``KnownValue``.  Where a size depends on a symbolic batch, a known value holds
one array for each of a few sample sizes of the batch; a number that is the same in all
samples is that number, one that follows the samples is the batch itself.  So every op's
reference does shape arithmetic, with no algebra and no second set of rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.ir.types import Dim, Symbol, TensorType
from weft.records import dataclass

SAMPLES = 5
# With 1 among them, a model that treats a batch of one apart is refused, not mistaken.
_FIRST = (1, 2, 3, 1009, 65537)


def samples_of(place: int) -> tuple[int, ...]:
    """The sample sizes of the symbol with this number, different from all others'."""
    return tuple(size + (step + 1) * place for step, size in enumerate(_FIRST))


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """A value of the graph under construction, computed when it runs."""

    name: str
    type: TensorType


@dataclass(frozen=True, eq=False)
class KnownValue:
    """A value known now.

    Attributes:
        samples: one array, or ``SAMPLES`` of one shape if the value depends on a batch.
        name: what a constant of it is called.
    """

    samples: tuple[np.ndarray, ...]
    name: str = "constant"

    @property
    def fixed(self) -> bool:
        """Whether the value is the same for every batch."""
        return len(self.samples) == 1

    @property
    def array(self) -> np.ndarray:
        """The value for the first sample; the value, if it is fixed."""
        return self.samples[0]

    @property
    def type(self) -> TensorType:
        """Element type and shape; raises ``KeyError`` for what Weft has no type for."""
        return TensorType(DType.of(self.array.dtype), tuple(self.array.shape))

    def sample(self, place: int) -> np.ndarray:
        """The value for one of the sample sizes."""
        return self.samples[0] if self.fixed else self.samples[place]


@dataclass(frozen=True, slots=True)
class Listed:
    """A sequence: its items are known one by one, so it needs no type of its own."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Nothing:
    """An optional that holds nothing."""


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """The output of a node that was refused."""


Value: TypeAlias = KnownTensor | KnownValue | Listed | Nothing | UnknownValue


def known(array: np.ndarray, name: str = "constant") -> KnownValue:
    """A value that is the same for every batch."""
    return KnownValue((array,), name)


def merged(samples: Sequence[np.ndarray], name: str) -> KnownValue | None:
    """A value from its samples; ``None`` if its shape depends on the batch."""
    first = samples[0]
    if any(each.shape != first.shape for each in samples):
        return None
    if all(np.array_equal(each, first) for each in samples[1:]):
        return KnownValue((first,), name)
    return KnownValue(tuple(samples), name)


class Symbols:
    """The symbols of a model and their sample sizes."""

    def __init__(self) -> None:
        self._samples: dict[Symbol, tuple[int, ...]] = {}

    def add(self, symbol: Symbol) -> None:
        """Make a symbol known."""
        if symbol not in self._samples:
            self._samples[symbol] = samples_of(len(self._samples))

    def shape(self, dims: Sequence[Dim]) -> KnownValue:
        """A shape as a value."""
        rows = [
            np.array([self._size(dim, place) for dim in dims], np.int64) for place in range(SAMPLES)
        ]
        found = merged(rows, "shape")
        assert found is not None
        return found

    def sizes(self, place: int) -> Mapping[Symbol, int]:
        """Every symbol's size in one sample."""
        return {symbol: sizes[place] for symbol, sizes in self._samples.items()}

    def _size(self, dim: Dim, place: int) -> int:
        return self._samples[dim][place] if isinstance(dim, Symbol) else dim

    def dims(self, value: KnownValue) -> tuple[Dim, ...] | None:
        """The elements as dimensions; ``None`` if one is neither number nor symbol."""
        columns = zip(*(each.reshape(-1).tolist() for each in value.samples), strict=True)
        found = [self._dim(column) for column in columns]
        if any(dim is None for dim in found):
            return None
        return tuple(dim for dim in found if dim is not None)

    def _dim(self, column: tuple[int, ...]) -> Dim | None:
        if all(size == column[0] for size in column):
            return int(column[0])
        for symbol, sizes in self._samples.items():
            if column == sizes:
                return symbol
        return None
