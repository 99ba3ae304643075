"""Weights as one block of bytes, each array aligned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from weft.garbage import return_memory
from weft.plan.lazy_weights import LazyWeights
from weft.records import dataclass

# So many bytes of freed constants are worth a look through the allocator's memory.
_WORTH_RETURNING = 1 << 24
# Threads that pack: NumPy copies without the interpreter's lock.
_PACKERS = 2


@dataclass(frozen=True)
class Blob:
    """The weights of a program, one after the other.

    Attributes:
        offsets: where each array begins, in bytes.
        size: of the whole, in bytes.
        weights: the arrays, packed when they are asked for.
    """

    offsets: dict[str, int]
    size: int
    weights: LazyWeights

    def pieces(self) -> Iterator[memoryview | bytes]:
        """The bytes in order, one array after the other, none of them kept."""
        position = 0
        for name, offset in self.offsets.items():
            if offset > position:
                yield bytes(offset - position)
            packed = _bytes_of(self.weights.once(name))
            if packed.nbytes:
                yield packed.data
            position = offset + packed.nbytes
        if self.size > position:
            yield bytes(self.size - position)

    def fill(self, memory: memoryview) -> None:
        """Writes the arrays into memory that is all zero; from then on they are parts of it.

        A constant that nothing else holds goes once all that is made of it is written, the
        largest first, so both together take little more memory than one of them and the
        constants that are being packed at a time.
        """
        parts, arrays, freed = self._parts(memory), self.weights.arrays, 0

        def size_first(name: str) -> tuple[int, int]:
            source = arrays[name].source
            return -source.nbytes, id(source)

        def settled(names: list[str]) -> int:
            size = arrays[names[0]].source.nbytes
            for name in names:
                self.weights.settle(name, parts[name])
            return size

        same: dict[int, list[str]] = {}  # one array may have several names
        for name in sorted(parts, key=size_first):
            same.setdefault(id(arrays[name]), []).append(name)
        with ThreadPoolExecutor(_PACKERS) as pool:
            for size in pool.map(settled, same.values()):
                freed += size
                if freed >= _WORTH_RETURNING:
                    return_memory()
                    freed = 0

    def over(self, memory: memoryview) -> Blob:
        """The same blob, its arrays parts of memory that was filled from it."""
        parts = self._parts(memory)
        for part in parts.values():
            part.flags.writeable = False
        return replace(self, weights=LazyWeights.of(parts))

    def _parts(self, memory: memoryview) -> dict[str, np.ndarray]:
        """The places of the arrays."""
        data, found = np.frombuffer(memory, np.uint8), dict[str, np.ndarray]()
        for name, offset in self.offsets.items():
            each = self.weights.arrays[name]
            part = data[offset : offset + each.nbytes]
            found[name] = part.view(each.dtype).reshape(each.shape)
        return found

    def tobytes(self) -> bytes:
        """The whole, copied."""
        return b"".join(self.pieces())


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def pack(weights: Mapping[str, np.ndarray], alignment: int) -> Blob:
    """Lays out weights in their order."""
    lazy = LazyWeights.of(weights)
    offsets: dict[str, int] = {}
    position = 0
    for name, array in lazy.arrays.items():
        offsets[name] = position
        position += -(-array.nbytes // alignment) * alignment
    return Blob(offsets, position, lazy)
