"""Weights as one block of bytes, each array aligned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Blob:
    """The weights of a program, one after the other.

    Attributes:
        offsets: where each array begins, in bytes.
        size: of the whole, in bytes.
        arrays: the arrays, in the order of their offsets.
    """

    offsets: dict[str, int]
    size: int
    arrays: tuple[np.ndarray, ...]

    def pieces(self) -> Iterator[memoryview | bytes]:
        """The bytes in order, without copying the arrays."""
        position = 0
        for offset, array in zip(self.offsets.values(), self.arrays, strict=True):
            if offset > position:
                yield bytes(offset - position)
            packed = np.ascontiguousarray(array)
            if packed.nbytes:
                yield packed.reshape(-1).view(np.uint8).data
            position = offset + packed.nbytes
        if self.size > position:
            yield bytes(self.size - position)

    def tobytes(self) -> bytes:
        """The whole, copied."""
        return b"".join(self.pieces())


def pack(weights: Mapping[str, np.ndarray], alignment: int) -> Blob:
    """Lays out weights in their order."""
    offsets: dict[str, int] = {}
    position = 0
    for name, array in weights.items():
        offsets[name] = position
        position += -(-array.nbytes // alignment) * alignment
    return Blob(offsets, position, tuple(weights.values()))
