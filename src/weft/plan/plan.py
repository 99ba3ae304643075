"""Plan: everything decided, ready to be written as code.

``make`` goes straight down: definitions, groups, storage, kernels, order, memory, program.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.loops.hoist import hoist
from weft.loops.nodes import Reduce
from weft.loops.walk import loads, walk
from weft.ops.control import ScanAttributes
from weft.ops.evaluate import call_of
from weft.ops.expand import expand
from weft.ops.record import Extern, ExternBody, Op
from weft.plan import liveness, memory, order
from weft.plan.attention import attention_of
from weft.plan.chain import Fuse, fused
from weft.plan.group import Group, form
from weft.plan.implementation import Implement, Implementation
from weft.plan.program import Region
from weft.plan.storage import Root, Storage, assign
from weft.plan.strides import View
from weft.plan.tensors import Opaque, is_point, only_used, own_outputs, tensor_program
from weft.screen import COLUMNS, Screen, Shown, cut, several, some
from weft.targets.target import DESKTOP, Costs

ALIGNMENT = 64


@dataclass(frozen=True, repr=False)
class PlannedStep:
    """One step of a plan.

    Attributes:
        work: the group, or the node that is run as a whole.
        implementation: of a group; ``None`` for the others.
        body: the C body of an extern node.
        nested: the plan of a control-flow node's body.
        in_place: the root whose memory the result takes, if it does.
        scratch: bytes of arena that the step needs while it runs.
    """

    work: Group | Opaque
    implementation: Implementation | None = None
    body: ExternBody | None = None
    nested: Plan | None = None
    in_place: str = ""
    scratch: int = 0

    @property
    def reads(self) -> tuple[str, ...]:
        """Values that it reads."""
        return self.work.reads

    @property
    def writes(self) -> tuple[str, ...]:
        """Values that it makes."""
        if isinstance(self.work, Group):
            return (self.work.value,)
        return tuple(value for value in self.work.node.outputs if value)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that it computes."""
        return self.work.nodes if isinstance(self.work, Group) else (self.work.node,)

    @property
    def scheme(self) -> str:
        """What generates its loops; ``extern`` for a C body, ``scan`` for a nested plan."""
        if self.implementation is not None:
            return self.implementation.scheme
        return "extern" if self.nested is None else "scan"

    def __repr__(self) -> str:
        ops = some((node.op for node in self.nodes), 4)
        return cut(f"PlannedStep({ops} by {self.scheme} -> {some(self.writes, 2)})", COLUMNS)


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """The hardware-adapted graph.

    Attributes:
        graph: what is computed.
        steps: in order of execution.
        views: where every value lies in its root; roots: whose memory there is.
        offsets: arena offsets of the arena roots, in bytes.
        scratch: arena offsets of the steps' scratch memory, by step.
        arena_bytes: size of the arena; lower_bound: what no placement could beat.
        types: of all values, those that the plan added included.
        method: what found the offsets: ``greedy``, ``repaired``, or ``solver`` where one was used
            for the arena or within a step.
        threads: that there is scratch memory for.
        costs: of the machine; of the whole network's plan.
    """

    graph: Graph
    steps: tuple[PlannedStep, ...]
    views: Mapping[str, View]
    roots: Mapping[str, Root]
    offsets: Mapping[str, int]
    scratch: Mapping[int, int]
    arena_bytes: int
    lower_bound: int
    types: Mapping[str, TensorType]
    intervals: tuple[memory.Interval, ...] = ()
    method: str = ""
    threads: int = 1
    costs: Costs = DESKTOP

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        title = (
            f"Plan of {self.graph.name}: {several(len(self.steps), 'step')}, arena "
            f"{self.arena_bytes:,} bytes (lower bound {self.lower_bound:,}), "
            f"{several(self.threads, 'thread')}"
        )
        rows = [
            (
                str(number),
                " + ".join(node.op for node in step.nodes),
                step.scheme,
                ", ".join(f"{value} {self.types[value]}" for value in step.writes),
            )
            for number, step in enumerate(self.steps)
        ]
        return Screen(title, (), ("step", "does", "scheme", "writes"), rows, (0,))


def make(
    graph: Graph,
    ops: Mapping[str, Op],
    implement: Implement,
    threads: int = 1,
    *,
    spread: bool = False,
    fuse: Fuse | None = None,
) -> Plan:
    """The plan of a static graph without composite ops.

    Args:
        graph: what to compute.
        ops: the op table.
        implement: makes a kernel for a group.
        threads: that may run parts of a kernel at once, each with scratch memory of its own.
        spread: leave gaps after rows that would share places of a cache.
        fuse: says which groups in a row run together by bands of rows; by default none.

    Raises:
        UserError: the graph has a symbolic dimension.
    """
    symbolic = [name for name in graph.inputs if not graph.types[name].is_static]
    if symbolic:
        raise UserError(
            "every dimension must be known before planning",
            got=", ".join(f"{name} {graph.types[name]}" for name in symbolic),
            fix=f"Give it with --input {symbolic[0]}=SHAPE",
        )
    graph = own_outputs(only_used(graph))
    program = tensor_program(graph, ops)
    storage = assign(program, form(program), spread=spread)
    made: Mapping[int, Implementation] = {}
    if fuse is not None:
        storage, made = fused(storage, fuse, graph.constants)
    return _Planner(graph, ops, implement, storage, threads, spread, fuse, made).plan()


@dataclass
class _Planner:
    graph: Graph
    ops: Mapping[str, Op]
    implement: Implement
    storage: Storage
    threads: int
    spread: bool
    fuse: Fuse | None
    made: Mapping[int, Implementation]

    def plan(self) -> Plan:
        steps = [self.step(place, work) for place, work in enumerate(self.storage.steps)]
        raw = [self.order_step(step) for step in steps]
        sizes = {
            name: root.bytes
            for name, root in self.storage.roots.items()
            if root.region is Region.ARENA
        }
        sequence = order.best_order(raw, sizes)
        lives = liveness.lifetimes(sequence, raw, sizes)
        placed = memory.place(lives.intervals, ALIGNMENT)
        inner = [step.nested.method for step in steps if step.nested]
        return Plan(
            graph=self.graph,
            steps=tuple(
                replace(steps[number], in_place=_taken(raw[number], lives)) for number in sequence
            ),
            views=self.storage.views,
            roots=self.storage.roots,
            offsets={root: placed.offsets[home] for root, home in lives.home.items()},
            scratch={
                place: placed.offsets[lives.scratch[number]]
                for place, number in enumerate(sequence)
                if number in lives.scratch
            },
            arena_bytes=placed.bytes,
            lower_bound=placed.lower_bound,
            types=self.storage.types,
            intervals=lives.intervals,
            method="solver" if "solver" in inner else placed.method,
            threads=self.threads,
        )

    def step(self, place: int, work: Group | Opaque) -> PlannedStep:
        if isinstance(work, Group):
            made = self.implementation(place, work)
            if made.outside is not None:
                scratch = made.outside.body.scratch_bytes
                return PlannedStep(work, implementation=made, scratch=scratch)
            hoisted = hoist(made.kernel, ALIGNMENT)
            made = replace(made, kernel=hoisted.kernel, scratch=hoisted.offsets)
            return PlannedStep(work, implementation=made, scratch=hoisted.bytes * self.threads)
        compute = self.ops[work.node.op].compute
        if isinstance(compute, Extern):
            body = compute.function(call_of(work.node, self.storage.types))
            return PlannedStep(work, body=body, scratch=body.scratch_bytes)
        attributes: ScanAttributes = work.node.attributes
        body = expand(attributes.body, self.ops)
        nested = make(
            body, self.ops, self.implement, self.threads, spread=self.spread, fuse=self.fuse
        )
        states = attributes.num_states
        carried = sum(
            memory.aligned(nested.types[value].bytes, ALIGNMENT)
            for value in (*nested.graph.inputs[:states], *nested.graph.outputs)
        )
        return PlannedStep(work, nested=nested, scratch=nested.arena_bytes + carried)

    def implementation(self, place: int, group: Group) -> Implementation:
        name, found = function_name(group), self.made.get(place)
        if found is not None:
            return replace(found, kernel=replace(found.kernel, name=name))
        storage = self.storage
        return self.implement(name, group, storage.views, storage.types, self.graph.constants)

    def order_step(self, step: PlannedStep) -> liveness.Step:
        before = frozenset[int]().union(
            *(self.storage.ready.get(value, frozenset()) for value in step.reads)
        )
        return liveness.Step(
            before=before,
            reads=self.arena_roots(step.reads),
            writes=self.arena_roots(step.writes),
            in_place=tuple(self.in_place(step)),
            scratch=memory.aligned(step.scratch, ALIGNMENT),
        )

    def arena_roots(self, values: Iterable[str]) -> tuple[str, ...]:
        roots = dict.fromkeys(self.storage.views[value].root for value in values)
        return tuple(root for root in roots if self.storage.roots[root].region is Region.ARENA)

    def in_place(self, step: PlannedStep) -> Iterator[tuple[str, str]]:
        """Which operands' memory the result could take: those read point by point."""
        made = step.implementation
        if not isinstance(step.work, Group) or (made is not None and made.outside is not None):
            return
        views, roots, group = self.storage.views, self.storage.roots, step.work
        view, root = views[group.value], roots.get(group.value)
        if root is None or root.region is not Region.ARENA:
            return
        owners = Counter(views[value].root for value in group.reads)
        for value in group.reads:
            source = views[value]
            if owners[source.root] > 1:
                continue
            whole = roots[source.root].bytes == root.bytes and source.offset == 0
            if (
                whole
                and roots[source.root].region is Region.ARENA
                and _same_place(source, view, group)
                and self.storage.types[value].dtype is group.type.dtype
                and _pointwise(group, value)
            ):
                yield root.value, source.root


def _taken(step: liveness.Step, lives: liveness.Lifetimes) -> str:
    """The root whose memory the result of a step takes, if it takes any."""
    for made, source in step.in_place:
        if made != lives.home[made] == lives.home[source]:
            return source
    return ""


def _same_place(source: View, view: View, group: Group) -> bool:
    """Whether both walk their memory alike."""
    return len(source.strides) == len(view.strides) and all(
        extent == 1 or a == b
        for a, b, extent in zip(source.strides, view.strides, group.type.dims, strict=True)
    )


def _pointwise(group: Group, value: str) -> bool:
    """Whether every element is only read where, and just before, its place is written."""
    inside = {
        load.buffer
        for node in walk(group.compute.value)
        if isinstance(node, Reduce)
        for load in loads(node.value)
    }
    return value not in inside and all(
        is_point(load, group.compute.axes)
        for load in loads(group.compute.value)
        if load.buffer == value
    )


def function_name(group: Group) -> str:
    """A C identifier that says what a group does: ``conv_add_relu``."""
    if attention_of(group.compute) is not None:
        return "attention"
    found = dict.fromkeys(words(node.op) for node in group.nodes)
    return "_".join(found)[:40].rstrip("_")


def words(op: str) -> str:
    """An op's name as a C identifier: ``MaxPool`` becomes ``max_pool``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op).lower()
