"""Plan: everything decided, ready to be written as code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TypeAlias

from weft.ir.graph import Graph, Node
from weft.ir.printer import architecture
from weft.ir.types import TensorType
from weft.ops.record import ExternBody
from weft.plan.choice import Reason
from weft.plan.fusion import Group
from weft.plan.implementation import Implementation
from weft.plan.interval import Interval
from weft.plan.program import Arena, Region, located
from weft.plan.storage import Root
from weft.plan.strides import StridedView
from weft.plan.tensors import Opaque
from weft.plan.text import NO_CONSTRAINTS, BodyText, Constraints, PlanText, StepText
from weft.plan.written import facts_of, layer_text, values_text
from weft.records import dataclass
from weft.screen import COLUMNS, Screen, Shown, cut, several, some
from weft.targets.target import Target

ALIGNMENT = 64
InPlace: TypeAlias = tuple[tuple[str, str], ...]
"""Roots that may share memory: of a result, and of an operand."""


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
    def stages(self) -> tuple[tuple[Group, Implementation], ...]:
        """The groups of a fused chain with their kernels; empty for other steps."""
        if self.implementation is None or not isinstance(self.work, Group):
            return ()
        return tuple(zip(self.work.stages, self.implementation.stages, strict=True))

    @property
    def scheme(self) -> str:
        """What generates its loops; ``extern`` for a C body, ``scan`` for a nested plan."""
        if self.implementation is not None:
            return self.implementation.scheme
        return "extern" if self.nested is None else "scan"

    @property
    def reason(self) -> Reason | None:
        """Why it has this kernel, where there was a choice."""
        choice = self.implementation.choice if self.implementation is not None else None
        return choice.reason if choice is not None else None

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
        offsets: arena offsets of the arena roots, in bytes, counted through all regions.
        scratch: arena offsets of the steps' scratch memory, by step.
        arena_bytes: size of the arena; lower_bound: what no placement could beat.
        types: of all values, those that the plan added included.
        method: what found the offsets: ``greedy``, ``repaired``, or ``solver`` where one was used
            for the arena or within a step.
        threads: that there is scratch memory for.
        states: by input that is a state, the output that takes its memory.
        state_offsets: of the roots that are states, in bytes.
        target: the machine; constraints: that it was made under; of the whole network's plan.
        arenas: the regions of the arena; none where it is one.
    """

    graph: Graph
    steps: tuple[PlannedStep, ...]
    views: Mapping[str, StridedView]
    roots: Mapping[str, Root]
    offsets: Mapping[str, int]
    scratch: Mapping[int, int]
    arena_bytes: int
    lower_bound: int
    types: Mapping[str, TensorType]
    intervals: tuple[Interval, ...] = ()
    method: str = ""
    threads: int = 1
    target: Target | None = None
    constraints: Constraints = NO_CONSTRAINTS
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    state_offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    arenas: tuple[Arena, ...] = ()

    @property
    def state_bytes(self) -> int:
        """Size of the memory that is handed from run to run."""
        ends = (self.state_offsets[each] + self.types[each].bytes for each in self.states)
        return max(ends, default=0)

    @property
    def weight_bytes(self) -> int:
        """Size of all constants that steps read, before they are packed."""
        return sum(
            root.bytes for root in self.roots.values() if root.region is Region.WEIGHTS
        ) + sum(step.nested.weight_bytes for step in self.steps if step.nested)

    def __str__(self) -> str:
        """All decisions as text that ``Net.plan_from`` reads."""
        return str(written(self))

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


# --- text ----------------------------------------------------------------------------------


def written(plan: Plan, *, alternatives: bool = True) -> PlanText:
    """What the text of a plan says.

    Args:
        plan: of a network.
        alternatives: list them and the refusals, for which all generators are asked.
    """
    target = plan.target
    return PlanText(
        plan.graph.name,
        architecture(plan.graph),
        target.name if target else "",
        facts_of(target) if target else {},
        plan.threads,
        plan.constraints,
        _body(plan, alternatives),
        plan.states,
    )


def _body(plan: Plan, alternatives: bool) -> BodyText:
    return BodyText(
        tuple(values_text(plan.views, plan.roots, plan.types, plan.offsets, plan.arenas)),
        tuple(_step(plan, number, alternatives) for number in range(len(plan.steps))),
        plan.arena_bytes,
        plan.lower_bound,
        plan.method,
        plan.arenas,
    )


def _step(plan: Plan, number: int, alternatives: bool) -> StepText:
    step = plan.steps[number]
    constants, made = plan.graph.constants, step.implementation
    found = layer_text(step.nodes, step.reads, step.writes, made, alternatives, constants)
    stages = tuple(
        layer_text(group.nodes, group.reads, (group.value,), made, alternatives, constants)
        for group, made in step.stages
    )
    arena, offset = located(plan.arenas, plan.scratch.get(number, 0))
    return replace(
        found,
        kernel=step.scheme,
        reason=step.reason,
        in_place=step.in_place,
        scratch=step.scratch,
        scratch_offset=offset if step.scratch else 0,
        scratch_arena=arena if step.scratch else "",
        stages=stages,
        body=_body(step.nested, alternatives) if step.nested else None,
    )
