"""Short ways to write expansions: one method for each op that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.ops.accumulate import accumulator
from weft.ops.record import Builder
from weft.records import dataclass

Operand = str | float
"""A value's name, or a number that takes the other operand's type."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Adds nodes to a builder, value names in and out.

    Attributes:
        builder: what the nodes are added to.
    """

    builder: Builder

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        """One node with one output; the attributes are its record's fields."""
        record = self.builder.ops[op].attributes(**attributes)
        return self.builder.op(op, *inputs, attributes=record)

    def dtype(self, value: str) -> DType:
        """The element type of a value."""
        return self.builder.types[value].dtype

    def rank(self, value: str) -> int:
        """The number of dimensions of a value."""
        return len(self.builder.types[value].shape)

    def dims(self, value: str) -> tuple[int, ...]:
        """The sizes of a value of static type."""
        return self.builder.types[value].dims

    def scalar(self, number: float | int | bool, dtype: DType) -> str:
        """A constant without dimensions."""
        return self.builder.constant(np.array(number, dtype.numpy), "scalar")

    def constant(self, array: np.ndarray) -> str:
        """A constant."""
        return self.builder.constant(array)

    def _pair(self, op: str, lhs: Operand, rhs: Operand) -> str:
        like = lhs if isinstance(lhs, str) else rhs
        assert isinstance(like, str)
        dtype = self.dtype(like)
        return self.op(
            op,
            lhs if isinstance(lhs, str) else self.scalar(lhs, dtype),
            rhs if isinstance(rhs, str) else self.scalar(rhs, dtype),
        )

    def add(self, lhs: Operand, rhs: Operand) -> str:
        """``lhs + rhs``."""
        return self._pair("Add", lhs, rhs)

    def sub(self, lhs: Operand, rhs: Operand) -> str:
        """``lhs - rhs``."""
        return self._pair("Sub", lhs, rhs)

    def mul(self, lhs: Operand, rhs: Operand) -> str:
        """``lhs * rhs``."""
        return self._pair("Mul", lhs, rhs)

    def div(self, lhs: Operand, rhs: Operand) -> str:
        """``lhs / rhs``."""
        return self._pair("Div", lhs, rhs)

    def pair(self, op: str, lhs: Operand, rhs: Operand) -> str:
        """Any other op of two operands (``Max``, ``Less``, ``Pow``)."""
        return self._pair(op, lhs, rhs)

    def reduce(self, op: str, x: str, axes: Sequence[int]) -> str:
        """A reduction that keeps its dimensions as 1."""
        return self.op(op, x, axes=tuple(axes), keepdims=1)

    def cast(self, x: str, dtype: DType) -> str:
        """A conversion, if one is needed."""
        return x if self.dtype(x) is dtype else self.op("Cast", x, to=dtype)

    def wide(self, x: str) -> str:
        """The value in the type in which sums are taken."""
        return self.cast(x, accumulator(self.dtype(x)))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """A view; a 0 copies the input's size, a -1 is inferred."""
        return self.op("Reshape", x, shape=tuple(shape))

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        """A permutation of the dimensions, if it moves any."""
        if tuple(perm) == tuple(range(len(perm))):
            return x
        return self.op("Transpose", x, perm=tuple(perm))

    def unsqueeze(self, x: str, *axes: int) -> str:
        """New dimensions of 1 at these places of the output."""
        return self.op("Unsqueeze", x, axes=axes)

    def squeeze(self, x: str, *axes: int) -> str:
        """Without these dimensions of 1."""
        return self.op("Squeeze", x, axes=axes)

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        """``start:end`` of one axis."""
        return self.op("Slice", x, starts=(start,), ends=(end,), axes=(axis,))

    def concat(self, values: Sequence[str], axis: int) -> str:
        """The values one after another; a single one as it is."""
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=axis)
