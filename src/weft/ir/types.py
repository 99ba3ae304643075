"""Types of values in a graph: an element type and a shape."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from weft.dtypes import DType


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that is not known yet: the batch, at the leading dimension only."""

    name: str

    def __str__(self) -> str:
        return self.name


Dim: TypeAlias = int | Symbol


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and logical shape of a value; prints as ``f32[N,3,224,224]``."""

    dtype: DType
    shape: tuple[Dim, ...]

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return all(isinstance(dim, int) for dim in self.shape)

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of a static type; raises ``TypeError`` on a symbolic one."""
        if not self.is_static:
            raise TypeError(f"{self} has a symbolic dimension")
        return tuple(dim for dim in self.shape if isinstance(dim, int))

    @property
    def size(self) -> int:
        """Number of elements of a static type."""
        return prod(self.dims)

    @property
    def bytes(self) -> int:
        """Number of bytes of a static type, packed."""
        return self.size * self.dtype.bytes

    def __str__(self) -> str:
        return f"{self.dtype.value}[{','.join(str(dim) for dim in self.shape)}]"
