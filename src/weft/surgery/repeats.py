"""Values that no input of a graph has a part in, repeated for another batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

import numpy as np

from weft.errors import UserError
from weft.ir.edit import read_only
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.ops.evaluate import evaluate_node
from weft.ops.ordering import ExpandAttributes
from weft.ops.table import OPS
from weft.records import dataclass
from weft.surgery.members import MemberPlace, is_alike


@dataclass(frozen=True)
class Batch:
    """Another size of one axis of some inputs.

    Attributes:
        old: size of the axis.
        new: size that it gets.
        axes: by input.
    """

    old: int
    new: int
    axes: Mapping[str, int]

    def grown(self, type: TensorType, place: MemberPlace) -> TensorType:
        """The type with the new batch in the place of the old."""
        dims = [
            dim // self.old * self.new if axis == place.axis else dim
            for axis, dim in enumerate(type.dims)
        ]
        return TensorType(type.dtype, tuple(dims))


@dataclass
class RepeatedValue:
    """The fixed values of a graph.

    Attributes:
        graph: as it was.
        batch: what changes.
        fresh: gives a free name like another.
        names: the values.
        arrays: those that are known so far.
        constants: made for the new batch, by name.
        nodes: that repeat values along an axis of 1.
        made: names of repeated values, by the value and where its members are.
    """

    graph: Graph
    batch: Batch
    fresh: Callable[[str], str]
    names: set[str] = field(default_factory=set[str])
    arrays: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    nodes: list[Node] = field(default_factory=list[Node])
    made: dict[tuple[str, MemberPlace], str] = field(
        default_factory=dict[tuple[str, MemberPlace], str]
    )

    def __post_init__(self) -> None:
        self.arrays.update(self.graph.constants)
        self.names.update(self.graph.constants)
        for node in self.graph.nodes:
            if all(value in self.names for value in node.inputs if value):
                self.names.update(node.outputs)

    def array(self, value: str) -> np.ndarray:
        """The elements of a fixed value."""
        if value not in self.arrays:
            node = self.graph.producers[value]
            for each in filter(None, node.inputs):
                self.array(each)
            self.arrays.update(evaluate_node(node, OPS[node.op], self.graph.types, self.arrays))
        return self.arrays[value]

    def is_alike(self, value: str) -> bool:
        """Whether a value is fixed and its elements are all the same."""
        return value in self.names and is_alike(self.array(value))

    def repeat(self, value: str, place: MemberPlace) -> str:
        """A value that is the same for all members of the old batch, for those of the new."""
        known = self.made.get((value, place))
        if known is not None:
            return known
        dims = self.graph.types[value].dims
        if dims[place.axis] == 1:
            wide = ExpandAttributes(self.batch.grown(self.graph.types[value], place).dims)
            name, node = self.fresh(f"{value}_wide"), self.fresh(f"{value}_expand")
            self.nodes.append(Node(node, "Expand", (value,), (name,), wide))
        else:
            name = self._constant(value, self._repeated(value, place))
        self.made[value, place] = name
        return name

    def _constant(self, value: str, array: np.ndarray) -> str:
        name = self.fresh(f"{value}_wide")
        self.constants[name] = read_only(np.ascontiguousarray(array))
        return name

    def _repeated(self, value: str, place: MemberPlace) -> np.ndarray:
        array = self.array(value)
        dims, axis, old = array.shape, place.axis, self.batch.old
        if dims[axis] % (old * place.inner):
            raise UserError(f"shapes: constant {value} does not hold the batch", got=str(dims))
        outer = dims[axis] // (old * place.inner)
        split = array.reshape(*dims[:axis], outer, old, place.inner, *dims[axis + 1 :])
        one = split.take([0], axis + 1)
        if not (split == one).all():
            raise UserError(
                f"shapes: constant {value} differs from member to member", got=str(dims)
            )
        wide = np.repeat(one, self.batch.new, axis + 1)
        return wide.reshape(*dims[:axis], -1, *dims[axis + 1 :])

    def picks(self, value: str, place: MemberPlace, length: int) -> tuple[str, int] | None:
        """Fixed positions on an axis that holds the batch: those of the members of the new.

        Args:
            value: the positions.
            place: of the members in what is picked from.
            length: of its axis.

        Returns:
            The new positions, and which of their axes is that of the batch; ``None`` where
            they do not pick the same of every member.
        """
        picked = self.array(value) % length
        for axis, dim in enumerate(picked.shape):
            one = picked.take([0], axis)
            outer, inner = np.divmod(one, self.batch.old * place.inner)
            if dim == self.batch.old and (self._of(outer, inner, place, axis, dim) == picked).all():
                wide = self._of(outer, inner, place, axis, self.batch.new)
                return self._constant(value, wide.astype(picked.dtype)), axis
        return None

    def _of(
        self, outer: np.ndarray, inner: np.ndarray, place: MemberPlace, axis: int, batch: int
    ) -> np.ndarray:
        """Positions of all members of a batch, along an axis."""
        members = np.arange(batch).reshape(-1, *[1] * (outer.ndim - axis - 1))
        return (outer * batch + members) * place.inner + inner
