"""A vector expression in C, and the types that lanes are held, stored and wrapped in."""

from __future__ import annotations

from typing import NamedTuple

from weft.codegen.tree import Node
from weft.dtypes import DType
from weft.loops.arithmetic import HALVES


class Lanes(NamedTuple):
    """A vector expression in C.

    Attributes:
        node: the expression.
        dtype: element type; f16 and bf16 are held as f32, bool as a mask.
        mask: bytes of each lane of a mask (all ones or zero), 0 if it is none.
    """

    node: Node
    dtype: DType
    mask: int = 0


def held_as(dtype: DType) -> DType:
    """The type that lanes of a type are computed in."""
    return DType.F32 if dtype in HALVES else dtype


def storage(dtype: DType) -> DType:
    """The integer or float type whose vectors are stored for a type."""
    if dtype in HALVES:
        return DType.U16
    return DType.U8 if dtype is DType.BOOL else dtype


def unsigned_of(dtype: DType) -> DType:
    """The unsigned integer of the same width."""
    return DType(f"u{dtype.bytes * 8}")
