# pyright: basic
"""What rows of the ATen table are written with.

A row is a function named after nothing in particular, under the names of the ATen ops that it
imports.  Its first parameter is ``g``, which makes nodes of Weft; the others are arguments of the
ATen op *by the names of its schema*, of which it takes those that it heeds::

    @aten("softmax.int", "_softmax.default")
    def softmax(g: Emit, self: Tensor, dim: int) -> Tensor:
        return g("Softmax", self, axis=dim)

An argument that a row does not take must have the schema's default, else the node is refused;
``IGNORED`` lists arguments that say nothing about values.  Tensors come as ``Tensor``, everything
else as PyTorch has it.  ``g.result`` is the type that PyTorch infers: its element type decides
promotion.  A row refuses with ``g.refuse(reason)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder


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
Made: TypeAlias = "Tensor | Sequence[Tensor | None] | None"
Row: TypeAlias = Callable[..., Made]
R = TypeVar("R", bound=Row)

TABLE: dict[str, Row] = {}
"""Rows by the name of the ATen op with its overload: ``conv2d.default``."""
IGNORED = frozenset(
    "dtype memory_format layout device pin_memory non_blocking copy generator momentum "
    "cudnn_enable cudnn_enabled benchmark deterministic allow_tf32 out_int32".split()
)
"""Arguments that say nothing about values in inference; the element type is the result's."""


def aten(*names: str) -> Callable[[R], R]:
    """Enters a row into the table under names of ATen ops with their overloads."""

    def enter(row: R) -> R:
        for name in names:
            assert name not in TABLE, name
            TABLE[name] = row
        return row

    return enter


class RefusalError(UserError):
    """A node cannot be imported; the rule is the reason."""


@dataclass
class Emit:
    """Makes the nodes of one ATen node.

    Attributes:
        builder: of the graph.
        name: wished for the nodes: the module's path and the op.
        results: types of what the node gives, as PyTorch infers them; ``None`` for no tensor.
        arrays: values of the constants that the code may depend on, by name.
        nodes: PyTorch's nodes of the arguments, by name; they know how a tensor lies in memory.
    """

    builder: GraphBuilder
    name: str = ""
    results: tuple[TensorType | None, ...] = ()
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    nodes: Mapping[str, Any] = field(default_factory=dict)
    _numbers: dict[tuple[DType, Any], Tensor] = field(default_factory=dict)

    @property
    def result(self) -> TensorType:
        """The type of the only or first tensor that the node gives."""
        found = self.results[0] if self.results else None
        if found is None:
            self.refuse("it gives no tensor")
        return found

    @property
    def dtype(self) -> DType:
        """The element type of the result."""
        return self.result.dtype

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
