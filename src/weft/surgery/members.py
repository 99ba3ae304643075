"""Where the members of a batch stand in a value, and whether an op keeps them apart.

An op keeps members apart when the element of its output that belongs to a member is made of
elements that belong to the same member.  That is read off the op's own definition: the axis
that carries the batch is read at one and the same axis of the output and decides nothing else.
Composite ops are asked through what they stand for, so no op needs a rule of its own here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import NamedTuple

import numpy as np

from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr, Load, Var
from weft.loops.walk import free_vars, index, loads, map_expr
from weft.ops.definitions import definition, expansion
from weft.ops.evaluate import call_of
from weft.ops.record import Call, Control, Extern
from weft.ops.shape import VIEWS
from weft.ops.table import OPS
from weft.records import dataclass


class MemberPlace(NamedTuple):
    """Where the members are: ``inner`` elements of an axis belong to each in turn.

    An axis of 24 with two members and ``inner`` 4 is three times (four of the one, four of
    the other); the batch alone on an axis has ``inner`` 1.
    """

    axis: int
    inner: int

    def behind(self, shape: Sequence[int]) -> int:
        """How many elements in a row belong to one member."""
        return self.inner * prod(shape[self.axis + 1 :])


@dataclass(frozen=True)
class MemberAt:
    """One node, as it is asked where members go.

    Attributes:
        node: with inputs and outputs of these types.
        types: static ones, of a batch of at least 2.
        batch: how many members there are.
        places: of values that have members.
        alike: values whose elements are all the same.
    """

    node: Node
    types: Mapping[str, TensorType]
    batch: int
    places: Mapping[str, MemberPlace]
    alike: Collection[str] = field(default=())

    def refuse(self, why: str) -> UserError:
        """The refusal of a node that does not keep members apart."""
        return UserError(
            f"shapes: {self.node.op.lower()}: {why}",
            got=", ".join(str(self.types[value]) for value in self.node.inputs if value),
            fix="Export the network with that batch instead.",
            where=f"node {self.node.name}",
        )


def carried(at: MemberAt) -> dict[str, MemberPlace]:
    """Where the members are in the outputs of a node.

    Raises:
        UserError: it does not keep members apart, or that cannot be told.
    """
    if not any(value in at.places for value in at.node.inputs):
        return {}
    if at.node.op in VIEWS:
        return _viewed(at)
    call = call_of(at.node, at.types)
    computes, graph = definition(call), expansion(call)
    if computes is not None:
        return _defined(at, computes)
    if graph is not None:
        return _expanded(at, graph)
    return _scanned(at) if isinstance(OPS[at.node.op].compute, Control) else _beside(at, call)


# --- definitions ----------------------------------------------------------------------------


def _defined(at: MemberAt, computes: Sequence[Compute]) -> dict[str, MemberPlace]:
    inputs = list(enumerate(at.node.inputs))
    buffers = {f"in{n}": at.places[value] for n, value in inputs if value in at.places}
    free = {f"in{n}" for n, value in inputs if value in at.alike}
    found: dict[str, MemberPlace] = {}
    for n, (value, compute) in enumerate(zip(at.node.outputs, computes, strict=False)):
        place = _of_compute(at, compute, buffers, free) if value else None
        if place is not None:
            found[value] = buffers[f"out{n}"] = place
    return found


def _of_compute(
    at: MemberAt, compute: Compute, buffers: Mapping[str, MemberPlace], free: Collection[str]
) -> MemberPlace | None:
    """Where members are in what is computed; ``None`` if it is the same for all of them."""
    reads = {
        (load.index[buffers[load.buffer].axis], buffers[load.buffer].inner)
        for load in loads(compute.value)
        if load.buffer in buffers
    }
    if not reads:
        if not _ignores(at):
            raise at.refuse("what it makes depends on the size of the batch")
        return None
    (read, inner), *others = reads
    axes = [axis.var for axis in compute.axes]
    if others or not isinstance(read, Var) or read.name not in axes:
        raise at.refuse("members of the batch would meet")

    def without(expr: Expr) -> Expr:
        if not isinstance(expr, Load):
            return expr
        position = list(expr.index)
        if expr.buffer in free:
            position = [index(0)] * len(position)
        elif expr.buffer in buffers:
            position[buffers[expr.buffer].axis] = index(0)
        return Load(expr.buffer, tuple(position), expr.dtype)

    if read.name in free_vars(map_expr(compute.value, without)):
        raise at.refuse("members of the batch would not be treated alike")
    return MemberPlace(axes.index(read.name), inner)


def _ignores(at: MemberAt) -> bool:
    """Whether what a node makes without reading elements does not depend on the batch."""
    if at.node.op != "Shape":
        return False
    source, asked = at.node.inputs[0], at.node.attributes
    axes = range(len(at.types[source].shape))[asked.start : asked.end]
    return at.places[source].axis not in axes


# --- everything else ------------------------------------------------------------------------


def _viewed(at: MemberAt) -> dict[str, MemberPlace]:
    (source, *_), (target, *_) = at.node.inputs, at.node.outputs
    behind = at.places[source].behind(at.types[source].dims)
    found = placed(at.types[target].dims, behind, at.batch)
    if found is None:
        raise at.refuse("the batch would be split")
    return {target: found}


def placed(shape: Sequence[int], behind: int, batch: int) -> MemberPlace | None:
    """Where members are in a shape; ``None`` if the batch of at least 2 is split there.

    Args:
        shape: any that has the elements in their order.
        behind: how many elements in a row belong to one member.
        batch: how many members there are.
    """
    after = prod(shape)
    if not after:
        return None
    for axis, dim in enumerate(shape):
        after //= dim
        if after <= behind < after * dim:
            inner = behind // after
            fits = behind % after == 0 and dim % (inner * batch) == 0
            return MemberPlace(axis, inner) if fits else None
    return None


def _expanded(at: MemberAt, graph: Graph) -> dict[str, MemberPlace]:
    inputs = [(f"in{n}", value) for n, value in enumerate(at.node.inputs)]
    places = {name: at.places[value] for name, value in inputs if value in at.places}
    alike = {name for name, value in inputs if value in at.alike}
    try:
        found = _of_graph(graph, at.batch, places, alike)
    except UserError as error:
        raise at.refuse(error.rule.rpartition(": ")[2]) from None
    made = {value: found.get(f"out{n}") for n, value in enumerate(at.node.outputs) if value}
    return {value: place for value, place in made.items() if place is not None}


def _of_graph(
    graph: Graph, batch: int, places: Mapping[str, MemberPlace], alike: Collection[str]
) -> dict[str, MemberPlace]:
    """Where the members are in all values of a graph."""
    found = dict(places)
    same = {*alike, *(name for name, array in graph.constants.items() if is_alike(array))}
    for node in graph.nodes:
        found.update(carried(MemberAt(node, graph.types, batch, found, same)))
    return found


def is_alike(array: np.ndarray) -> bool:
    """Whether all elements are the same."""
    return array.size > 0 and bool((array == array.flat[0]).all())


def _scanned(at: MemberAt) -> dict[str, MemberPlace]:
    """The body keeps members apart, and states keep their places from step to step."""
    node, body = at.node, at.node.attributes.body
    states: int = node.attributes.num_states
    given = _into_body(at, range(states, states + node.attributes.num_scan_inputs))
    for n in range(states):
        # A first state that is the same everywhere, such as zeros, has its members anywhere.
        dims = at.types[node.inputs[n]].dims
        if node.inputs[n] in at.alike and at.batch in dims:
            given.setdefault(body.inputs[n], MemberPlace(dims.index(at.batch), 1))
    found = _of_graph(body, at.batch, given, ())
    if any(found.get(body.outputs[n]) != given.get(body.inputs[n]) for n in range(states)):
        raise at.refuse("members of a state would move from step to step")
    made: dict[str, MemberPlace] = {}
    for n, (name, value) in enumerate(zip(body.outputs, node.outputs, strict=True)):
        place = found.get(name)
        if value and place is not None:
            made[value] = place if n < states else _shifted(place, 1)
    return made


def _into_body(at: MemberAt, sliced: Collection[int]) -> dict[str, MemberPlace]:
    found: dict[str, MemberPlace] = {}
    for n, (name, value) in enumerate(
        zip(at.node.attributes.body.inputs, at.node.inputs, strict=True)
    ):
        place = at.places.get(value)
        if place is None:
            continue
        if n in sliced and place.axis == 0:
            raise at.refuse("it goes through the members of the batch one by one")
        found[name] = _shifted(place, -1) if n in sliced else place
    return found


def _shifted(place: MemberPlace, by: int) -> MemberPlace:
    """The same on another axis."""
    return MemberPlace(place.axis + by, place.inner)


def _beside(at: MemberAt, call: Call) -> dict[str, MemberPlace]:
    first, *others = at.node.inputs
    compute = OPS[at.node.op].compute
    apart = isinstance(compute, Extern) and compute.along_axis
    if not apart or any(value in at.places for value in others):
        raise at.refuse("it cannot be told whether it keeps members of the batch apart")
    place = at.places[first]
    axis: int | None = getattr(call.attributes, "axis", None)
    if axis is not None and axis % len(at.types[first].shape) == place.axis:
        raise at.refuse("members of the batch would meet")
    return {at.node.outputs[0]: place}
