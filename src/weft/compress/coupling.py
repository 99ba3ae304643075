"""Which positions of a graph's values go together, over labels.

The idea is that of dependency graphs (Fang et al., DepGraph: Towards Any Structural Pruning,
CVPR 2023).  Here it is an abstract interpretation: every op maps the labels of its inputs' axes
to those of its outputs' (see ``weft.compress.slots``), so a concatenation, a slice, a shuffle or a
flattened image needs no bookkeeping of offsets.  What is not known to go with fewer positions
pins all that it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

import numpy as np

from weft.cached import cached_property
from weft.compress.slots import Axes, Birth, Labels, SlotCut, Slots
from weft.errors import InternalError
from weft.ir.graph import Graph, Node
from weft.ir.types import Dim, TensorType
from weft.ops.evaluate import call_of
from weft.ops.record import Call
from weft.records import dataclass

FITTED = frozenset({"Expand", "Gather", "Reshape", "Slice", "Split"})
"""Ops that move elements to places that they are told, which pruning fits to what is left."""
Rule: TypeAlias = "Callable[[CoupledAt], tuple[Axes, ...] | None]"
"""The labels of the outputs; ``None`` pins the inputs and everything that is made."""


@dataclass
class Labelling:
    """The labels of a graph.

    Attributes:
        graph: what is labelled.
        values: the labels of inputs and computed values.
        constants: the labels of constants, by axis; axes that nothing asked for have none.
        derived: values that depend on constants only.
        heads: axes, of values, over which products of matrices are repeated.
    """

    graph: Graph
    slots: Slots = field(default_factory=Slots)
    values: dict[str, Axes] = field(default_factory=dict[str, "Axes"])
    constants: dict[str, dict[int, Labels]] = field(default_factory=dict[str, dict[int, "Labels"]])
    derived: set[str] = field(default_factory=set[str])
    heads: frozenset[tuple[str, int]] = frozenset()

    def axes_of(self, value: str) -> Axes:
        """The labels of all axes of a value."""
        if value not in self.graph.constants:
            return self.values[value]
        return [self.axis(value, axis) for axis in range(len(self.graph.types[value].shape))]

    def axis(self, value: str, axis: int) -> Labels | None:
        """The labels of one axis."""
        if value not in self.graph.constants:
            return self.values[value][axis]
        own = self.constants.setdefault(value, {})
        if axis not in own:
            own[axis] = self.slots.fresh(self.graph.constants[value].shape[axis])
        return own[axis]

    def join(self, value: str, axis: int, labels: Labels | None) -> None:
        """Let an axis go together with labels."""
        own = self.constants.get(value, {})
        if value in self.graph.constants and axis not in own and labels is not None:
            self.constants.setdefault(value, {})[axis] = labels
        else:
            self.slots.tie(self.axis(value, axis), labels)


@dataclass(frozen=True)
class CoupledAt:
    """One node, as rules look at it."""

    labelling: Labelling
    node: Node

    @property
    def slots(self) -> Slots:
        """The slots of the graph."""
        return self.labelling.slots

    @property
    def call(self) -> Call:
        """The node as its op's record is asked about it."""
        return call_of(self.node, self.labelling.graph.types)

    @property
    def where(self) -> str:
        """The node, for reasons."""
        return f"{self.node.op} {self.node.name}"

    def has(self, position: int) -> bool:
        """Whether an input is present."""
        return position < len(self.node.inputs) and bool(self.node.inputs[position])

    def is_constant(self, position: int) -> bool:
        """Whether an input depends on constants only."""
        value = self.node.inputs[position]
        return value in self.labelling.graph.constants or value in self.labelling.derived

    @cached_property
    def arrays(self) -> dict[int, np.ndarray]:
        """Constants that say which positions of the others are read, and can be fitted."""
        constants = self.labelling.graph.constants
        return {
            place: constants[value]
            for place, value in enumerate(self.node.inputs)
            if place and self.node.op in FITTED and value in constants
            if self.type(place).dtype.is_integer and len(self.type(place).shape) == 1
        }

    def may_carry(self, extent: int) -> bool:
        """Whether any input has a free axis of a length that may stand for one of an output."""
        return extent > 1 and any(
            dim == extent and self.slots.is_free(self.labels(place, axis))
            for place, value in enumerate(self.node.inputs)
            for axis, dim in enumerate(self.type(place).shape if value else ())
        )

    def labels(self, position: int, axis: int) -> Labels | None:
        """The labels of an axis, if its length is known."""
        return self.labelling.axis(self.node.inputs[position], axis)

    def type(self, position: int) -> TensorType:
        """The type of an input."""
        return self.labelling.graph.types[self.node.inputs[position]]

    def made(self, position: int = 0) -> tuple[Dim, ...]:
        """The shape of an output."""
        return self.labelling.graph.types[self.node.outputs[position]].shape

    def axes(self, position: int = 0) -> Axes:
        """The labels of an input."""
        return list(self.labelling.axes_of(self.node.inputs[position]))

    def axis(self, position: int, axis: int) -> Labels:
        """The labels of an axis of known length."""
        found = self.labelling.axis(self.node.inputs[position], axis)
        if found is None:
            raise InternalError(f"axis {axis} of input {position} of {self.node.name} is open")
        return found

    def join(self, position: int, axis: int, labels: Labels | None) -> None:
        """Let an axis of an input, if there is that input, go together with labels."""
        if self.has(position):
            self.labelling.join(self.node.inputs[position], axis, labels)

    def pin(self, labels: Labels | None, why: str) -> None:
        """Positions that must stay because of this node."""
        self.slots.pin(labels, f"{self.where} {why}")

    def dead(self, dims: tuple[Dim, ...]) -> Axes:
        """Labels of axes that were never free."""
        return [
            self.slots.dead(dim, "no layer with weights makes it") if isinstance(dim, int) else None
            for dim in dims
        ]

    def born(self, position: int, axis: int) -> Labels:
        """The labels of what slices of a weight make."""
        labels = self.axis(position, axis)
        birth = Birth(self.node.name, self.node.inputs[position], axis, labels)
        self.slots.births.append(birth)
        return labels

    def cut(self, position: int, axis: int) -> Labels:
        """The labels of an axis that the node sums over."""
        labels = self.axis(position, axis)
        self.slots.cuts.append(SlotCut(self.node.name, position, axis, labels))
        return labels


def label(graph: Graph, rule: Rule, heads: frozenset[tuple[str, int]]) -> Labelling:
    """Label a graph."""
    found = Labelling(graph, heads=heads)
    for value in graph.inputs:
        found.values[value] = [
            found.slots.dead(dim, f"it is graph input {value}") if isinstance(dim, int) else None
            for dim in graph.types[value].shape
        ]
    for node in graph.nodes:
        _label_node(found, node, rule)
    for value in graph.outputs:
        for labels in found.axes_of(value):
            found.slots.pin(labels, f"it is graph output {value}")
    return found


def _label_node(labelling: Labelling, node: Node, rule: Rule) -> None:
    at = CoupledAt(labelling, node)
    given = [place for place, value in enumerate(node.inputs) if value]
    if given and all(at.is_constant(place) for place in given):
        labelling.derived.update(value for value in node.outputs if value)
    made = rule(at)
    if made is None:
        for place in given:
            for labels in at.axes(place):
                at.pin(labels, "cannot do with fewer positions")
    for place, value in enumerate(node.outputs):
        if value:
            axes = at.dead(at.made(place)) if made is None else made[place]
            _check(node, at.made(place), axes)
            labelling.values[value] = axes


def _check(node: Node, shape: tuple[Dim, ...], axes: Axes) -> None:
    lengths = [None if labels is None else len(labels) for labels in axes]
    wanted = [dim if isinstance(dim, int) else None for dim in shape]
    if lengths != wanted:
        raise InternalError(f"labels of {node.op} {node.name} are {lengths}, it makes {wanted}")
