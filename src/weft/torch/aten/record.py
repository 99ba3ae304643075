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
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias, TypeVar

from weft.dtypes import DType
from weft.frontends import emit
from weft.frontends.emit import Tensor
from weft.ir.types import TensorType
from weft.records import dataclass

Made: TypeAlias = "Tensor | Sequence[Tensor | None] | None"
Row: TypeAlias = Callable[..., Made]
R = TypeVar("R", bound=Row)

TABLE: dict[str, Row] = {}
"""Rows by the name of the ATen op with its overload: ``conv2d.default``."""
COMPLEX: dict[str, Row] = {}
"""Rows of nodes that take or give complex tensors."""
IGNORED = frozenset(
    "dtype memory_format layout device pin_memory non_blocking copy generator momentum "
    "cudnn_enable cudnn_enabled benchmark deterministic allow_tf32 out_int32".split()
)
"""Arguments that say nothing about values in inference; the element type is the result's."""


def aten(*names: str, table: dict[str, Row] = TABLE) -> Callable[[R], R]:
    """Enters a row into a table under names of ATen ops with their overloads."""

    def enter(row: R) -> R:
        for name in names:
            assert name not in table, name
            table[name] = row
        return row

    return enter


complex_aten = partial(aten, table=COMPLEX)
"""Enters a row into the table of complex numbers."""


@dataclass
class Emit(emit.Emit):
    """Makes the nodes of one ATen node.

    Attributes:
        results: types of what the node gives, as PyTorch infers them; ``None`` for no tensor.
        nodes: PyTorch's nodes of the arguments, by name; they know how a tensor lies in memory.
    """

    results: tuple[TensorType | None, ...] = ()
    nodes: Mapping[str, Any] = field(default_factory=dict)

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
