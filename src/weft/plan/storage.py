"""Storage: which memory every value lives in, and how its elements lie there.

A value is a strided view of a *root*: itself, or the value whose memory it shares.
Transposes, slices and expansions are views with other strides; a reshape is a view where
the strides allow it; the parts of a concatenation are views of the whole, written in
place.  All of these cost nothing.  A root is packed in an order of its dimensions, its
physical layout: channels last for what convolution and pooling make, the order of the
operand for what is computed elementwise, row-major otherwise and for what the caller sees.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from operator import mul

from weft.errors import InternalError
from weft.ir.graph import NO_ATTRIBUTES, Node
from weft.ir.naming import fresh
from weft.ir.types import TensorType
from weft.loops.nodes import Var
from weft.loops.shapes import row_major
from weft.loops.walk import loads, rename_loads
from weft.ops.shape import VIEWS
from weft.plan.contractions import contraction
from weft.plan.fusion import Group
from weft.plan.images import SPATIAL, channels_of, fastest, images_of, is_spatial
from weft.plan.program import Region
from weft.plan.spread import gap_of, spreadable
from weft.plan.strides import StridedView, moved, order_of, packed, reshaped
from weft.plan.tensors import (
    Assembled,
    Defined,
    Item,
    Opaque,
    TensorProgram,
    copy_of,
    moved_from,
)
from weft.plan.walks import gathered, permutation, repeated, vector_strides, walked
from weft.records import dataclass

REORDER = "Reorder"
"""The op of steps that copy a value into another layout."""


@dataclass(frozen=True, slots=True)
class Root:
    """Memory of its own: a region and a number of bytes."""

    value: str
    region: Region
    bytes: int


def _reorder(node: Node) -> Node:
    """What changes a layout for a node: an op of its own, for whoever shows the plan."""
    return replace(node, op=REORDER, attributes=NO_ATTRIBUTES)


@dataclass(frozen=True)
class Storage:
    """Views of all materialised values, and their roots.

    Attributes:
        views: where every value lies.
        roots: the memory there is.
        steps: the groups and nodes that are run, in a possible order.
        ready: for every value, the steps that must have run before it can be read.
        types: of all values, those added here included.
        states: for every input that is a state, the root that holds its next value.
    """

    views: Mapping[str, StridedView]
    roots: Mapping[str, Root]
    steps: tuple[Group | Opaque, ...]
    ready: Mapping[str, frozenset[int]]
    types: Mapping[str, TensorType]
    states: Mapping[str, str]


class _Storage:
    def __init__(
        self,
        program: TensorProgram,
        groups: Mapping[str, Group],
        spread: frozenset[str],
        states: Mapping[str, str],
        copied: Container[str],
    ) -> None:
        self.program = program
        self.groups = groups
        self.spread = spread
        self.types = dict(program.types)
        self.views: dict[str, StridedView] = {}
        self.roots: dict[str, Root] = {}
        self.steps: list[Group | Opaque] = []
        self.ready: dict[str, frozenset[int]] = {}
        self.orders: dict[str, tuple[int, ...]] = {}
        self.kept = frozenset(program.graph.outputs)
        self.states = dict(states)
        self.copied = [value for value in states.values() if value in copied]
        self.outputs = self.kept - set(self.copied)
        self.images = images_of(program.graph)
        self.owner: dict[str, tuple[str, int, int]] = {}
        self.turned: dict[tuple[str, tuple[int, ...]], str] = {}
        self.multiplied: dict[str, list[Group]] = {}
        for group in groups.values():
            reduce = contraction(group.compute.value)
            if reduce is not None:
                for buffer in dict.fromkeys(load.buffer for load in loads(reduce.value)):
                    self.multiplied.setdefault(buffer, []).append(group)
        self.readers: dict[str, list[Item]] = {}
        for item in program.items:
            if isinstance(item, Assembled):
                self.own_parts(item)
            for value in item.reads:
                self.readers.setdefault(value, []).append(item)
        self.handed = {
            item.node.inputs[0]: item.value
            for item in program.items
            if isinstance(item, Defined) and self.only_hands_out(item)
        }

    def only_hands_out(self, item: Defined) -> bool:
        """Whether a value is an output in whose memory what it reshapes may be written."""
        if item.value not in self.outputs - {*self.states.values()} or item.node.op not in VIEWS:
            return False
        source = item.node.inputs[0]
        free = source not in self.outputs and source not in self.owner
        return free and len(self.readers[source]) == 1

    def own_parts(self, item: Assembled) -> None:
        if item.owner is not None:
            self.owner[item.value] = (item.owner[0], item.axis, item.owner[1])
            return
        offset = 0
        for part in item.parts:
            self.owner[part] = (item.value, item.axis, offset)
            offset += self.types[part].dims[item.axis]

    # --- roots ------------------------------------------------------------------------

    def add_root(
        self, value: str, region: Region, order: Sequence[int] | None = None
    ) -> StridedView:
        type = self.types[value]
        order = range(len(type.dims)) if order is None else order
        gap = gap_of(type, order) if value in self.spread and region is Region.ARENA else 0
        strides = packed(type.dims, order, gap)
        reach = max(map(mul, strides, type.dims)) * type.dtype.bytes if gap else type.bytes
        self.roots[value] = Root(value, region, reach)
        self.views[value] = view = StridedView(value, 0, strides)
        return view

    def view_to_write(self, value: str, order: Sequence[int] | None) -> StridedView:
        """Where a value that is computed is put: in its owner, or in a root of its own."""
        found = self.views.get(value)
        if found is not None:
            return found
        owned = self.owner.get(value)
        if value in self.handed:
            whole = self.view_to_write(self.handed[value], None)
            shape = self.types[self.handed[value]].dims
            strides = reshaped(shape, whole.strides, self.types[value].dims)
            assert strides is not None  # the output is packed
            self.views[value] = view = StridedView(whole.root, whole.offset, strides)
            return view
        if owned is None:
            region = Region.OUTPUT if value in self.outputs else Region.ARENA
            if region is Region.OUTPUT and value in self.states.values():
                region = Region.STATE
            return self.add_root(value, region, None if value in self.outputs else order)
        whole, axis, offset = owned
        parent = self.view_to_write(whole, order)
        view = StridedView(
            parent.root, parent.offset + offset * parent.strides[axis], parent.strides
        )
        self.views[value] = view
        return view

    # --- layout -----------------------------------------------------------------------

    def lanes_of(self, value: str) -> int | None:
        """The dimension of a factor along which the contractions that read it are vectors."""
        if value in self.outputs or value in self.owner or value in self.handed:
            return None
        found = {
            axis
            for user in self.contractions(value)
            for load in loads(user.compute.value)
            if load.buffer == value
            for axis, part in enumerate(load.index)
            if part == fastest(user) and self.types[value].dims[axis] > 1
        }
        return found.pop() if len(found) == 1 else None

    def order_for(self, group: Group) -> tuple[int, ...]:
        """The physical order of a group's value.

        Channels last for images, the order that a contraction reads fast for its factors,
        otherwise the operand's; but row-major for a matrix product in which vectors along the
        fastest dimension would be gathered otherwise.
        """
        order, plain = self.order_wished(group), tuple(range(len(group.type.shape)))
        return plain if self.gathers(group, order) and not self.gathers(group, plain) else order

    def gathers(self, group: Group, order: tuple[int, ...]) -> bool:
        """Whether a matrix product would read a factor with gaps along its fastest dimension."""
        reduce = contraction(group.compute.value)
        if reduce is None or any(node.op in SPATIAL for node in group.nodes):
            return False
        if any(gathered(reduce.value)):  # places that data give, as of resized images
            return False
        strides = vector_strides(reduce, group.compute, order, self.views)
        return any(
            step not in (0, 1)
            for name, step in strides.items()
            if name not in self.program.constants
        )

    def order_wished(self, group: Group) -> tuple[int, ...]:
        """The order that ``order_for`` prefers, without regard to what would be gathered."""
        rank = len(group.type.shape)
        anchored = any(node.op in SPATIAL for node in group.nodes)
        if rank >= 3 and (anchored or group.value in self.images):
            channels = channels_of(group)
            return (*(axis for axis in range(rank) if axis != channels), channels)
        turned = self.order_of_reader(group.value)
        if turned is not None:
            return turned
        lanes = self.lanes_of(group.value)
        if lanes is not None:
            return (*(axis for axis in range(rank) if axis != lanes), lanes)
        return self.order_of_operand(group) or tuple(range(rank))

    def order_of_reader(self, value: str) -> tuple[int, ...] | None:
        """The order that a reshape behind transpositions takes for row-major.

        Heads of attention are joined like that.  Vectors along the last dimension stay so.
        """
        rank = len(self.types[value].shape)
        order = tuple(range(rank))
        while value not in self.outputs and value not in self.owner:
            readers = self.readers.get(value, ())
            if len(readers) != 1 or not isinstance(readers[0], Defined):
                return None
            reader = readers[0]
            if reader.node.op in VIEWS:
                return order if order != tuple(range(rank)) and order[-1] == rank - 1 else None
            places = permutation(reader.compute)
            if places is None or reader.value not in self.groups:
                return None
            value, order = reader.value, tuple(order[place] for place in places)
        return None

    def order_of_operand(self, group: Group) -> tuple[int, ...] | None:
        """The order in which the first operand as large as the value lies in memory."""
        for load in loads(group.compute.value):
            if load.buffer in self.views and load.buffer not in self.program.constants:
                steps = walked(load, group.compute, self.views[load.buffer])
                if steps is not None:
                    return order_of(steps, group.type.dims)
        return None

    # --- items ------------------------------------------------------------------------

    def run(self) -> Storage:
        for value in self.program.graph.inputs:
            self.add_root(value, Region.STATE if value in self.states else Region.INPUT)
        for value in self.program.constants:
            self.add_root(value, Region.WEIGHTS)
        for item in self.program.items:
            match item:
                case Defined():
                    if item.value in self.groups:
                        self.place_group(self.groups[item.value], item)
                case Assembled():
                    self.view_to_write(item.value, None)
                    self.ready[item.value] = self.all_ready(item.parts)
                case Opaque():
                    self.place_opaque(item)
        self.copy_states()
        self.hand_out()
        return Storage(
            self.views, self.roots, tuple(self.steps), self.ready, self.types, self.states
        )

    def add_step(self, step: Group | Opaque, values: Sequence[str]) -> None:
        for value in values:
            self.ready[value] = frozenset((len(self.steps),))
        self.steps.append(step)

    def all_ready(self, values: Sequence[str]) -> frozenset[int]:
        return frozenset[int]().union(*(self.ready.get(value, frozenset()) for value in values))

    def place_group(self, group: Group, item: Defined) -> None:
        if group.type.size == 0:
            self.view_to_write(group.value, None)
            self.ready[group.value] = frozenset()
            return
        if group.value in self.views:  # what it reshapes was written there
            self.ready[group.value] = self.all_ready(group.reads)
            return
        view = self.free_view(group, item)
        if view is not None and self.may_view(group, view):
            self.views[group.value] = view
            self.ready[group.value] = self.all_ready(group.reads)
            return
        group = self.with_channels_last(group, item)
        order = self.order_for(group)
        exposed = group.value in self.outputs or group.value in self.handed
        if exposed and is_spatial(group) and order != tuple(range(len(order))):
            # The caller wants channels first; the kernel wants to write channels last.
            hidden = self.fresh(f"{group.value}_channels_last")
            self.types[hidden] = group.type
            self.view_to_write(hidden, order)
            self.add_step(replace(group, value=hidden), (hidden,))
            copy = copy_of(group.value, hidden, group.type, _reorder(item.node))
            group = Group(group.value, copy.compute, group.type, (group.value,), (copy.node,))
        self.view_to_write(group.value, self.order_for(group))
        self.add_step(group, (group.value,))

    def with_channels_last(self, group: Group, item: Defined) -> Group:
        """The group of a window over channels that lie apart, reading copies where they do not.

        Every element is read for several windows, so putting the channels side by side once
        costs less than vectors gathered for each of them.
        """
        if not is_spatial(group) or len(group.type.shape) < 3:
            return group
        channel = group.compute.axes[channels_of(group)]
        apart = {
            load.buffer: place
            for load in (*repeated(group.compute.value), *gathered(group.compute.value))
            if channel.extent > 1
            for place, part in enumerate(load.index)
            if part == Var(channel.var) and self.views[load.buffer].strides[place] > 1
        }
        names = {
            value: self.turned_copy(value, place, item)
            for value, place in apart.items()
            if value not in self.program.constants
        }
        if not names:
            return group
        value = rename_loads(group.compute.value, names)
        return replace(group, compute=replace(group.compute, value=value))

    def turned_copy(self, source: str, last: int, item: Defined) -> str:
        """A copy of a value with one dimension fastest, the same one for all who want it."""
        rank = len(self.types[source].shape)
        order = (*(axis for axis in range(rank) if axis != last), last)
        found = self.turned.get((source, order))
        if found is None:
            found = self.add_copy(f"{source}_channels_last", source, item, order)
            self.turned[source, order] = found
        return found

    def free_view(self, group: Group, item: Defined) -> StridedView | None:
        """A view that makes computing the group unnecessary, if there is one."""
        if group.value in self.kept or group.value in self.owner:
            return None
        if len(group.members) == 1 and item.node.op in VIEWS:
            source = item.node.inputs[0]
            view = self.views[source]
            strides = reshaped(self.types[source].dims, view.strides, group.type.dims)
            return None if strides is None else StridedView(view.root, view.offset, strides)
        load = moved_from(group.compute)
        if load is None:
            return None
        view = moved(self.views[load.buffer], load, group.compute.axes)
        # Buffers walk forwards only; what runs backwards is copied.
        return None if any(stride < 0 for stride in view.strides) else view

    def may_view(self, group: Group, view: StridedView) -> bool:
        """Whether every contraction that uses the value can read it fast as it would lie."""
        self.views[group.value] = view
        slow = any(self.is_slow(user, group.value) for user in self.contractions(group.value))
        del self.views[group.value]
        return not slow

    def contractions(self, value: str) -> list[Group]:
        """The groups whose sum of products reads a value."""
        return self.multiplied.get(value, [])

    def is_slow(self, user: Group, value: str) -> bool:
        """Whether the value would be read with gaps along the vector dimension."""
        reduce = contraction(user.compute.value)
        if reduce is None:
            return False
        strides = vector_strides(reduce, user.compute, self.order_for(user), self.views)
        return strides.get(value, 0) not in (0, 1)

    def place_opaque(self, item: Opaque) -> None:
        inputs: list[str] = []
        for value in item.node.inputs:
            inputs.append(self.packed_copy(value, item) if value else "")
        outputs = tuple(value for value in item.node.outputs if value)
        for value in outputs:
            self.view_to_write(value, None)
        self.add_step(replace(item, node=replace(item.node, inputs=tuple(inputs))), outputs)

    def packed_copy(self, value: str, item: Opaque) -> str:
        """The value itself where it lies packed in row-major order, else such a copy."""
        view, shape = self.views[value], self.types[value].dims
        expected = row_major(shape)
        if all(
            extent == 1 or have == want
            for have, want, extent in zip(view.strides, expected, shape, strict=True)
        ):
            return value
        return self.add_copy(f"{value}_packed", value, item)

    def add_copy(
        self,
        wish: str,
        source: str,
        item: Item,
        order: Sequence[int] | None = None,
        region: Region = Region.ARENA,
    ) -> str:
        name = self.fresh(wish)
        self.types[name] = self.types[source]
        copy = copy_of(name, source, self.types[source], _reorder(item.node))
        self.add_root(name, region, order)
        group = Group(name, copy.compute, self.types[source], (name,), (copy.node,))
        self.add_step(group, (name,))
        return name

    def fresh(self, wish: str) -> str:
        """A value name that nobody has."""
        return fresh(wish, self.types)

    def copy_states(self) -> None:
        """Copies the states that cannot be written in place."""
        inputs = {output: value for value, output in self.states.items()}
        for item in self.program.items:
            made = item.node.outputs if isinstance(item, Opaque) else (item.value,)
            for value in made:
                if value in self.copied:
                    name = self.add_copy(f"{value}_next", value, item, region=Region.STATE)
                    self.states[inputs[value]] = name

    def hand_out(self) -> None:
        """Checks that every graph output lies where the caller wants it."""
        for value in self.program.graph.outputs:
            if value in self.copied:
                continue
            root = self.roots.get(value)
            if root is None or root.region not in (Region.OUTPUT, Region.STATE):
                raise InternalError(f"output {value} is not in memory of its own")


def assign(
    program: TensorProgram,
    groups: Mapping[str, Group],
    *,
    spread: bool = False,
    states: Mapping[str, str] | None = None,
    copied: Container[str] = (),
) -> Storage:
    """Gives every materialised value a place.

    Args:
        program: the graph as definitions.
        groups: what is computed together.
        spread: leave gaps after rows that would share places of a cache.
        states: by input, the output that takes its memory.
        copied: such outputs that are computed elsewhere and copied there.
    """
    values = spreadable(program, groups) if spread else frozenset[str]()
    return _Storage(program, groups, values, states or {}, copied).run()
