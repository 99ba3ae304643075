"""Graphs of Weft, made from the nodes of a source model one after the other.

Every frontend has a table of rows, one for each op or layer of its format; a row is a function that
takes tensors of the graph in the making and adds nodes through ``Emit``::

    def softmax(g: Emit, x: Tensor, axis: int) -> Tensor:
        return g("Softmax", x, axis=axis)

A row refuses what it cannot import with ``g.refuse(reason)``; the frontend collects these refusals
and reports them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, NoReturn, TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.records import dataclass


@dataclass(frozen=True)
class Tensor:
    """A value of the graph in the making."""

    name: str
    type: TensorType

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.type.dims

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.type.shape)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.type.dtype


Number: TypeAlias = bool | int | float


class RefusalError(UserError):
    """A node cannot be imported; the rule is the reason."""


@dataclass
class Emit:
    """Makes the nodes of one node of a source model.

    Attributes:
        builder: of the graph.
        name: wished for the nodes: the source node's path.
        arrays: values of the constants that the code may depend on, by name.
    """

    builder: GraphBuilder
    name: str = ""
    arrays: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    _numbers: dict[tuple[DType, Any], Tensor] = field(
        default_factory=dict[tuple[DType, Any], Tensor]
    )

    def refuse(self, reason: str) -> NoReturn:
        """Raises the refusal of the node."""
        raise RefusalError(reason)

    def __call__(self, op: str, *inputs: Tensor | None, **attributes: Any) -> Tensor:
        """Adds a node with one output.

        Args:
            op: of Weft's table.
            inputs: its inputs, in order.
            attributes: of the op, by name; those not given have their defaults.
        """
        return self.several(op, *inputs, outputs=1, **attributes)[0]

    def several(
        self, op: str, *inputs: Tensor | None, outputs: int, **attributes: Any
    ) -> tuple[Tensor, ...]:
        """Adds a node with so many outputs."""
        record = self.builder.ops[op].attributes(**attributes)
        names = [each.name if each is not None else "" for each in inputs]
        made = self.builder.nodes_of(op, names, record, outputs=outputs, name=self.name)
        return tuple(self.of(name) for name in made)

    def of(self, name: str) -> Tensor:
        """A value by its name."""
        return Tensor(name, self.builder.types[name])

    # --- what many rows need --------------------------------------------------------------

    def constant(self, array: np.ndarray, name: str = "constant") -> Tensor:
        """A constant."""
        name = self.builder.constant(array, name)
        self.arrays[name] = array
        return self.of(name)

    def array(self, x: Tensor) -> np.ndarray | None:
        """The elements of a constant that is not a parameter."""
        return self.arrays.get(x.name)

    def number(self, value: Number, dtype: DType) -> Tensor:
        """A constant of rank 0."""
        key = (dtype, repr(value))
        if key not in self._numbers:
            self._numbers[key] = self.constant(np.array(value).astype(dtype.numpy))
        return self._numbers[key]

    def cast(self, x: Tensor | Number, dtype: DType) -> Tensor:
        """A tensor or number as a tensor of an element type."""
        if not isinstance(x, Tensor):
            return self.number(x, dtype)
        return x if x.dtype == dtype else self("Cast", x, to=dtype)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The elements in the same order under another shape."""
        shape = tuple(int(size) for size in shape)
        return x if shape == x.shape else self("Reshape", x, shape=shape, allowzero=1)

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """The axes in another order."""
        return x if tuple(perm) == tuple(range(x.rank)) else self("Transpose", x, perm=tuple(perm))

    def expand(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Axes of length 1 repeated."""
        return x if tuple(shape) == x.shape else self("Expand", x, shape=tuple(shape))

    def slice(self, x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
        """Part of an axis; ``0 <= start <= stop <=`` its length."""
        if (start, stop, step) == (0, x.shape[axis], 1):
            return x
        return self("Slice", x, starts=(start,), ends=(stop,), axes=(axis,), steps=(step,))

    def axis(self, x: Tensor, dim: int) -> int:
        """An axis counted from the front."""
        return dim % x.rank if x.rank else 0

    def axes(self, x: Tensor, dims: Sequence[int] | int | None) -> tuple[int, ...]:
        """Axes counted from the front; all of them for ``None`` and for none."""
        if dims is None or (not isinstance(dims, int) and not len(dims)):
            return tuple(range(x.rank))
        given = [dims] if isinstance(dims, int) else dims
        return tuple(self.axis(x, dim) for dim in given)
