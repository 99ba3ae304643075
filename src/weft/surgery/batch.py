"""Another batch for a graph whose ops keep the members of a batch apart.

The place of the batch is followed through every value (``weft.surgery.members``), so sizes in
attributes and constants that hold the old batch are told from those that only look like it.
Where a batch of 1 left no trace, the places that it may have had are tried, the most natural
first; what decides is that all ops behind it keep the members apart.  A failure goes back to the
latest choice that had a part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from dataclasses import replace as changed
from typing import Any, TypeAlias

from weft.cached import cached_property
from weft.errors import UserError
from weft.ir.edit import prune
from weft.ir.graph import Graph, Node
from weft.ir.naming import fresh
from weft.ir.order import topological
from weft.ir.types import TensorType
from weft.ops.evaluate import call_of
from weft.ops.shape import VIEWS
from weft.ops.table import OPS
from weft.records import dataclass
from weft.surgery.members import MemberAt, MemberPlace, carried, placed
from weft.surgery.reorder import choices, view
from weft.surgery.repeats import Batch, RepeatedValue
from weft.surgery.stretch import needed

Mend: TypeAlias = Callable[[Node, Node, Mapping[str, TensorType]], Any]
"""``mend(before, node, types)``: a node's attributes, sizes in them mended for other types."""
_FAILURES = 500


def batch_of(graph: Graph, types: Mapping[str, TensorType]) -> Batch | None:
    """The batch that new types of inputs change, and perhaps other sizes with it."""
    axes: dict[str, int] = {}
    sizes: set[tuple[int, int]] = set()
    for name, type in types.items():
        old = graph.types[name]
        if not (type.is_static and old.is_static):
            return None
        differing = [n for n, dim in enumerate(type.dims) if dim != old.dims[n]]
        if not differing:
            continue
        if differing[0] and len(differing) > 1:
            return None
        axes[name] = differing[0]
        sizes.add((old.dims[differing[0]], type.dims[differing[0]]))
    if len(sizes) != 1 or any(not t.is_static or 0 in t.dims for t in graph.types.values()):
        return None
    ((before, after),) = sizes
    return Batch(before, after, axes)


def with_batch(graph: Graph, batch: Batch, mend: Mend) -> Graph:
    """The graph for another batch, each of whose members is computed as it was.

    Args:
        graph: of static types.
        batch: what changes.
        mend: gives attributes of nodes for inputs of other types.

    Raises:
        UserError: an op does not keep the members apart, or that cannot be told.
    """
    return _Search(graph, batch, mend).found()


@dataclass
class _Choice:
    """A view whose members may stand at several places.

    Attributes:
        index: of its node.
        left: places not tried yet.
        blamed: choices that had a part in the failures of those that were.
    """

    index: int
    left: list[MemberPlace]
    blamed: set[int]


@dataclass
class _Search:
    """A graph under way to another batch; ``made`` holds what stands for each node so far."""

    graph: Graph
    batch: Batch
    mend: Mend
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    before: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    places: dict[str, MemberPlace] = field(default_factory=dict[str, MemberPlace])
    blame: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    made: list[tuple[Node, ...]] = field(default_factory=list[tuple[Node, ...]])
    choices: list[_Choice] = field(default_factory=list[_Choice])

    @cached_property
    def fixed(self) -> RepeatedValue:
        """Values that no graph input has a part in."""
        return RepeatedValue(self.graph, self.batch, self._fresh)

    def found(self) -> Graph:
        """The graph."""
        self._start()
        first: UserError | None = None
        failures = 0
        option: MemberPlace | None = None
        while len(self.made) <= len(self.graph.nodes):
            index = len(self.made)
            try:
                if index == len(self.graph.nodes):
                    self._check_outputs()
                    break
                self.made.append(self._step(index, option))
                option = None
            except UserError as error:
                first, failures = first or error, failures + 1
                option = self._back(self._guilty(index)) if failures < _FAILURES else None
                if option is None:
                    raise first from None
        return self._graph()

    def _start(self) -> None:
        graph = self.graph
        self.types.update(graph.types)
        self.before.update(graph.types)
        for name, axis in self.batch.axes.items():
            self.places[name] = MemberPlace(axis, 1)
            self.types[name] = self.batch.grown(graph.types[name], self.places[name])
            self.blame[name] = frozenset()

    def _graph(self) -> Graph:
        nodes = topological([*self.fixed.nodes, *(node for each in self.made for node in each)])
        known = {*self.graph.inputs, *(value for node in nodes for value in node.outputs)}
        constants = {**self.graph.constants, **self.fixed.constants}
        types = {v: t for v, t in self.types.items() if v in known or v in constants}
        done = changed(self.graph, nodes=tuple(nodes), types=types, constants=constants)
        return prune(done) if self.fixed.nodes or self.fixed.constants else done

    # --- the search ---------------------------------------------------------------------------

    def _guilty(self, index: int) -> set[int]:
        """Choices that had a part in what a node, or the graph's outputs, are given."""
        at_end = index == len(self.graph.nodes)
        read = self.graph.outputs if at_end else self.graph.nodes[index].inputs
        found: set[int] = {index}
        return found.union(*(self.blame.get(value, frozenset()) for value in read))

    def _back(self, guilty: set[int]) -> MemberPlace | None:
        """Back to the latest choice with a part in a failure: what to try there now."""
        while self.choices:
            choice = self.choices[-1]
            if choice.index in guilty:
                choice.blamed |= guilty
                if choice.left:
                    del self.made[choice.index :]
                    return choice.left.pop(0)
                guilty = choice.blamed - {choice.index}
            self.choices.pop()
        return None

    def _step(self, index: int, option: MemberPlace | None) -> tuple[Node, ...]:
        node = self.graph.nodes[index]
        for value in node.outputs:
            self.places.pop(value, None)
            self.types.pop(value, None)
        read = [value for value in node.inputs if value in self.places]
        if not read:
            self.types.update({v: self.graph.types[v] for v in node.outputs if v})
            return (node,)
        blame = frozenset[int]().union(*(self.blame[value] for value in read))
        if node.op in VIEWS:
            made, choosing = self._viewed(index, node, option)
            blame |= {index} if choosing else frozenset()
        else:
            made = (self._gathered(node) or self._plain(node),)
        self.blame.update(dict.fromkeys(node.outputs, blame))
        return made

    def _check_outputs(self) -> None:
        for value in self.graph.outputs:
            place = self.places.get(value)
            if place is None or self.batch.old > 1:
                continue
            if place.inner != 1 or self.graph.types[value].dims[place.axis] != 1:
                raise UserError(
                    f"shapes: output {value} has no axis for the batch",
                    got=str(self.graph.types[value]),
                )

    # --- views --------------------------------------------------------------------------------

    def _viewed(
        self, index: int, node: Node, option: MemberPlace | None
    ) -> tuple[tuple[Node, ...], bool]:
        (source, *_), (target, *_) = node.inputs, node.outputs
        behind = self.places[source].behind(self.types[source].dims)
        places = self._options(node, self.graph.types[target].dims, behind)
        if not places:
            raise self._at(node).refuse("the batch would be split")
        if option is None:
            option = places[0]
            if len(places) > 1:
                self.choices.append(_Choice(index, places[1:], set()))
        made = self.batch.grown(self.graph.types[target], option)
        given = (self.types[source], self.places[source])
        steps = [(node, made)]
        if behind != option.behind(made.dims) or self._infers(node) != made:
            steps = view(node, given, (made, option), self.batch.new, self._fresh)
        self.types.update({step.outputs[0]: type for step, type in steps})
        self.places[target] = option
        return tuple(step for step, _ in steps), len(places) > 1

    def _options(self, node: Node, dims: tuple[int, ...], behind: int) -> list[MemberPlace]:
        """Where the members may stand in what a view makes."""
        if self.batch.old > 1:
            only = placed(dims, behind, self.batch.old)
            return [] if only is None else [only]
        found = choices(dims, behind)
        # What the node says of itself comes first: Unsqueeze names its axis.
        own = self._infers(node)
        place = None if own is None else placed(own.dims, behind, self.batch.new)
        if (
            own is not None
            and place is not None
            and place in found
            and self.batch.grown(self.graph.types[node.outputs[0]], place) == own
        ):
            found.remove(place)
            found.insert(0, place)
        return found

    def _infers(self, node: Node) -> TensorType | None:
        try:
            return OPS[node.op].infer(call_of(node, self.types))[0]
        except UserError:
            return None

    # --- other nodes --------------------------------------------------------------------------

    def _at(self, node: Node) -> MemberAt:
        """A node as it is asked where members go: with whichever batch is at least 2."""
        alike = {v for v in node.inputs if node.op == "Scan" and self.fixed.is_alike(v)}
        if self.batch.new > 1:
            return MemberAt(node, self.types, self.batch.new, self.places, alike)
        return MemberAt(node, self.before, self.batch.old, self.places, alike)

    def _plain(self, node: Node) -> Node:
        """The node, with constants that hold the old batch repeated for the new."""
        first: UserError | None = None
        for inputs in self._operands(node):
            try:
                return self._settled(node, changed(node, inputs=inputs))
            except UserError as error:
                first = first or error
        assert first is not None
        raise first

    def _settled(self, node: Node, wide: Node) -> Node:
        attributes = self.mend(node, wide, self.types)
        now = changed(wide, attributes=attributes)
        made = OPS[node.op].infer(call_of(now, self.types))
        types = {v: t for v, t in zip(node.outputs, made, strict=False) if v}
        self.types.update(types)
        found = carried(self._at(now if self.batch.new > 1 else wide))
        for value, type in types.items():
            old, place = self.graph.types[value], found.get(value)
            if type != (old if place is None else self.batch.grown(old, place)):
                raise self._at(wide).refuse("what it makes depends on the size of the batch")
        self.places.update(found)
        return now

    def _operands(self, node: Node) -> Iterator[tuple[str, ...]]:
        """The node's inputs, as they are and with constants repeated."""
        yield node.inputs
        given = [self.types[value] if value else None for value in node.inputs]
        places: dict[int, MemberPlace] = {}
        for n, shape in needed(node.op, node.attributes, given).items():
            old = self.types[node.inputs[n]].dims
            differing = [axis for axis, dim in enumerate(shape) if old[axis] != dim]
            if node.inputs[n] in self.fixed.names and len(differing) == 1:
                places[n] = MemberPlace(differing[0], 1)
        if places:
            yield self._repeated(node, places)
        places = self._aligned(node)
        if places:
            yield self._repeated(node, places)

    def _aligned(self, node: Node) -> dict[int, MemberPlace]:
        """Where fixed inputs, aligned at the right, are as long as the axis of the batch."""
        carrier = next(value for value in node.inputs if value in self.places)
        place, dims = self.places[carrier], self.graph.types[carrier].dims
        from_end = len(dims) - place.axis
        found: dict[int, MemberPlace] = {}
        for n, value in enumerate(node.inputs):
            if value not in self.fixed.names or value in self.places:
                continue
            shape = self.types[value].dims
            axis = len(shape) - from_end
            if axis >= 0 and shape[axis] == dims[place.axis]:
                found[n] = MemberPlace(axis, place.inner)
        return found

    def _repeated(self, node: Node, places: Mapping[int, MemberPlace]) -> tuple[str, ...]:
        inputs = list(node.inputs)
        for n, place in places.items():
            old = self.graph.types[inputs[n]]
            name = inputs[n] = self.fixed.repeat(inputs[n], place)
            self.types[name], self.before[name] = self.batch.grown(old, place), old
            self.places[name], self.blame[name] = place, frozenset()
        return tuple(inputs)

    def _gathered(self, node: Node) -> Node | None:
        """A gather by fixed positions along the axis of the batch: those of every member."""
        if node.op != "Gather":
            return None
        (data, positions), (target, *_) = node.inputs, node.outputs
        place, dims = self.places.get(data), self.graph.types[data].dims
        axis: int = node.attributes.axis % len(dims)
        if place is None or place.axis != axis or positions not in self.fixed.names:
            return None
        found = self.fixed.picks(positions, place, dims[axis])
        if found is None:
            return None
        name, own = found
        self.types[name] = self.batch.grown(self.graph.types[positions], MemberPlace(own, 1))
        self.places[target] = MemberPlace(axis + own, 1)
        self.types[target] = self.batch.grown(self.graph.types[target], self.places[target])
        return changed(node, inputs=(data, name))

    def _fresh(self, wish: str) -> str:
        nodes = (node for each in self.made for node in each)
        names = {name for node in nodes for name in (node.name, *node.outputs)}
        return fresh(wish, {*self.graph.by_name, *self.graph.types, *self.types, *names})
