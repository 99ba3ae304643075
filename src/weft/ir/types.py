"""Types of values in a graph: an element type and a shape."""

from __future__ import annotations

import re
from math import prod
from typing import TypeAlias, cast

from weft.dtypes import DType
from weft.errors import UserError
from weft.records import dataclass

_TYPE = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>(?:\w+(?:,\w+)*)?)\]")


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
        return Symbol not in map(type, self.shape)

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of a static type; raises ``TypeError`` on a symbolic one."""
        if not self.is_static:
            raise TypeError(f"{self} has a symbolic dimension")
        return cast(tuple[int, ...], self.shape)

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


def parse_type(text: str) -> TensorType:
    """The type that prints as ``text``: ``f32[N,3,224,224]``.

    Raises:
        UserError: nothing prints so.
    """
    found = _TYPE.fullmatch(text.replace(" ", ""))
    known = {each.value: each for each in DType}
    if found is None or found["dtype"] not in known:
        raise UserError(
            "a type must be an element type and sizes in brackets, such as f32[1,3,224,224]",
            got=text,
        )
    sizes = [each for each in found["sizes"].split(",") if each]
    shape = tuple(int(each) if each.isdecimal() else Symbol(each) for each in sizes)
    if any(isinstance(each, Symbol) for each in shape[1:]):
        raise UserError("only the leading size of a type may be a symbol", got=text)
    return TensorType(known[found["dtype"]], shape)
