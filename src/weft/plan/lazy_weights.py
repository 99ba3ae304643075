"""Weights that are packed when somebody asks for them.

Packing takes as much memory as the weights themselves and is not needed to write C, so a build
packs them straight into the memory that the network runs on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

import numpy as np

from weft.cached import cached_property
from weft.ir.unknown import Unknown, contiguous
from weft.plan.implementation import Encoded, Folded, Packed
from weft.records import dataclass

# Of what is encoded at a time.
_BYTES = 1 << 25


@dataclass(eq=False)
class LazyArray:
    """A constant, and how a kernel wants it.

    Attributes:
        source: the constant.
        packing: how it is rearranged, if it is.
    """

    source: np.ndarray
    packing: Packed | None = None

    def packed(self) -> np.ndarray:
        """The packed array."""
        return self.packing.apply(self.source) if self.packing else contiguous(self.source)

    def write(self, out: np.ndarray) -> None:
        """Writes the packed array; what is encoded some blocks at a time, for it may be large."""
        match self.packing:
            case Encoded(packing=packing) if len(out) == packing.blocks:
                step = max(1, packing.blocks * _BYTES // max(1, out.nbytes))
                for first in range(0, packing.blocks, step):
                    part = out[first : first + step]
                    part[...] = self.packing.blocks(first, len(part)).apply(self.source)
            case _:
                out[...] = self.packed()

    @cached_property
    def _type(self) -> tuple[np.dtype, tuple[int, ...]]:
        match self.packing:
            case None:
                return self.source.dtype, self.source.shape
            case Encoded():
                stored = self.packing.stored
                return stored.dtype.numpy, stored.shape
            case Folded():
                return self.packing.array.dtype, self.packing.array.shape
            case _:
                # What an array without elements becomes says it without any work.
                given = Unknown(self.source.dtype, self.source.shape, "weight")
                made = self.packing.apply(given)  # pyright: ignore[reportArgumentType]
                return made.dtype, made.shape

    @property
    def dtype(self) -> np.dtype:
        """Of the packed array."""
        return self._type[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the packed array."""
        return self._type[1]

    @property
    def nbytes(self) -> int:
        """Size of the packed array."""
        return self.dtype.itemsize * prod(self.shape)


class LazyWeights(Mapping[str, np.ndarray]):
    """Packed constants by name; each is packed when it is first asked for, and then kept.

    Args:
        arrays: by name.
    """

    def __init__(self, arrays: Mapping[str, LazyArray]) -> None:
        self.arrays = dict(arrays)
        self._packed: dict[str, np.ndarray] = {}

    @classmethod
    def of(cls, weights: Mapping[str, np.ndarray]) -> LazyWeights:
        """The same weights; those that are packed stay as they are."""
        if isinstance(weights, LazyWeights):
            return weights
        return cls({name: LazyArray(array) for name, array in weights.items()})

    def only(self, names: Iterable[str]) -> LazyWeights:
        """Those of some names."""
        found = LazyWeights({name: self.arrays[name] for name in names})
        found._packed = self._packed
        return found

    def settle(self, name: str, out: np.ndarray) -> None:
        """Writes a packed array, which is ``out`` from then on, here and wherever else it is
        among the weights: the constant that it was made of is not needed any more.
        """
        array, found = self.arrays[name], self._packed.pop(name, None)
        if found is None:
            array.write(out)
        else:
            out[...] = found
        out.flags.writeable = False
        array.source, array.packing = out, None

    def once(self, name: str) -> np.ndarray:
        """A packed array for whoever reads it once: it is not kept."""
        found = self._packed.get(name)
        return self.arrays[name].packed() if found is None else found

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._packed:
            self._packed[name] = self.arrays[name].packed()
        return self._packed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def weights_bytes(weights: Mapping[str, np.ndarray]) -> int:
    """Size of packed arrays."""
    return sum(each.nbytes for each in LazyWeights.of(weights).arrays.values())
