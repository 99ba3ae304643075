"""Build graphs node by node; types are inferred by the op table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError, nearest
from weft.ir.graph import Graph, Node, Origin
from weft.ir.naming import numbered
from weft.ir.types import TensorType
from weft.ir.unknown import is_known
from weft.ops.record import Call, Op


def _record(op: Op) -> Any:
    """An op's attributes where none are given."""
    try:
        return op.attributes()
    except TypeError:
        required = [each.name for each in fields(op.attributes) if each.default is MISSING]
        raise UserError(
            f"{op.name.lower()}: attribute{'s' * (len(required) > 1)} "
            f"{', '.join(required)} must be given",
            got="none",
            fix=f"Give attributes={op.attributes.__name__}(...).",
        ) from None


class GraphBuilder:
    """Collects nodes into a graph.

    Values are named by strings; names that are asked for and taken get a suffix.

    Args:
        ops: the op table.
        name: of the graph to be.
        taken: names of values and nodes that must not be used (of a surrounding graph).
    """

    def __init__(
        self, ops: Mapping[str, Op], name: str = "graph", taken: Sequence[str] = ()
    ) -> None:
        self.ops = ops
        self.name = name
        self.origin = Origin()
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def fresh(self, wish: str) -> str:
        """A name nobody has, ``wish`` itself if possible."""
        name = numbered(wish, self._taken, self._counts)
        self._taken.add(name)
        return name

    def input(self, name: str, type: TensorType) -> str:
        """Add a graph input."""
        name = self.fresh(name)
        self.inputs.append(name)
        self.types[name] = type
        return name

    def constant(self, array: np.ndarray, name: str = "constant") -> str:
        """Add a constant; the array is shared, not copied, and made read-only."""
        name = self.fresh(name)
        if is_known(array):
            array = np.asarray(array).view()
            array.flags.writeable = False
        self.constants[name] = array
        self.types[name] = TensorType(DType.of(array.dtype), tuple(array.shape))
        return name

    def declare(self, name: str, type: TensorType, array: np.ndarray | None = None) -> None:
        """Make a value of a surrounding graph known, so that nodes here may read it."""
        self.types[name] = type
        self._taken.add(name)
        if array is not None:
            self.constants[name] = array

    def nodes_of(
        self,
        op: str,
        inputs: Sequence[str],
        attributes: Any = None,
        *,
        outputs: Sequence[str] | int = 1,
        name: str = "",
        origin: Origin | None = None,
    ) -> tuple[str, ...]:
        """Add one node with any number of outputs.

        Args:
            op: name in the op table.
            inputs: value names, ``""`` where absent.
            attributes: the op's attribute record; its defaults if not given.
            outputs: wished names of the outputs (``""`` for unused), or how many.
            name: wished name of the node.
            origin: provenance; the builder's current ``origin`` if not given.

        Returns:
            Names of the outputs.
        """
        record = self.ops.get(op)
        if record is None:
            raise UserError(f"{op} is not an op of Weft", where=f"node {name}" if name else "")
        for value in inputs:
            if value and value not in self.types:
                raise UserError(
                    f"{op.lower()}: there is no value {value!r}",
                    where=f"node {name}" if name else "",
                    fix=nearest(value, self.types) if isinstance(value, str) else "",  # pyright: ignore[reportUnnecessaryIsInstance]
                )
        attributes = _record(record) if attributes is None else attributes
        if not isinstance(attributes, record.attributes):
            raise UserError(
                f"{op.lower()}: attributes must be {record.attributes.__name__}",
                got=repr(attributes),
                where=f"node {name}" if name else "",
            )
        name = self.fresh(name or op.lower())
        wishes = [f"{name}_out"] * outputs if isinstance(outputs, int) else list(outputs)
        call = Call(
            op,
            attributes,
            tuple(self.types[value] if value else None for value in inputs),
            len(wishes),
            f"node {name}",
        )
        types = record.infer(call)
        if len(types) < len(wishes):
            raise call.error(f"gives {len(types)} outputs", got=f"{len(wishes)} asked for")
        made = tuple(self.fresh(wish) if wish else "" for wish in wishes)
        for value, type in zip(made, types, strict=False):
            if value:
                self.types[value] = type
        attributes = record.resolved(call)
        self.nodes.append(Node(name, op, tuple(inputs), made, attributes, origin or self.origin))
        return made

    def op(
        self,
        op: str,
        *inputs: str,
        attributes: Any = None,
        output: str = "",
        name: str = "",
    ) -> str:
        """Add a node with one output and return the output's name."""
        wish: Sequence[str] | int = [output] if output else 1
        return self.nodes_of(op, inputs, attributes, outputs=wish, name=name)[0]

    def graph(self, outputs: Sequence[str]) -> Graph:
        """The graph built so far, with these outputs."""
        return Graph(
            self.name,
            tuple(self.inputs),
            tuple(outputs),
            tuple(self.nodes),
            self.types,
            self.constants,
        )
