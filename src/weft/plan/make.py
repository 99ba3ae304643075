"""Makes plans.

``make`` goes straight down: definitions, groups, storage, kernels, order, memory, program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

from weft.cached import cached_property
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.loops.hoist import LEAST_BYTES, Hoisted, hoist
from weft.loops.nodes import Kernel
from weft.ops.control import ScanAttributes
from weft.ops.evaluate import call_of
from weft.ops.expand import expand
from weft.ops.record import Extern, Op
from weft.plan import liveness, memory, order
from weft.plan.attention import attention_of
from weft.plan.chain import Fuse, fused
from weft.plan.donation import Donation, donate
from weft.plan.fusion import Group, form
from weft.plan.implementation import Implement, Implementation
from weft.plan.in_place import candidates
from weft.plan.plan import ALIGNMENT, InPlace, Plan, PlannedStep
from weft.plan.program import Region
from weft.plan.regions import place_in
from weft.plan.storage import Storage, assign
from weft.plan.tensors import Opaque, as_planned, tensor_program
from weft.plan.traffic import carried
from weft.records import dataclass
from weft.targets.target import Memory


class Decide(Protocol):
    """What is decided of a plan: by a search, or by its text (``weft.plan.given``)."""

    @property
    def kernel(self) -> Implement:
        """Makes the kernel of a group."""
        ...

    @property
    def stack_limit(self) -> int:
        """Locals of kernels of so many bytes lie in the arena."""
        ...

    @property
    def fuse(self) -> Fuse | None:
        """Says which groups in a row run together."""
        ...

    def inside(self, work: Opaque) -> Decide:
        """The decisions for the body of a loop."""
        ...

    def order(
        self,
        steps: Sequence[PlannedStep],
        raw: Sequence[liveness.MemoryStep],
        sizes: Mapping[str, int],
    ) -> list[int]:
        """The order of execution, as indices of the steps."""
        ...

    def in_place(self, step: PlannedStep, possible: InPlace) -> InPlace:
        """Which of the possible pairs of a result and an operand may share memory."""
        ...

    def place(
        self,
        storage: Storage,
        steps: Sequence[PlannedStep],
        lives: liveness.Lifetimes,
        scratch: Mapping[int, str],
    ) -> memory.Placement:
        """Offsets of everything that is live for a while; ``scratch`` names that of steps."""
        ...


@dataclass(frozen=True)
class SearchedDecisions:
    """Decisions by estimates and searches."""

    kernel: Implement
    fuse: Fuse | None = None
    regions: Sequence[Memory] = ()
    stack_limit: int = LEAST_BYTES

    def inside(self, work: Opaque) -> SearchedDecisions:
        """The same for the body of a loop, whose arena is scratch memory of a step."""
        del work
        return replace(self, regions=())

    def order(
        self,
        steps: Sequence[PlannedStep],
        raw: Sequence[liveness.MemoryStep],
        sizes: Mapping[str, int],
    ) -> list[int]:
        """The order that needs the least memory of those that were found."""
        del steps
        return order.best_order(raw, sizes)

    def in_place(self, step: PlannedStep, possible: InPlace) -> InPlace:
        """All."""
        del step
        return possible

    def place(
        self,
        storage: Storage,
        steps: Sequence[PlannedStep],
        lives: liveness.Lifetimes,
        scratch: Mapping[int, str],
    ) -> memory.Placement:
        """The smallest arena that was found; in regions, the one with least traffic far away."""
        if not self.regions:
            return memory.place(lives.intervals, ALIGNMENT)
        sums: dict[str, int] = {}
        for name, size in carried(steps, storage, scratch).items():
            home = lives.home.get(name, name)
            sums[home] = sums.get(home, 0) + size
        told = [" + ".join(node.op for node in step.nodes) for step in steps]
        return place_in(lives.intervals, sums, self.regions, ALIGNMENT, told)


def make(
    graph: Graph,
    ops: Mapping[str, Op],
    implement: Implement,
    threads: int = 1,
    *,
    spread: bool = False,
    fuse: Fuse | None = None,
    states: Mapping[str, int] | None = None,
    regions: Sequence[Memory] = (),
    stack_limit: int = LEAST_BYTES,
) -> Plan:
    """The plan of a static graph without composite ops.

    Args:
        graph: what to compute.
        ops: the op table.
        implement: makes a kernel for a group.
        threads: that may run parts of a kernel at once, each with scratch memory of its own.
        spread: leave gaps after rows that would share places of a cache.
        fuse: says which groups in a row run together by bands of rows; by default none.
        states: by input, the place among the outputs of the one that takes its memory.
        regions: memories that the arena is in, with their sizes, the nearest first; by default
            one of any size.
        stack_limit: locals of kernels of so many bytes lie in the arena.

    Raises:
        UserError: the graph has a symbolic dimension, or the regions are too small.
    """
    decide = SearchedDecisions(implement, fuse, regions, stack_limit)
    return planned(graph, ops, decide, threads, spread=spread, states=states)


def planned(
    graph: Graph,
    ops: Mapping[str, Op],
    decide: Decide,
    threads: int,
    *,
    spread: bool,
    states: Mapping[str, int] | None = None,
    repeated: bool = False,
) -> Plan:
    """The plan of a graph by decisions that are searched for or given; see ``make``.

    With ``repeated``, it is the body of a loop whose iterations are steps in time.
    """
    symbolic = [name for name in graph.inputs if not graph.types[name].is_static]
    if symbolic:
        raise UserError(
            "every dimension must be known before planning",
            got=", ".join(f"{name} {graph.types[name]}" for name in symbolic),
            fix=f"Give it with --input {symbolic[0]}=SHAPE",
        )
    graph = as_planned(graph)
    program = tensor_program(graph, ops)
    groups = form(program, repeated=repeated)
    pairs = {value: graph.outputs[place] for value, place in (states or {}).items()}
    copied: frozenset[str] = frozenset()
    while True:
        storage = assign(program, groups, spread=spread, states=pairs, copied=copied)
        made: Mapping[int, Implementation] = {}
        if decide.fuse is not None:
            storage, made = fused(storage, decide.fuse, graph.constants)
        donation, refused = donate(storage, made)
        planner = _Planner(graph, ops, decide, donation, threads, spread, pairs)
        refused = refused or planner.unable
        if not refused:
            return planner.plan()
        copied |= refused


@dataclass
class _Planner:
    graph: Graph
    ops: Mapping[str, Op]
    decide: Decide
    donation: Donation
    threads: int
    spread: bool
    states: Mapping[str, str]
    bodies: dict[int, tuple[Kernel, Hoisted]] = field(
        default_factory=dict[int, tuple[Kernel, Hoisted]]
    )

    @property
    def storage(self) -> Storage:
        return self.donation.storage

    @cached_property
    def steps(self) -> list[PlannedStep]:
        return [self.step(place, work) for place, work in enumerate(self.storage.steps)]

    @property
    def unable(self) -> frozenset[str]:
        """States that a kernel cannot overwrite although its definition would allow it."""
        return frozenset(
            value
            for place in self.donation.in_place
            if (made := self.steps[place].implementation) and made.outside is not None
            for value in self.steps[place].writes
        )

    def state_offsets(self) -> dict[str, int]:
        """Places of the old and the new values of states, the same for both."""
        found: dict[str, int] = {}
        free = 0
        for old, new in self.storage.states.items():
            found[old] = found[new] = free
            free += memory.aligned(self.storage.types[old].bytes, ALIGNMENT)
        return found

    def plan(self) -> Plan:
        steps = self.steps
        raw = [self.order_step(place, step) for place, step in enumerate(steps)]
        sizes = {
            name: root.bytes
            for name, root in self.storage.roots.items()
            if root.region is Region.ARENA
        }
        sequence = self.decide.order(steps, raw, sizes)
        lives = liveness.lifetimes(sequence, raw, sizes)
        donated = self.donation.in_place
        steps = [
            replace(steps[number], in_place=donated.get(number) or _taken(raw[number], lives))
            for number in sequence
        ]
        scratch = {
            place: lives.scratch[number]
            for place, number in enumerate(sequence)
            if number in lives.scratch
        }
        placed = self.decide.place(self.storage, steps, lives, scratch)
        inner = [step.nested.method for step in steps if step.nested]
        return Plan(
            graph=self.graph,
            steps=tuple(steps),
            views=self.storage.views,
            roots=self.storage.roots,
            offsets={root: placed.offsets[home] for root, home in lives.home.items()},
            scratch={place: placed.offsets[name] for place, name in scratch.items()},
            arena_bytes=placed.bytes,
            lower_bound=placed.lower_bound,
            types=self.storage.types,
            intervals=lives.intervals,
            method="solver" if "solver" in inner else placed.method,
            threads=self.threads,
            states=self.states,
            state_offsets=self.state_offsets(),
            arenas=placed.arenas,
        )

    def step(self, place: int, work: Group | Opaque) -> PlannedStep:
        if isinstance(work, Group):
            made = self.implementation(place, work)
            if made.outside is not None:
                scratch = made.outside.body.scratch_bytes
                return PlannedStep(work, implementation=made, scratch=scratch)
            hoisted = self.hoisted(made.kernel)
            made = replace(made, kernel=hoisted.kernel, scratch=hoisted.offsets)
            return PlannedStep(work, implementation=made, scratch=hoisted.bytes * self.threads)
        compute = self.ops[work.node.op].compute
        if isinstance(compute, Extern):
            body = compute.function(call_of(work.node, self.storage.types))
            return PlannedStep(work, body=body, scratch=body.scratch_bytes)
        attributes: ScanAttributes = work.node.attributes
        body = expand(attributes.body, self.ops)
        inside = self.decide.inside(work)
        states = attributes.num_states
        nested = planned(
            body, self.ops, inside, self.threads, spread=self.spread, repeated=states > 0
        )
        inputs, outputs = nested.graph.inputs, nested.graph.outputs
        asked = (*work.node.outputs, *[""] * len(outputs))
        unasked = [
            value
            for value, outer in zip(outputs[states:], asked[states:], strict=False)
            if not outer
        ]
        carried = sum(
            memory.aligned(nested.types[value].bytes, ALIGNMENT)
            for value in (*inputs[:states], *outputs[:states], *unasked)
        )
        return PlannedStep(work, nested=nested, scratch=nested.arena_bytes + carried)

    def hoisted(self, kernel: Kernel) -> Hoisted:
        """The kernel with its large locals as parameters; equal layers share the loops."""
        found = self.bodies.get(id(kernel.body))
        if found is None or found[0].params != kernel.params:
            found = self.bodies[id(kernel.body)] = (
                kernel,
                hoist(kernel, ALIGNMENT, self.decide.stack_limit),
            )
        return replace(found[1], kernel=replace(found[1].kernel, name=kernel.name))

    def implementation(self, place: int, group: Group) -> Implementation:
        name, found = function_name(group), self.donation.made.get(place)
        if found is not None:
            return replace(found, kernel=replace(found.kernel, name=name))
        storage = self.storage
        kernel = self.decide.kernel
        return kernel(name, group, storage.views, storage.types, self.graph.constants)

    def order_step(self, place: int, step: PlannedStep) -> liveness.MemoryStep:
        before = self.donation.before.get(place, frozenset[int]()).union(
            *(self.storage.ready.get(value, frozenset()) for value in step.reads)
        )
        return liveness.MemoryStep(
            before=before,
            reads=self.arena_roots(step.reads),
            writes=self.arena_roots(step.writes),
            in_place=self.decide.in_place(step, self.in_place(step)),
            scratch=memory.aligned(step.scratch, ALIGNMENT),
        )

    def in_place(self, step: PlannedStep) -> InPlace:
        """Which operands' memory the result could take."""
        made = step.implementation
        if not isinstance(step.work, Group) or (made is not None and made.outside is not None):
            return ()
        return tuple(candidates(step.work, self.storage))

    def arena_roots(self, values: Iterable[str]) -> tuple[str, ...]:
        roots = dict.fromkeys(self.storage.views[value].root for value in values)
        return tuple(root for root in roots if self.storage.roots[root].region is Region.ARENA)


def _taken(step: liveness.MemoryStep, lives: liveness.Lifetimes) -> str:
    """The root whose memory the result of a step takes, if it takes any."""
    for made, source in step.in_place:
        if made != lives.home[made] == lives.home[source]:
            return source
    return ""


def function_name(group: Group) -> str:
    """A C identifier that says what a group does: ``conv_add_relu``."""
    if attention_of(group.compute) is not None:
        return "attention"
    found = dict.fromkeys(words(node.op) for node in group.nodes)
    return "_".join(found)[:40].rstrip("_")


def words(op: str) -> str:
    """An op's name as a C identifier: ``MaxPool`` becomes ``max_pool``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op).lower()
