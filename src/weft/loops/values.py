"""Classes of values that are built by the million."""

from __future__ import annotations

from dataclasses import field
from typing import TypeVar, dataclass_transform

from weft.records import dataclass

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(kind: type[T]) -> type[T]:
    """``dataclass(frozen=True, slots=True)``, with changes refused by type checkers alone.

    Python would look at every attribute that is set, also where an object is made, which then
    takes four times as long.
    """
    return dataclass(slots=True, unsafe_hash=True)(kind)
